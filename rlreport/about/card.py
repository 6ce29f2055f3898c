"""Collect a run's configuration for the report, without credentials.

A name that contains a word such as ``token`` or ``pass`` is suspect. Its value is shown only if
it fits a harmless meaning of the name (``max_tokens: 512``, ``pad_token: <pad>``) or refers to
another value (``${TOKEN}``). The value of any other name is shown unless it assigns a value to a
suspect name (``--api-key=…``), has the form of a well-known credential, or looks random.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rlreport.errors import RowError, UsageError
from rlreport.system.documents import load_config
from rlreport.text.clean import safe_text, shortened
from rlreport.text.messages import clauses, listed, message, plural

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
_HARMLESS = tuple(
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
        (r".*_(?:type|mode|kind|style|strategy|backend|format|dispatcher|side)", _WORDS),
        (r".*_?(?:file|path|dir|folder)|(?:old)?pwd", _PATH),
    )
)

_PLACEHOLDER = re.compile(
    r"<[A-Z_]{1,40}>|<\|[\w▁-]{1,40}\|>|\[[A-Z_]{1,20}\]|\[text\]|x{3,}|\*{3,}|…|-"
    r"|(?i:empty|none|null|true|false|yes|no|on|off|auto|default|dummy(?:[_-]key)?)"
)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_REFERENCE = re.compile(
    r"\$\{(?:[\w.]+:)?[\w.]*(?:, ?[\d.]+)*(?::-[\d.]*)?\}|\{\{ ?[\w.]+ ?\}\}|%\([\w.]+\)s"
    r"|\$(?:[A-Z][A-Z0-9_]*|[a-z]+(?:_[a-z]+)+|\d|$)"
)

_SHAPE = re.compile(
    r"""
    \bsk-[\w-]{16,} | \b(?:sk|pk|rk)_(?=[\w-]{0,80}\d)[\w-]{16,} | \b(?:hf|api_org)_[a-z0-9]{16,}
    | \bgh[pousr]_\w{16,} | \bgithub_pat_\w{16,} | \bglpat-[\w-]{16,} | \bxox[abeprs]-[\w-]{10,}
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

# The same, and ``TOKEN`` before a value in a list or a mapping
_SECRET_NAME = re.compile(rf"{_NAME_BEFORE_VALUE.pattern}|(?-i:[A-Z][A-Z\d_]+)", re.IGNORECASE)
_NAME_KEYS = frozenset(("name", "key", "k", "variable", "var", "field", "header", "env", "type"))
_VALUE_KEYS = frozenset(("value", "val"))

# A text with more blanks is prose, where "the key: a word" does not assign a value to a key
_PROSE_BLANKS = 8

# In random text, upper case, lower case and digits alternate far more often than in names.
_RUN = re.compile(r"[A-Za-z0-9]+")
_LONG_RUN = re.compile(r"[\w+/=-]{16,}", re.ASCII)
_CHUNK = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_NO_WORD = re.compile(
    r"(?=\d{0,19}[a-f])(?=[a-f]{0,19}\d)[0-9a-f]{20}|[bcdfghjklmnpqrstvwxz]{6}", re.IGNORECASE
)
_HASH_NAME = re.compile(r"commit|sha\d*|revision|rev|hash|digest|md5|checksum|fingerprint|ref")
_ID_NAME = re.compile(r"id|uid|uuid|guid|run|job|trial|experiment")
_HEX = re.compile(r"[0-9a-f]{7,128}", re.IGNORECASE)
_PUBLIC_HASH = re.compile(
    r"(?:sha256|commit|rev(?:ision)?|ref|\.git|snapshots|blobs?|tree)\W{1,4}[0-9a-f]{40,64}\b",
    re.IGNORECASE,
)


def is_secret(name: str, value: Scalar) -> bool:
    if _holds_secret(name, ()):
        return True
    if value is None or isinstance(value, bool):
        return False
    text = str(value).strip()
    if not _is_harmless(name, text):
        return True
    return isinstance(value, str) and _holds_secret(text, _words(name))


def _is_harmless(name: str, text: str) -> bool:
    """Return whether a name is not suspect, or has a harmless value: ``max_tokens`` with 512."""
    parts = ["_".join(_words(part)) for part in name.split(".") if _is_suspect(part)]
    if not parts or _is_reference(text):
        return True
    return all(
        _is_reference(item)
        or all(any(n.fullmatch(part) and v.fullmatch(item) for n, v in _HARMLESS) for part in parts)
        for item in text.split(", ")
    )


