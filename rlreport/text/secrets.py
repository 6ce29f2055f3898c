"""Recognize settings that may hold a credential: they are left out of reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Scalar = str | int | float | bool | None

_SUSPECT = re.compile(
    r"token|key|secret|pass|pwd|auth|cred|bearer|cookie|private|webhook|mnemonic|session_?id"
    r"|conn(?:ection)?_?str|密码|口令|[密秘私]钥|令牌|凭[证据]|授权|パスワード|トークン|парол|senha"
    r"|kennwort|contrase|mot_?de_?passe|(?<![a-z])mdp(?![a-z])",
    re.IGNORECASE,
)
_SUSPECT_WORD = re.compile(
    r"pw|pin|dsn|jwt|otp|totp|mfa|psk|hmac|sas|sig|signature|salt|sid|tok|pat"
)
# Matches harmless words that contain a suspect one, such as ``tokenizer`` (``token``)
_HARMLESS_WORD = re.compile(
    r"(?:de|un|pre|re)?(?:fas)?tokeni[sz]\w*|fastokens?|author(?:s|ed|ity|itative\w*)?|authentic"
    r"|key(?:words?|frames?|points?|notes?|board)|monkey|credits?|incredible|secretary"
    r"|bypass\w*|pass(?:ages?|ed|es|ing|through|ive)|(?:en)?compass"
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")

_NUMBER = r"[-+]?(?:(?:\d[\d_]*\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf|nan)"
_WORDS = r"[A-Za-z][A-Za-z_.-]{0,40}"
_PATH = r"(?:\w+:/)?[\w.~-]*(?:/[\w.=~-]*)+"
# Pairs of patterns: a suspect name in snake_case, and the harmless values of such a name
_HARMLESS = [
    (re.compile(name), re.compile(value, re.IGNORECASE))
    for name, value in (
        # Counts of tokens, lengths and ids; pass@k.
        (
            r"(?=.*(?:tok|pass_(?:at|k|rate)))"
            r"(?!.*(?:api|access|auth|hub|hf|bearer|refresh|session))"
            r"(?:(?:.*_)?(?:max|min|num|n|count|total|per|new|len|length|size|limit|budget|level"
            r"|weight|ratio|penalty|coef|coeff|loss|ids?|at|k|batched|cached|prompt|response"
            r"|input|output|completion|context|generated|chunk|block|window|speculative|draft"
            r"|mb|kept|bytes|gpu|s)(?:_.*)?|(?:.*_)?tokens)",
            _NUMBER,
        ),
        # Special tokens and stop texts.
        (
            r"(?:.*_)?(?:pad(?:ding)?|eos|bos|unk|sep|cls|mask|image|img|video|audio|boi|eoi|start|end"
            r"|stop|begin|special|separator|think(?:ing)?|additional_special|extra_special)_tokens?",
            r"<[^<>\s]{1,40}>|\[\w{1,20}\]|[^\w\s]{1,8}|\\n|[a-z]{1,16}:?",
        ),
        # Columns of a data set.
        (
            r"(?:(?:prompts?|responses?|input|output|labels?|answer|images?|videos?|audio|data|source"
            r"|messages?|tools?|problem|solution|text|demo|reward|model|fn|question|query|chosen"
            r"|rejected|target|reference|ground|truth|index|uid|extra|info|conversations?|system"
            r"|instruction|context|metrics?|enable|thinking|dict|group|sort|score|completion"
            r"|column|field|dataset|task|difficulty|step|batch|feature|state)_)+keys?",
            _WORDS,
        ),
        # Choices by name; locations.
        (
            r".*_(?:type|mode|kind|style|strategy|backend|format|dispatcher|side)",
            _WORDS,
        ),
        (r".*_?(?:file|path|dir|folder)|(?:old)?pwd", _PATH),
    )
]

_PLACEHOLDER = re.compile(
    r"<[A-Z_]{1,40}>|<\|[\w▁-]{1,40}\|>|\[[A-Z_]{1,20}\]|\[text\]|x{3,}|\*{3,}|…|-"
    r"|(?i:empty|none|null|true|false|yes|no|on|off|auto|default|dummy(?:[_-]key)?)"
)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_REFERENCE = re.compile(
    r"\$\{(?:[\w.]+:)?[\w.]*(?:, ?[\d.]+)*(?::-[\d.]*)?\}|\{\{ ?[\w.]+ ?\}\}|%\([\w.]+\)s"
    r"|\$(?:[A-Z][A-Z0-9_]*|[a-z]+(?:_[a-z]+)+|\d|$)"
)

_STAND_IN = "0"  # replaces a reference; ``_REFERENCE`` allows digits in another one

# Matches credentials by their form, such as the prefix of a provider, or a password in a URL
_SHAPE = re.compile(
    r"""
    \bsk-[\w-]{16,} | \b(?:sk|pk|rk)_(?=[\w-]{0,80}\d)[\w-]{16,} | \b(?:hf|api_org)_[a-z0-9]{16,}
    | \bgh[pousr]_\w{16,} | \bgithub_pat_\w{16,} | \bglpat-[\w-]{16,} | \bxox[abeprs]-[\w-]{10,}
    | \b(?:nvapi|xai|pplx)-[\w-]{16,} | \b(?:gsk|r8|npm|dckr_pat|lsv2_(?:pt|sk))_\w{16,}
    | \b(?:api|access|auth|secret)[ ](?:key|token)\b[^.;\n]{0,30}?[\s:'"]
      (?=[\w-]{0,80}\d)(?=[\w-]{0,80}[a-z])[\w-]{8,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{12,} | \bAIza[\w-]{20,} | \bya29\.[\w-]{10,}
    | \beyJ[\w-]{8,200}\.[\w-]{8,} | -----BEGIN
    | \bBearer\s+(?!token)[\w+/=.-]{4,} | \bBasic\s+(?=\S{0,200}[\d=])[a-z0-9+/=]{8,}
    | \bBasic\s+(?=\w*(?-i:[a-z][A-Z]))(?:[a-z0-9+/]{4}){2,}(?![\w.-])
    | (?<!:)//[^/\s@:]{1,100}:[^/\s@]{1,200}@
    | (?<!\babfs)(?<!\babfss)(?<!\bwasbs)://(?!git@)[^/\s@]{1,200}@
    | (?<![\w/.-])[\w.-]{1,100}+:[^/\s@:]{1,200}@[\w.-]
    | \s(?:-u|--user)[\s=,]+[^\s:]{1,100}:\S | \blogin\s+\S{1,100}\s+password\s+\S
    | \b(?:sshpass|mysql|redis-cli|docker\s+login)\b[^|;\n]{0,100}\s-[pa]\s?\S
    | \bwandb\s+login\s+\S
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PASSWORD = re.compile(r"(?=.*\d)(?=.*[a-z])(?=.*[!#$^&])[\w!#$^&@+?~-]{8,64}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

_ASSIGNED = re.compile(
    r"""
    (?<![\w.-]) (?P<name>[\w.-]{1,200}+) ["'\]]{0,2}
    (?P<sign> \s*(?:=>|:=|[=:](?!=))[\s,]* | \ is\s+ | > | [\s,]+ )
    ["'\[]{0,3} (?P<value>[^\s"',;&<>(){}\[\]|\\]{1,200})
    """,
    re.VERBOSE,
)
_PAIRED = re.compile(
    r"""["']?(?:name|key|variable)["']?\s*[=:]\s*["']?([\w.-]+)["']?[\s,]+
    ["']?(?:value|val)["']?\s*[=:]\s*["']?[^\s"']""",
    re.IGNORECASE | re.VERBOSE,
)
# Matches suspect names after which even a value without ``=`` counts: ``api_key, abc123``
_NAME_BEFORE_VALUE = re.compile(
    r"(?:\w*(?:passw|secret|authori|cred|pwd|cookie)\w*"
    r"|(?:\w+_)?(?:api|access|private|auth|hf|hub|bearer)[_-]?(?:key|token))",
    re.IGNORECASE,
)

_API_KEY = re.compile(
    r"(?:.*[^a-z])?(?:api|access|private|auth|hf|hub|bearer)[_-]?(?:key|token)",
    re.IGNORECASE,
)

# The same, and ``TOKEN`` before a value in a list or a mapping
_SECRET_NAME = re.compile(
    rf"{_NAME_BEFORE_VALUE.pattern}|(?-i:[A-Z][A-Z\d_]+)", re.IGNORECASE
)
_NAME_KEYS = frozenset(
    ("name", "key", "k", "variable", "var", "field", "header", "env", "type")
)
_VALUE_KEYS = frozenset(("value", "val"))

# A text with more blanks is prose, where "the key: a word" does not assign a value to a key
_PROSE_BLANKS = 8

# In random text, upper case, lower case and digits alternate far more often than in names: its
# chunks of one kind have fewer characters than this on average, if it has both cases or only one
_CHUNK_OF_BOTH_CASES = 2.7
_CHUNK_OF_ONE_CASE = 3.6
# Shorter texts cannot be told from names
_LEAST_OF_BOTH_CASES = 10
_LEAST_OF_ONE_CASE = 20
_RUN = re.compile(r"[A-Za-z0-9]+")
_LONG_RUN = re.compile(r"[\w+/=-]{16,}", re.ASCII)
_CHUNK = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_NO_WORD = re.compile(
    r"(?=\d{0,19}[a-f])(?=[a-f]{0,19}\d)[0-9a-f]{20}|[bcdfghjklmnpqrstvwxz]{6}",
    re.IGNORECASE,
)
_HASH_NAME = re.compile(
    r"commit|sha\d*|revision|rev|hash|digest|md5|checksum|fingerprint|ref"
)
_ID_NAME = re.compile(r"id|uid|uuid|guid|run|job|trial|experiment")
_HEX = re.compile(r"[0-9a-f]{7,128}", re.IGNORECASE)
_PUBLIC_HASH = re.compile(
    r"(?:sha256|commit|rev(?:ision)?|ref|\.git|snapshots|blobs?|tree)\W{1,4}[0-9a-f]{40,64}\b",
    re.IGNORECASE,
)


def is_secret(name: str, value: Scalar) -> bool:
    """Return whether a setting may hold a credential, by its name or its value."""
    # A name may itself contain one, such as the key of a mapping from tokens to users.
    if _holds_secret(name, ()):
        return True
    if value is None or isinstance(value, bool):
        return False
    text = str(value).strip()
    if not _is_harmless(name, text):
        return True
    # A number is no credential unless its name is suspect.
    return isinstance(value, str) and _holds_secret(text, _words(name))


def is_api_key(name: str, text: str) -> bool:
    """Return whether a field of a logged row holds a key of an interface, by its name.

    Names such as ``password`` and ``secret`` may be those of a game that the policy plays.
    """
    return bool(_API_KEY.fullmatch(name)) and not _is_reference(text.strip())


def _is_harmless(name: str, text: str) -> bool:
    """Return whether a name is not suspect, or has a harmless value: ``max_tokens`` with 512."""
    suspect_parts = filter(_is_suspect, name.split("."))
    suspect_names = ["_".join(_words(part)) for part in suspect_parts]  # in snake_case
    if not suspect_names or _is_reference(text):
        return True
    # A list is one text of items.
    return all(_is_harmless_item(suspect_names, item) for item in text.split(", "))


def _is_harmless_item(names: list[str], value: str) -> bool:
    """Return whether a value is harmless under each of the suspect names."""
    if _is_reference(value):
        return True
    return all(_is_harmless_value(name, value) for name in names)


def _is_harmless_value(name: str, value: str) -> bool:
    for harmless_name, harmless_value in _HARMLESS:
        if harmless_name.fullmatch(name) and harmless_value.fullmatch(value):
            return True
    return False


def _is_suspect(part: str) -> bool:
    """Return whether a name has a word such as ``token``."""
    words = _words(part)
    # Short words count only as whole ones: "pin" is in "pinned", too.
    if any(_SUSPECT_WORD.fullmatch(word) for word in words):
        return True
    rest = "_".join(word for word in words if not _HARMLESS_WORD.fullmatch(word))
    return bool(_SUSPECT.search(rest))


def _is_reference(text: str) -> bool:
    """Return whether a text is a placeholder or a variable: ``<KEY>``, ``HF_TOKEN``, ``${key}``."""
    # HF_TOKEN names a variable with the secret; another word in capitals may be the secret itself.
    if _VARIABLE.fullmatch(text) and _is_suspect(text):
        return True
    # Replace references from the inside out: ${a:${b}} becomes ${a:0}, then 0.
    replaced = _REFERENCE.sub(_STAND_IN, text)
    while replaced != text:
        text = replaced
        replaced = _REFERENCE.sub(_STAND_IN, text)
    # An empty text is no secret either.
    return text in ("", _STAND_IN) or bool(_PLACEHOLDER.fullmatch(text))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _holds_secret(text: str, words: list[str] | tuple[()]) -> bool:
    """Return whether a text looks like a credential; ``words`` are the words of its name."""
    if _SHAPE.search(text) or _PASSWORD.fullmatch(text) or assigns_secret(text):
        return True
    # Hashes of commits and files, and ids of runs, look random but are public.
    if any(_HASH_NAME.fullmatch(word) for word in words) and _HEX.fullmatch(text):
        return False
    if _UUID.fullmatch(text) and not any(_ID_NAME.fullmatch(word) for word in words):
        return True
    # In what remains without public hashes, look for a part of random letters and digits.
    for long_run in _LONG_RUN.findall(_PUBLIC_HASH.sub("", text)):
        if any(map(_is_random, _RUN.findall(long_run))):
            return True
    return False


def assigns_secret(text: str) -> bool:
    """Return whether a text has a suspect name with a value: ``api_key=abc``, ``--token abc``."""
    # A comma and a blank separate items of a list, not only clauses.
    blanks_of_prose = text.count(" ") - text.count(", ")
    is_prose = blanks_of_prose > _PROSE_BLANKS
    position = 0
    while match := _ASSIGNED.search(text, position):
        position = match.end("name")  # what looks like the value may be the next name
        # With only a blank or a comma between them, most pairs of words are no assignment.
        if match["sign"].strip() in ("", ","):
            is_assigned = _is_name_before_value(match, is_prose=is_prose)
        else:
            is_assigned = not _is_word_of_prose(match, is_prose=is_prose)
        name = match["name"].lstrip("-")
        if is_assigned and not _is_harmless(name, match["value"].rstrip(".")):
            return True
    # A name and a value given apart: ``name: API_KEY, value: abc``
    return any(_is_suspect(match.group(1)) for match in _PAIRED.finditer(text))


def _is_name_before_value(match: re.Match[str], *, is_prose: bool) -> bool:
    """Return whether a name and a text after a blank or comma are a flag or an item of a list."""
    text = match.string
    name, sign, value = match.group("name", "sign", "value")
    bare_name = name.lstrip("-")
    # A flag and its value; a second flag in the place of the value means that it takes none.
    if name.startswith("-") and not value.startswith("-"):
        return True
    is_whole = match.span() == (0, len(text))  # the text has nothing else
    # ENV is of a Dockerfile, setenv of csh.
    is_set = text[: match.start()].endswith(("ENV ", "setenv "))
    if not (is_whole or is_set or "," in sign):
        return False
    if _VARIABLE.fullmatch(bare_name) and not _VARIABLE.fullmatch(value):
        return True
    pattern = _SECRET_NAME if is_whole and "," in sign else _NAME_BEFORE_VALUE
    return not is_prose and bool(pattern.fullmatch(bare_name))


def _is_word_of_prose(match: re.Match[str], *, is_prose: bool) -> bool:
    """Return whether what looks like an assignment is a sentence: "the key: a word"."""
    name, sign, value = match.group("name", "sign", "value")
    may_be_prose = is_prose or sign.strip() == "is"
    if not may_be_prose or not value.isalpha():
        return False
    # Even in prose, "password: hunter" assigns.
    return not _NAME_BEFORE_VALUE.fullmatch(name.lstrip("-"))


def _is_random(text: str) -> bool:
    """Return whether letters and digits alternate as in random text, not as in names.

    ``text`` has only ASCII letters and digits.
    """
    size = len(text)
    # A chunk is a word, perhaps capitalized, letters in upper case, or digits.
    chunks = len(_CHUNK.findall(text))
    has_both_cases = text not in (text.lower(), text.upper())
    if has_both_cases:
        return size >= _LEAST_OF_BOTH_CASES and size < _CHUNK_OF_BOTH_CASES * chunks
    if size < _LEAST_OF_ONE_CASE:
        return False
    return size < _CHUNK_OF_ONE_CASE * chunks or bool(_NO_WORD.search(text))


def named_value(pairs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert ``{key: API_KEY, value: x}`` to ``{API_KEY: {value: x}}``; else return ``pairs``."""
    has_value = not _VALUE_KEYS.isdisjoint(map(str.lower, pairs))
    for key, name in pairs.items():
        # The name is a text without blanks under another key than that of the value.
        if key.lower() in _VALUE_KEYS or not isinstance(name, str) or " " in name:
            continue
        is_name_key = key.lower() in _NAME_KEYS
        is_secret_name = bool(_SECRET_NAME.fullmatch(name))
        # Any one of these is common: ``name: tokenizer``, or a list of keys.
        signs = [has_value, is_name_key, is_secret_name]
        if signs.count(True) > 1 and _is_suspect(name):
            return {name: {other: pairs[other] for other in pairs if other != key}}
    return pairs


def without_secrets(values: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return nested settings without those that may hold a credential.

    ``name`` is the dotted name of ``values``, "" for the whole.
    """
    kept: dict[str, Any] = {}
    for key, value in named_value(values).items():
        dotted_name = f"{name}.{key}" if name else key
        if isinstance(value, Mapping):
            kept[key] = without_secrets(value, dotted_name)
            continue
        text = value
        if isinstance(value, list | tuple):
            text = ", ".join(map(str, value))
        if not is_secret(dotted_name, text):
            kept[key] = value
    return kept
