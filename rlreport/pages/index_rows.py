"""A run of an index: what its ``report.json`` says of it, or why that cannot be read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from rlreport.about.card import card_values, redacted_text
from rlreport.check.registry import BY_ID
from rlreport.check.sentence import translatable_title
from rlreport.check.verdict import FIRST_WORDS
from rlreport.comparison.saved import section, settings_without_seed, verdict_of
from rlreport.formats.logged import dicts
from rlreport.pages.index_metrics import Metric, metrics_of, number
from rlreport.pages.levels import UNREAD, known_level, severity
from rlreport.pages.page import Addresses
from rlreport.pages.public import public_settings, without_common_words
from rlreport.pages.redact import unquoted
from rlreport.pages.table import Cell
from rlreport.text.clean import safe_text, shortened
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import message
from rlreport.text.private import PrivateNames, names_in
from rlreport.text.secrets import Scalar

# Values of the option ``redact``
Redact: TypeAlias = bool | Literal["names"]


@dataclass(frozen=True, slots=True)
class Hides:
    """What the options of an index hide of the reports that it lists."""

    redact: Redact = False
    public: bool = False
    omit_prompts: tuple[str, ...] = ()


_LONGEST = 600  # Maximum number of characters of a text of a report
_LONGEST_NAME = 200  # and of the name of a run
_NOTHING = Cell("")
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Listed:
    """A report in the index, also if it cannot be read."""

    place: str  # path relative to the index, as shown to readers
    # address of its first page, relative to the index; "" if it has none
    href: str
    # content of its ``report.json``, None if it cannot be read
    about: Mapping[str, Any] | None
    why: str = ""  # the reason why it cannot be read
    form: Literal["folder", "html", "zip"] = "folder"
    name: str = ""  # of a run that has no report, "" for its place

    @property
    def is_unread(self) -> bool:
        return self.about is None


@dataclass(frozen=True, slots=True)
class IndexRun:
    """A run in the index: the few facts of its report that the page shows."""

    place: str  # as in ``Listed``
    href: str
    name: str
    level: str = UNREAD  # of its verdict, see ``levels.SEVERITY``
    sentence: str = ""  # what happened, or the reason why the report cannot be read
    next: str = ""  # what to do
    evidence: Cell = _NOTHING  # a link to the response that shows the verdict
    # first step of the lead finding, NaN without one, and whether it is of warning or worse
    since: float = math.nan
    is_harmed: bool = False
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    # equal in runs that differ in their seed alone, "" without a seed; never shown
    without_seed: str = ""
    metrics: Mapping[str, Metric] = field(default_factory=dict)  # by quantity
    steps: float = math.nan
    responses: float = math.nan
    version: str = ""  # of the program that built the report

    @property
    def is_unread(self) -> bool:
        return self.level == UNREAD

    @property
    def rank(self) -> tuple[object, ...]:
        """What lists are sorted by: severity, then the name, whose numbers count as such."""
        return severity(self.level), natural(self.name), natural(self.place)


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return what a name is sorted by: ``run-9`` comes before ``run-10``."""
    parts = _DIGITS.split(name.casefold())
    # Without leading zeros, a longer number is larger. Odd parts are numbers.
    found = []
    for place, part in enumerate(parts):
        digits = part.lstrip("0") if place % 2 else part
        found.append((len(digits) if place % 2 else 0, digits))
    return tuple(found)


def index_run(
    report: Listed, language: Language = ENGLISH, hides: Hides = Hides()
) -> IndexRun:
    """Return the row of a report; its ``report.json``, which may be large, is not kept.

    ``hides`` are options of ``build``: a report that was built without them, or with less, has a
    row without its texts, or without names.
    """
    about = report.about
    if about is None:
        why = _public_reason(report.why, hides)
        name = "" if hides.public else shortened(report.name, _LONGEST_NAME)
        why = shortened(why, _LONGEST)
        return IndexRun(report.place, report.href, name or report.place, sentence=why)
    verdict = section(about, "verdict")
    level, lead = verdict_of(about)
    level = known_level(level)
    since = number(section(lead or {}, "onset").get("step"))
    own = section(about, "settings")
    hides_texts = _quotes_more(own, hides)
    sentence = _name_of(lead) if hides_texts else _sentence(about, language)
    # A report has that in English alone; it may name settings and fields.
    has_next = language == ENGLISH and not hides_texts
    settings = card_values(section(section(about, "card"), "entries"))
    # What a report is called is one of the names.
    name = "" if _names_more(own, hides) else _text(about.get("run"))
    return IndexRun(
        place=report.place,
        href=report.href,
        name=shortened(name, _LONGEST_NAME) or report.place,
        level=level,
        sentence=sentence,
        next=_text(verdict.get("next")) if has_next else "",
        evidence=_evidence(report),
        since=since,
        is_harmed=lead is not None and level in ("critical", "warning"),
        settings=_shown_settings(settings, own, hides),
        without_seed=settings_without_seed(settings),
        metrics=metrics_of(about),
        steps=_step_count(about),
        responses=number(about.get("responses")),
        version=_text(section(about, "generator").get("version")),
    )