def _is_suspect(part: str) -> bool:
    words = _words(part)
    if any(_SUSPECT_WORD.fullmatch(word) for word in words):
        return True
    rest = "_".join(word for word in words if not _HARMLESS_WORD.fullmatch(word))
    return bool(_SUSPECT.search(rest))


def _is_reference(text: str) -> bool:
    """Return whether a text is a placeholder or a variable: ``<KEY>``, ``HF_TOKEN``, ``${key}``."""
    if _VARIABLE.fullmatch(text) and _is_suspect(text):
        return True
    previous = ""
    while text != previous:
        previous, text = text, _REFERENCE.sub("0", text)
    return text in ("", "0") or bool(_PLACEHOLDER.fullmatch(text))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _holds_secret(text: str, words: list[str] | tuple[()]) -> bool:
    """Return whether a text looks like a credential; ``words`` are the words of its name."""
    if _SHAPE.search(text) or _PASSWORD.fullmatch(text) or _assigns_secret(text):
        return True
    if any(_HASH_NAME.fullmatch(word) for word in words) and _HEX.fullmatch(text):
        return False
    if _UUID.fullmatch(text) and not any(_ID_NAME.fullmatch(word) for word in words):
        return True
    long_runs = _LONG_RUN.findall(_PUBLIC_HASH.sub("", text))
    return any(_is_random(run) for long_run in long_runs for run in _RUN.findall(long_run))


def _assigns_secret(text: str) -> bool:
    prose = text.count(" ") - text.count(", ") > _PROSE_BLANKS
    position = 0
    while match := _ASSIGNED.search(text, position):
        position = match.end("name")
        name, sign, value = match.group("name", "sign", "value")
        bare_name = name.lstrip("-")
        if sign.strip() in ("", ","):
            is_flag = name.startswith("-") and not value.startswith("-")
            is_variable = _VARIABLE.fullmatch(bare_name) and not _VARIABLE.fullmatch(value)
            is_whole = match.span() == (0, len(text))
            secret_name = _SECRET_NAME if is_whole and "," in sign else _NAME_BEFORE_VALUE
            name_in_list = secret_name.fullmatch(bare_name) and not prose
            in_list = is_whole or "," in sign or text[: match.start()].endswith(("ENV ", "setenv "))
            if not (is_flag or (in_list and (is_variable or name_in_list))):
                continue
        elif (
            (prose or sign.strip() == "is")
            and value.isalpha()
            and not _NAME_BEFORE_VALUE.fullmatch(bare_name)
        ):
            continue
        if not _is_harmless(bare_name, value.rstrip(".")):
            return True
    return any(_is_suspect(match.group(1)) for match in _PAIRED.finditer(text))


def _is_random(run: str) -> bool:
    size = len(run)
    chunks = len(_CHUNK.findall(run))
    if run.lower() != run != run.upper():
        return size >= 10 and size < 2.7 * chunks
    return size >= 20 and (size < 3.6 * chunks or bool(_NO_WORD.search(run)))


