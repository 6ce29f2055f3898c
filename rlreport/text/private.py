"""Recognize names of paths, hosts, people and projects, which a public report leaves out.

A name is recognized by its form, such as a path or an address, by what its setting is called, such
as ``wandb.entity``, also where a text sets it (``--user bob``), or as a name that was found in one
of these ways elsewhere in the same run. A line that may hold a credential is left out as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from rlreport.text.messages import message
from rlreport.text.secrets import is_secret

PUBLIC = message(
    "Names of files, folders, hosts, people and projects are left out (--public)."
)

# Characters that end a path or an address in a text
_END = r"\s\"'`<>|,;()\[\]{}，。；：、（）【】《》“”"

_URL = rf"\b[a-z][a-z0-9+.-]{{1,20}}://[^{_END}]+"
# Also of ssh: alice@node7:runs and alice@node7; not mean@8, which is a metric
_MAIL = (
    rf"(?<![\w.+-])[\w.+-]+@(?:(?:[\w-]+\.)+[^\W\d_][\w-]+(?::[^{_END}]*)?"
    rf"|[a-z][\w-]*:[\w~/.][^{_END}]*|[a-z][\w-]*[\d-][\w-]*)"
)
_IP = (
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?![\w.]*\w)"
    r"|(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{0,4}(?![\w:])"
    r"|(?<![\w:])(?:[0-9a-f]{1,4}:)*:(?:[0-9a-f]{1,4}:)*[0-9a-f]{1,4}(?![\w:])"
)
# What may follow a host, such as the name of an image in a registry
_ON_HOST = rf"(?::\d+)?(?:/[^{_END}]*)?(?![\w.-])"
_HOST = (
    r"(?<![\w.-])(?:[\w-]+\.)+(?:com|org|net|io|ai|edu|gov|mil|cn|hk|tw|jp|kr|in|sg|au|ca|br|de|uk"
    r"|fr|nl|ch|eu|ru|us|dev|cloud|app|tech|local|localdomain|internal|intranet|intra|lan|corp"
    rf"|home|private|cluster|svc|consul){_ON_HOST}"
    # A name with a digit or a hyphen and a port: node7:29500
    rf"|(?<![\w./-])(?=[a-z]*[\d-])[a-z][\w-]*:\d{{4,5}}(?![\w.:-])(?:/[^{_END}]*)?"
)
# Absolute paths, those of Windows, and those that begin at a home or in a folder above
_PATH = (
    # In quotation marks, also with blanks
    r"(?<=['\"`])(?:~[\w.-]*|\.{1,2}|[A-Za-z]:)?[/\\][^'\"`\n/\\]+[/\\][^'\"`\n]*(?=['\"`])"
    # Also on a host: nfs-1:/data/x
    r"|(?<![\w.)\]}])(?:(?<![\w.-])[\w.-]{2,64}:)?(?:~[\w.-]*|\.{1,2})?"
    rf"(?:/[\w.~@%+=:-]+){{2,}}/?[^{_END}]*"
    # After a word or a full stop without a blank in between, as in Chinese
    rf"|(?<=[^\W\d_a-z]|(?<=\w)\.)(?:/[\w.~@%+=:-]+){{2,}}/?[^{_END}]*"
    rf"|(?<![\w.)\]}}])(?:~[\w.-]*|\.{{1,2}})/[^{_END}]+"
    # Folders of Windows may have blanks in their names
    rf"|(?<!\w)[A-Za-z]:[\\/](?:[^\n\"'`<>|*?:;,\\/]+\\+)*[^{_END}]+"
    rf"|(?<![\w\\])\\\\[\w.$-]+\\[^{_END}]+"
    # As in a URL
    rf"|[\w.~:-]{{0,40}}%(?:2F|5C)[^{_END}]*"
)
_PRIVATE = re.compile(
    rf"(?P<address>{_URL}|{_MAIL}|{_IP}|{_HOST})|(?P<path>{_PATH})", re.IGNORECASE
)
# A whole value that is a path, which may have blanks
_IS_PATH = re.compile(r"(?:~[\w.-]*|\.{1,2}|[A-Za-z]:)?[/\\]\S.*|~[\w.-]*", re.DOTALL)
# Words, of which those with a slash may be a relative path, such as "runs/alice/3"
_WORD = re.compile(rf"[^{_END}=]+")
_NUMBERS = re.compile(r"[\d./\\+-]*")

# Owners of public models and data sets on Hugging Face: such an id names nobody else
_PUBLIC_OWNERS = frozenset(
    "01-ai agentica-org ai-mo ai2-adapt-dev allenai baichuan-inc bigcode bigscience bytedance-seed "
    "bytedtsinghua-sia cohereforai deepseek-ai eleutherai google google-bert google-t5 "
    "huggingfaceh4 huggingfacetb idavidrein internlm lighteval lmsys math-ai meta-llama microsoft "
    "mistralai moonshotai nousresearch nvidia open-r1 open-thoughts openai openai-community "
    "openassistant opengvlab openbmb primeintellect qwen rwkv skywork stanfordnlp tatsu-lab "
    "thudm tiiuae tinyllama trl-lib unsloth writer zai-org zhipuai".split()
)
_MODEL_ID = re.compile(r"(?P<owner>[\w.-]+)/[\w.-]+", re.ASCII)

# Names of settings and fields whose texts name people, hosts or projects
_WHO = (
    r"users?|user_?names?|owners?|authors?|creators?|accounts?|log_?names?|logins?|e?mails?"
    r"|contacts?|entity|teams?|orgs?|organi[sz]ations?|company|tenants?|customers?|workspaces?"
    r"|maintainers?|submitters?|requesters?|assignees?|reviewers?|operators?"
    r"|(?:created|modified|submitted|launched)_?by|name_?spaces?|buckets?|conda_(?:\w+_)?env|venv"
    r"|host(?:s|_?names?)?|nodes?|node_?names?|node_?list|machines?|servers?|master_?addr(?:ess)?"
    r"|addr(?:ess(?:es)?)?|ips?|domains?|clusters?|partitions?|queues?|projects?|experiments?|exp"
    r"|sweeps?|jobs?|runs?|groups?|tags"
    r"|(?:run|experiment|exp|project|job|wandb|group|sweep|display|tracker|user|host|node|machine"
    r"|server|cluster|team|org|organi[sz]ation|company|account|owner|author|bucket|pod|partition"
    r"|queue|container)[._/-]?(?:name|id|group|path)"
    r"|git[._](?:branch|remote|repo|author|user)\w*|branch|remote_?url"
    r"|用户名?|作者|邮箱|主机名?|服务器|项目|团队|姓名|负责人|单位|机器|节点"
)
_WHO_NAME = re.compile(
    rf"(?:.*[._/-])?(?:{_WHO})"
    r"|(?:.*[._/])?(?:wandb|mlflow|swanlab|comet|neptune|slurm|k8s)(?:[._/].*|_\w+)",
    re.IGNORECASE,
)
# Names of settings and fields whose texts are paths or ids of models and data
_WHERE_NAME = re.compile(
    r".*(?:path|file|dir|folder|root|source|data_?set|repo|model|checkpoint|ckpt|cwd|command|argv"
    r"|cmd|uri|url|路径|目录|文件|数据集|模型).*",
    re.IGNORECASE,
)
# Names of settings whose texts are folders, also those of one word
_FOLDER_NAME = re.compile(r".*(?:dir|folder|cwd|目录|文件夹)", re.IGNORECASE)
# A setting in a text: "--user bob", "trainer.experiment_name=grpo", '"user": "bob"', "user: bob"
_SETTING = re.compile(
    rf"(?<![\w.-])(?P<flag>-{{0,2}})(?P<setting>[^\W\d][\w./-]{{0,80}})(?P<quote>[\"']?)"
    rf"(?P<sign>\s*[=:]\s*|\s+)[\"']?(?P<value>[^{_END}=&]{{1,200}})"
)
# A folder at the root: "/alice"
_AT_ROOT = re.compile(r"/[\w.~-]{3,}")
# Values of such settings that name nobody
_USUAL = re.compile(
    r"|none|null|true|false|default|auto|unknown|localhost|local|main|master|train(?:ing)?|test|val"
    r"|eval(?:uation)?|all|cpu|gpu|cuda|online|offline|disabled|[\d.,:\[\] -]*",
    re.IGNORECASE,
)
_HOME = re.compile(
    r"(?:/home|/users|/scratch|/work|/data/home|[a-z]:[\\/]+users)[\\/]+([^\\/\s\"',;:]+)",
    re.IGNORECASE,
)
# Folders of homes and scratch that are no user's
_NOBODY = frozenset("shared public ubuntu root user users admin home data runs".split())
_LETTER = "[0-9A-Za-z\u00c0-\u024f]"  # of a script with blanks between words
_LEAST = 3  # characters of a name that is looked for elsewhere


def is_private_name(name: str) -> bool:
    """Return whether the texts of a setting or field of this name are names, by what it is called.

    So are those of ``wandb.entity``, ``hostname`` and ``experiment_name``.
    """
    return bool(_WHO_NAME.fullmatch(name))


def names_in(values: Mapping[str, object]) -> set[str]:
    """Return the names of people, hosts and projects that settings contain, by dotted name.

    These are the values of settings such as ``wandb.entity``, the owners of home folders, and ids
    of models and data sets that are not public.
    """
    found: set[str] = set()
    for name, value in values.items():
        if not isinstance(value, str):
            continue
        found.update(owners_in(value))
        found.update(_set_in(value))
        # Such an id of a data set is a part of the names of its metrics.
        is_id = bool(_WHERE_NAME.fullmatch(name) and _MODEL_ID.fullmatch(value))
        if is_id and not _is_public(value):
            found.add(value)
        if is_private_name(name) and not _USUAL.fullmatch(value.strip()):
            found.add(value.strip())
    return {name for name in found if len(name) >= _LEAST}


def _set_in(text: str) -> set[str]:
    """Return the names that settings in a text have, such as a command line."""
    # After a colon alone may stand any word of a sentence.
    return {
        match["value"]
        for match in _private_settings(text)
        if match["quote"] or ":" not in match["sign"]
    }


def _private_settings(text: str) -> Iterator[re.Match[str]]:
    """Yield the settings in a text whose values are names of people, hosts or projects."""
    match = _SETTING.search(text)
    while match:
        # What looks like a value may be the next setting.
        position = match.end("setting")
        is_set = bool(match["flag"] or match["sign"].strip())
        is_private = is_set and is_private_name(match["setting"])
        if is_private and not _USUAL.fullmatch(match["value"]):
            position = match.end()
            yield match
        match = _SETTING.search(text, position)


def owners_in(text: str) -> set[str]:
    """Return the owners of the home folders that a text names."""
    owners = set(_HOME.findall(text))
    return {one for one in owners if len(one) >= _LEAST and one.lower() not in _NOBODY}


class PrivateNames:
    """Replaces private names by e.g. "[path 2]"; equal ones get equal numbers."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Remember names that are private wherever they stand, such as that of a user."""
        self._numbers: dict[str, dict[str, int]] = {}
        self.known: tuple[str, ...] = ()  # those names
        self.learn(names)

    def learn(self, names: Iterable[str]) -> None:
        """Remember further names that are private wherever they stand."""
        order = sorted({*names, *self.known})
        # The longest first, as one may be a part of another
        order.sort(key=len, reverse=True)
        self.known = tuple(order)
        words = "|".join(map(_whole_word, order))
        self._words = re.compile(words, re.IGNORECASE)

    def placeholder(self, kind: str, name: str) -> str:
        """Return what stands for a name of a kind, such as "path"."""
        numbers = self._numbers.setdefault(kind, {})
        return f"[{kind} {numbers.setdefault(name, len(numbers) + 1)}]"

    def in_text(self, text: str) -> str:
        """Return a text without credentials, addresses, paths and known names.

        Relative paths stay.
        """
        if _AT_ROOT.fullmatch(text):
            return self.placeholder("path", text)
        return "\n".join(map(self._in_line, text.split("\n")))

    def _in_line(self, line: str) -> str:

        def hidden(match: re.Match[str]) -> str:
            kind = match.lastgroup or "path"
            return self.placeholder(kind, match[0])

        if is_secret("", line):
            return self.placeholder("secret", line)
        line = _PRIVATE.sub(hidden, self._without_settings(line))
        if not self.known:
            return line
        return self._words.sub(lambda match: self.placeholder("name", match[0]), line)

    def _without_settings(self, line: str) -> str:
        parts = []
        end = 0
        for match in _private_settings(line):
            start = match.start("value")
            parts += [line[end:start], self.placeholder("name", match["value"])]
            end = match.end()
        return "".join([*parts, line[end:]])

    def in_value(self, name: str, text: str) -> str:
        """Return the value of a setting or field without private names, given its name."""
        value = text.strip()
        if is_secret(name, value):
            return self.placeholder("secret", value)
        if is_private_name(name) and not _USUAL.fullmatch(value):
            return self.placeholder("name", value)
        if _FOLDER_NAME.fullmatch(name) and not _USUAL.fullmatch(value):
            return text if _is_public(value) else self.placeholder("path", value)
        if _WHERE_NAME.fullmatch(name):
            return self.in_place(text)
        return self.in_text(text)

    def in_place(self, text: str) -> str:
        """Return a text without private names, and without relative paths.

        Ids of public models and data sets stay, such as "Qwen/Qwen3-8B".
        """
        value = text.strip()
        if _is_public(value):
            return text
        if _IS_PATH.fullmatch(value):
            return self.placeholder("path", value)

        def hidden(match: re.Match[str]) -> str:
            word = match[0]
            has_slash = "/" in word or "\\" in word
            if not has_slash or _is_public(word) or _NUMBERS.fullmatch(word):
                return word
            return self.placeholder("path", word)

        return _WORD.sub(hidden, self.in_text(text))


def _whole_word(name: str) -> str:
    """Return a pattern of a name that is no part of a longer word.

    Chinese has no blanks between words: a name may stand after and before any character of it.
    """
    before = rf"(?<!{_LETTER})" if re.match(_LETTER, name) else ""
    after = rf"(?!{_LETTER})" if re.match(_LETTER, name[-1:]) else ""
    return f"{before}{re.escape(name)}{after}"


def _is_public(text: str) -> bool:
    """Return whether a text is the id of a model or data set of a public owner."""
    match = _MODEL_ID.fullmatch(text)
    return match is not None and match["owner"].lower() in _PUBLIC_OWNERS