def _public_reason(why: str, hides: Hides) -> str:
    """Return why a report cannot be read, without what that may quote."""
    if hides.redact or hides.public or hides.omit_prompts:
        why = unquoted(why)
    return PrivateNames().in_place(why) if hides.public else why


def _redacts_less(own: Mapping[str, Any], hides: Hides) -> bool:
    """Return whether a report with these settings is redacted less than the index."""
    redact = own.get("redact")
    return bool(hides.redact) and redact not in (hides.redact, "names")


def _is_less_public(own: Mapping[str, Any], hides: Hides) -> bool:
    """Return whether a report with these settings has names that a public one has not."""
    return hides.public and not own.get("public") and own.get("redact") != "names"


def _quotes_more(own: Mapping[str, Any], hides: Hides) -> bool:
    """Return whether sentences of a report may quote what the index hides."""
    omitted = own.get("omit_prompts")
    missing = set(hides.omit_prompts) - set(
        map(str, omitted if isinstance(omitted, list) else [])
    )
    quotes_prompts = bool(missing) and not own.get("redact")
    return _redacts_less(own, hides) or _is_less_public(own, hides) or quotes_prompts


def _names_more(own: Mapping[str, Any], hides: Hides) -> bool:
    """Return whether the name of a report is one that the index hides."""
    names_less = hides.redact == "names" and own.get("redact") != "names"
    return names_less or _is_less_public(own, hides)


def _shown_settings(
    settings: Mapping[str, Scalar], own: Mapping[str, Any], hides: Hides
) -> Mapping[str, Scalar]:
    """Return the settings of a report that the index may show; with hidden names, it has none."""
    if _redacts_less(own, hides):
        if hides.redact == "names":
            return {}
        settings = {
            name: redacted_text(name, value) if isinstance(value, str) else value
            for name, value in settings.items()
        }
    if _is_less_public(own, hides):
        names = PrivateNames(without_common_words(names_in(settings)))
        return public_settings(settings, names)
    return settings


def _name_of(lead: Mapping[str, Any] | None) -> str:
    """Return the name of a finding's check as a sentence, "" without one.

    It stands for the finding where its title, which may quote the logs, must not be shown.
    """
    check = BY_ID.get(_text((lead or {}).get("id")))
    if check is None:
        return ""
    return message("{clause:capital}.", clause=message(check.name))


def _sentence(about: Mapping[str, Any], language: Language) -> str:
    """Return what happened, without the level, which has a column of its own.

    ``about`` is the content of a report's ``report.json``.
    """
    level, lead = verdict_of(about)
    if language != ENGLISH:  # a report has its sentence in English alone
        return translatable_title(lead, _text(lead.get("title"))) if lead else ""
    sentence = _text(section(about, "verdict").get("what"))
    # It begins with the level: "Broken: …", "Healthy. …"
    word = FIRST_WORDS.get(level, _text(level))
    sentence = re.sub(rf"^{re.escape(word)}[^.:]*[.:]\s*", "", sentence)
    return sentence[:1].upper() + sentence[1:]


def _evidence(report: Listed) -> Cell:
    """Return the cell with a link to the response that shows the verdict, if there is one."""
    assert report.about is not None
    shown = section(section(report.about, "verdict"), "evidence")
    for finding in dicts(report.about.get("findings")):
        if finding.get("id") != shown.get("finding"):
            continue
        examples = dicts(finding.get("evidence"))
        item = shown.get("item")
        if isinstance(item, int) and 0 <= item < len(examples):
            return _response_cell(report, examples[item])
    return _NOTHING


def _response_cell(report: Listed, example: Mapping[str, Any]) -> Cell:
    """Return the cell of a response; linked if the report is not zipped and has its step's page."""
    numbers = [example.get(name) for name in ("step", "n", "token", "turn")]
    step, n, token, turn = (one if isinstance(one, int) else None for one in numbers)
    if step is None or n is None:
        return _NOTHING
    text = message("step {step}, response {n}", step=step, n=n)
    if report.about is None or report.form == "zip":
        return Cell(text)
    steps = section(report.about, "shown").get("steps")
    numbers = steps if isinstance(steps, list) else []
    pages = frozenset(number for number in numbers if isinstance(number, int))
    one_file = report.form == "html"
    root = "" if one_file else report.href.removesuffix("index.html")
    addresses = Addresses(pages, root, one_file)
    href = addresses.response(step, n, token=token, turn=turn)
    if href and one_file:
        href = report.href + href
    return Cell(text, href=href)


def _step_count(about: Mapping[str, Any]) -> int:
    """Return the number of steps with responses, or of all in a run of trainer metrics alone."""
    steps = dicts(about.get("steps"))
    with_responses = [s for s in steps if number(s.get("responses")) > 0]
    return len(with_responses or steps)


def _text(value: object) -> str:
    return "" if value is None else shortened(safe_text(str(value)), _LONGEST)