def named_value(pairs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert ``{key: API_KEY, value: x}`` to ``{API_KEY: {value: x}}``; else return ``pairs``."""
    has_value = not _VALUE_KEYS.isdisjoint(map(str.lower, pairs))
    for key, name in pairs.items():
        if key.lower() in _VALUE_KEYS or not isinstance(name, str) or " " in name:
            continue
        signs = has_value, key.lower() in _NAME_KEYS, bool(_SECRET_NAME.fullmatch(name))
        if sum(signs) > 1 and _is_suspect(name):
            return {name: {other: pairs[other] for other in pairs if other != key}}
    return pairs


# Paths of configuration files, relative to the folder of the logs or to its parent
CONFIGURATIONS = (
    "config.yaml", "config.yml", "config.json", "config.toml", ".hydra/config.yaml", "args.json",
    "training_args.json", "training_args.yaml", "trainer_state.json",
)  # fmt: skip

MOST_ENTRIES = 2_000  # maximum number of entries
MOST_CHARACTERS = 500  # maximum characters of a name or a value
MOST_IN_ALL = 60_000  # maximum characters of all names and values together
_MAX_BITS = 63  # larger integers are replaced by a description
_MAX_CHECKED = 20_000  # only this many characters of a value are searched for secrets
_NESTED = (Mapping, list, tuple)
_MAX_DEPTH = 24  # values nested deeper are ignored
_MAX_NESTING, _INDENT = 12, "  "  # maximum nesting, and indentation per level, on a page
# Entries of configuration files that are results of the run, not settings
_RESULT_ENTRIES = ("log_history",)

_PROSE_NAME = re.compile(r"prompt|system|template|instruct", re.IGNORECASE)
_CARD_NUMBER = r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?"
_NUMBERS_OR_CONSTANT = re.compile(rf"{_CARD_NUMBER}(?:, {_CARD_NUMBER})*|True|False|null")
# Matches names, paths, URLs and ``${references}``, which are never prose
_IDENTIFIER = re.compile(r"[\w.,:/@=+~${}\[\]-]{1,200}", re.ASCII)


@dataclass(slots=True)
class Card:
    """The configuration of a run (card): names with values, without likely secrets."""

    # dotted name such as ``optim.lr`` -> value; later sources replace earlier values
    entries: dict[str, Scalar] = field(default_factory=dict)
    # where the entries come from: file names without folders, ``--meta``, ``git``
    sources: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)  # the configuration files among them
    secrets: set[str] = field(default_factory=set)  # names of the entries omitted as likely secrets
    cut: int = 0  # number of entries omitted because of MOST_ENTRIES or MOST_IN_ALL
    # one sentence per configuration file that could not be read
    notes: list[str] = field(default_factory=list)
    withheld: bool = False  # whether entries existed, but ``--redact=names`` removed all of them

    def as_json(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in ("entries", "sources", "cut")}
        return facts | {"hidden": len(self.secrets)}

    def without_texts(self) -> Card:
        """Return a copy in which ``[text]`` replaces values that may be prose, such as a prompt."""
        entries = {
            name: redacted_text(name, value) if isinstance(value, str) else value
            for name, value in self.entries.items()
        }
        return replace(self, entries=entries)


def run_card(
    logs: Sequence[str | Path],
    *,
    configs: Sequence[str | Path] = (),
    meta: Mapping[str, str] | None = None,
    git: bool = False,
) -> Card:
    card = Card()
    for path in map(Path, configs or _configurations_of(logs)):
        try:
            values = load_config(path)
        except (OSError, ValueError) as error:
            reason = message(
                "{file}: cannot be read as a configuration: {why}",
                file=path.name,
                why=_error_text(error),
            )
            if configs:
                raise UsageError(f"--config {reason}") from None
            card.notes.append(reason)
            continue
        if isinstance(values, Mapping):
            settings = {k: v for k, v in values.items() if k not in _RESULT_ENTRIES}
            _add(card, path.name, settings)
            card.paths.append(path)
        elif configs:
            raise UsageError(f"--config {path.name}: contains no settings")
    if meta:
        _add(card, "--meta", meta)
    if git:
        _add(card, "git", _git())
    return card


def configured(folder: Path) -> list[Path]:
    return [folder / name for name in CONFIGURATIONS if (folder / name).is_file()]


def redacted_text(name: str, text: str) -> str:
    """Return a configuration value, or "[text]" if its name or form suggests prose."""
    if _NUMBERS_OR_CONSTANT.fullmatch(text):
        return text
    harmless = _IDENTIFIER.fullmatch(text) and not _PROSE_NAME.search(name)
    return text if harmless else "[text]"


def card_texts(entries: Mapping[str, Any]) -> dict[str, str]:
    """Return the entries of a configuration as texts, by ``config.`` and their dotted name."""
    return {
        f"config.{name}": "null" if value is None else str(value)
        for name, value in card_values(entries).items()
    }


def card_values(entries: Mapping[str, Any]) -> dict[str, Scalar]:
    """Flatten the configuration in an earlier report to dotted names; drop likely secrets."""
    return {
        name: shortened(value, MOST_CHARACTERS) if isinstance(value, str) else value
        for name, value in islice(_scalars(entries), MOST_ENTRIES)
        if not is_secret(name, value)
    }


def _configurations_of(logs: Sequence[str | Path]) -> list[Path]:
    candidates = set()
    for path in (Path(log) for log in logs if "://" not in str(log)):
        folder = path if path.is_dir() else path.parent
        candidates.add(tuple(configured(folder) or configured(folder.parent)))
    # Logs with different configurations are several runs, so that none applies.
    candidates.discard(())
    return list(candidates.pop()) if len(candidates) == 1 else []


def _add(card: Card, source: str, values: Mapping[str, Any]) -> None:
    card.sources.append(source)
    room = MOST_IN_ALL - sum(len(name) + len(str(value)) for name, value in card.entries.items())
    for name, value in _scalars(values):
        short_value = shortened(value, MOST_CHARACTERS) if isinstance(value, str) else value
        size = len(name) + len(str(short_value))
        if is_secret(name, value):
            card.secrets.add(name)
            card.entries.pop(name, None)
        elif len(card.entries) < MOST_ENTRIES and size <= room:
            card.entries[name] = short_value
            room -= size
        else:
            card.cut += 1
            card.entries.pop(name, None)


def _scalars(values: Mapping[str, Any]) -> Iterator[tuple[str, Scalar]]:
    for name, value in islice(_nodes("", values, 0), 4 * MOST_ENTRIES):
        if not isinstance(value, _NESTED):
            yield name, value


def _nodes(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of a value and all in it; a list of scalars is one text."""
    if isinstance(value, Mapping):
        yield name, value
        pairs = named_value({_text(key): child for key, child in value.items()})
        children: Iterable[tuple[Any, Any]] = pairs.items()
    elif isinstance(value, (list, tuple)):
        items = chain.from_iterable(i if isinstance(i, (list, tuple)) else [i] for i in value)
        scalars = (item for item in items if not isinstance(item, _NESTED))
        text = _text(", ".join(map(_text, islice(scalars, 100))))
        # A name and its value may be lists of one item: [[--password], [hunter2]].
        if not any(isinstance(item, _NESTED) for item in value) or _assigns_secret(text):
            yield name, text
            return
        yield name, value
        children = enumerate(value)
    else:
        is_large = isinstance(value, int) and value.bit_length() > _MAX_BITS
        is_json_scalar = not is_large and isinstance(value, (bool, int, float, type(None)))
        yield name, value if is_json_scalar else _text(value)
        return
    for key, child in children if depth < _MAX_DEPTH else ():
        prefix = f"{name}." if name else ""
        yield from _nodes(shortened(prefix + _text(key), MOST_CHARACTERS), child, depth + 1)


def _text(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        # str() fails for integers of thousands of digits
        return f"an integer of {value.bit_length():,} bits"
    return safe_text(str(value)[:_MAX_CHECKED])


def _error_text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return error.reason if isinstance(error, RowError) else str(error)[:200]


def _git() -> dict[str, Scalar]:
    def git(*words: str) -> str | None:
        command = ["git", "--no-optional-locks", *words]
        try:
            process = subprocess.run(
                command, capture_output=True, timeout=10, check=True, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return process.stdout.decode("utf-8", "replace").strip()

    commit = git("rev-parse", "HEAD")
    if not commit:
        return {}
    changes = git("status", "--porcelain", "--untracked-files=no")
    return {
        "git.commit": commit,
        "git.branch": git("rev-parse", "--abbrev-ref", "HEAD"),
        "git.dirty": None if changes is None else bool(changes),
    }


def card_view(card: Card) -> dict[str, str] | None:
    if card.withheld:
        return {"summary": message("Configuration: omitted by --redact=names"), "text": ""}
    entries = len(card.entries)
    hidden = len(card.secrets)
    files = listed(card.sources)
    if not (entries or hidden or card.cut):
        return None
    shown = plural(
        "{count} entry from {files}", "{count} entries from {files}", entries, files=files
    )
    secret = plural(
        "{count} omitted as a likely secret", "{count} omitted as likely secrets", hidden
    )
    cut = message("{count:count} omitted, as the configuration is too long", count=card.cut)
    parts = [shown, secret if hidden else "", cut if card.cut else ""]
    summary = message("Configuration: {what}", what=clauses(parts))
    return {"summary": summary, "text": "\n".join(_card_lines(card))}


def _card_lines(card: Card) -> list[str]:
    lines: list[str] = []
    previous_groups: list[str] = []
    for name, value in card.entries.items():
        *groups, label = name.split(".", _MAX_NESTING)
        lines += [
            f"{_INDENT * depth}{group}:"
            for depth, group in enumerate(groups)
            if groups[: depth + 1] != previous_groups[: depth + 1]
        ]
        previous_groups = groups
        lines.append(f"{_INDENT * len(groups)}{label}: {_value_text(value)}")
    return lines


def _value_text(value: Scalar) -> str:
    if isinstance(value, str):
        return " ".join(value.split())
    return str(value) if type(value) in (int, float) else json.dumps(value)
