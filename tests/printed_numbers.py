"""Collects the numbers that outputs print of reward, validation, KL, length and entropy.

An output is read as a person reads it: its text by clauses, its tiles and tables by cells. In a
clause a number belongs to the quantity that is named before it, and steps in parentheses or after
"in" belong to the number before them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

_NUMBER = r"[−-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[−+-]?\d+| × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"
_STEPS = (
    r"(?:steps? (?P<low>\d[\d,]*)(?:(?:–| to )(?P<high>\d[\d,]*))?"
    r"|第 (?P<low_zh>\d[\d,]*)(?: ?[–至] ?(?P<high_zh>\d[\d,]*))? 步)"
)
# Words that name a quantity; the longest comes first
_NAMES = {
    "validation": r"validation|验证集|验证",
    "second_reward": r"second reward|第二奖励",
    "accuracy": r"[“]?accuracy[”]?",
    "kl": r"KL to the reference|与参考模型的 KL|KL",
    "length": r"mean length|length|responses (?:grew|shrink)|平均长度|长度",
    "entropy": r"entropy|熵",
    "reward": r"reward|奖励",
}
# What follows a name or a number that is another figure, or a difference of two
_OTHERS = re.compile(
    r"(?:reward|奖励)(?:'s std|的标准差| function| model|\s*[−-]\s*reference)"
    r"|KL coefficient|KL penalty|KL 惩罚|entropy bonus|熵奖励"
    r"|(?:lowest|best|earns?|highest|equal|more|extra|mean) rewards?|rewards? (?:of|are|and|if)"
    r"|组内奖励|earn(?:s)? equal|no learning signal"
    # A single response
    r"|\(step \d+, response [^)]*\)"
    r"|(?:Largest|Most negative|Highest|Lowest) (?:token )?(?:KL|reward)[^\n]*"
    # What a finding tested, not a level
    r"|(?:rose|fell) by [\d.,]+|\((?:limit|threshold)[^)]*\)|（(?:阈值|限值|上限)[^）]*）"
    r"|（第 ?\d+ 步，回复[^）]*）",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    "|".join(
        [
            f"(?P<steps>{_STEPS})",
            *(f"(?P<{name}>(?i:{words}))" for name, words in _NAMES.items()),
            rf"(?P<times>×\s?{_NUMBER})(?![⁻⁰¹²³⁴⁵⁶⁷⁸⁹])",
            rf"(?P<number>(?<![\w.#/“]){_NUMBER}%?)",
        ]
    )
)
# A number of something else than a level: a share of responses, a count, a difference
_COUNTED = re.compile(
    r"\s*(?:of |std\b|responses|steps?\b|prompts|groups|times|tokens are|word pairs|more\b|calls"
    r"|\(standard deviation\)|(?:条|个|次)(?:回复|提示|组)?|的?回复)"
)


class Claim(NamedTuple):
    """A number as an output prints it."""

    quantity: str
    text: str  # of the number, or of a factor ("× 3")
    steps: (
        tuple[int, int] | None
    )  # of which it is, as printed, None if that is not said
    unit: str  # "token" or "response" if the text says so
    where: str  # the output, and the clause


def clauses_of(text: str) -> list[str]:
    """Split a text into clauses, whose numbers belong to their own quantities only."""
    flat = " ".join(text.split())
    # The description of a small chart is about one figure.
    flat = flat.replace("; lowest", ", lowest")
    parts = []
    for part in re.split(r"[;；。]\s*|\.(?=\s|$)\s*|，(?=自)", flat):
        # Items of what moved, of which each has its own name
        has_items = "→" in part or "×" in part
        parts += re.split(r", |，|、", part) if has_items else [part]
    return [part for part in parts if part]


def claims(text: str, where: str) -> Iterator[Claim]:
    """Yield the numbers of a text that belong to a quantity."""
    for clause in clauses_of(text):
        yield from _claims_of_clause(clause, where)


def _claims_of_clause(clause: str, where: str) -> Iterator[Claim]:
    masked = _OTHERS.sub(lambda match: "#" * len(match[0]), clause)
    place = f"{where}: {clause}"
    quantity = ""
    found: list[Claim] = []
    stretch = None  # steps before the numbers: "在第 22 至 34 步从 0.7 跌到 0.1"
    for match in _TOKEN.finditer(masked):
        kind = match.lastgroup or ""
        named = next((name for name in _NAMES if match[name]), "")
        if named:
            quantity = named
        elif match["steps"]:
            steps = _span(match)
            if masked.startswith("从", match.end()):
                stretch = steps
            if (
                found
                and found[-1].steps is None
                and _is_attached(masked, match.start())
            ):
                found[-1] = found[-1]._replace(steps=steps)
                # "from 0.7 to 0.1 in steps 22–34": both are levels of this stretch.
                is_stretch = steps[0] < steps[1] and len(found) > 1
                if is_stretch and found[-2].steps is None:
                    found[-2] = found[-2]._replace(steps=steps)
        elif quantity and kind == "times":
            found.append(Claim(quantity, match["times"], None, "", place))
        elif quantity and match["number"] and not _COUNTED.match(masked, match.end()):
            unit = _unit(masked, match)
            found.append(Claim(quantity, match["number"], stretch, unit, place))
    yield from found


def _unit(clause: str, number: re.Match[str]) -> str:
    """Return of what a KL is: "per token" after a number, or "每词元" before it."""
    after = re.match(
        r"(?: nats?)?(?: per |/)(token|response|词元|回复)", clause[number.end() :]
    )
    before = re.search(r"每(?:个|条)?(词元|回复)\s*$", clause[: number.start()])
    named = re.search(
        r"per (token|response) \((?:warning|critical)\): $|per (token|response)[^:]*: $",
        clause[: number.start()],
    )
    of_kl = re.search(
        r"每(?:个|条)(词元|回复)的 KL（[^）]*）：$", clause[: number.start()]
    )
    word = ""
    for match in (after, before, named, of_kl):
        if match and not word:
            word = next(group for group in match.groups() if group)
    return {"词元": "token", "回复": "response"}.get(word, word)


def _is_attached(clause: str, start: int) -> bool:
    """Return whether steps are those of the number before them: "0.2 (steps 0–2)", "0.2 in …"."""
    before = clause[:start]
    return bool(re.search(r"[\d%][^\d,，]{0,24}?(?:\(|（|\bin )$", before))


def _span(match: re.Match[str]) -> tuple[int, int]:
    low = match["low"] or match["low_zh"]
    high = match["high"] or match["high_zh"] or low
    return whole(low), whole(high)


def steps_named(text: str) -> Iterator[int]:
    """Yield all steps that a text names."""
    for match in re.finditer(_STEPS, text):
        yield from _span(match)


def whole(text: str) -> int:
    return int(text.replace(",", ""))


def _plain(text: str) -> str:
    """Return a printed number as Python writes it, without its percent or multiplication sign."""
    number = text.removeprefix("×").rstrip("%").strip()
    return number.replace(",", "").replace("−", "-")


def value_of(text: str) -> float:
    """Return the value of a printed number."""
    plain = _plain(text)
    power = re.fullmatch(r"(.+) × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", plain)
    if power:
        exponent = power[2].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        return float(power[1]) * 10.0 ** int(exponent)
    return float(plain)


def precision(text: str) -> float:
    """Return half a unit of the last printed digit."""
    plain = _plain(text)
    scale = 1.0
    power = re.match(r"(.+?)(?:e(-?\d+)| × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))$", plain)
    if power:
        digits = power[2] or power[3].translate(
            str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
        )
        scale = 10.0 ** int(digits)
        plain = power[1]
    decimals = len(plain.partition(".")[2])
    return 0.5 * 10.0**-decimals * scale * (1 + 1e-9)


def is_printed(value: float, text: str) -> bool:
    """Return whether a value is written so, rounded to its digits."""
    return abs(value - value_of(text)) <= precision(text)


@dataclass
class Truth:
    """The courses of a report's findings.json, and the tables from which they can be recomputed."""

    report: Path
    content: dict[str, Any] = field(init=False)
    courses: dict[str, dict[str, Any]] = field(init=False)
    series: dict[str, pd.Series] = field(init=False)

    def __post_init__(self) -> None:
        self.content = json.loads((self.report / "data" / "findings.json").read_bytes())
        courses = self.content["verdict"]["course"]
        self.courses = {course["quantity"]: course for course in courses}
        self.series = {
            name: self._series(course["series"])
            for name, course in self.courses.items()
        }

    def _series(self, source: Mapping[str, str]) -> pd.Series:
        file = self.report / "data" / source["file"]
        table = pd.read_csv(file, float_precision="round_trip")
        values = table[source["column"]]
        if source["file"] == "responses.csv.gz":
            return values[table["split"] == "train"].groupby(table["step"]).mean()
        values.index = pd.Index(table["step"])
        return values.dropna()

    def levels(self, quantity: str) -> dict[str, dict[str, Any]]:
        """Return the levels of a course by their names, without those that it has not."""
        course = self.courses[quantity]
        names = ("first", "best", "lowest", "highest", "last")
        return {name: course[name] for name in names if course[name]}

    def mean(
        self, quantity: str, steps: tuple[int, int], without: Iterable[int] = ()
    ) -> float:
        level = {"steps": steps, "without": list(without)}
        return _mean(self.series[quantity], level)

    def events(self, quantity: str) -> list[dict[str, Any]]:
        return list(self.courses[quantity]["events"])

    def known_steps(self) -> set[int]:
        """Return the steps that texts may name: of levels, events, pieces, findings, checkpoint."""
        found: set[int] = set()
        for name, course in self.courses.items():
            for level in self.levels(name).values():
                found.update(level["steps"])
            for piece in course["pieces"]:
                found.update(piece["steps"])
            for event in course["events"]:
                found.update(event[key] for key in ("onset", "low", "high", "until"))
        for finding in self.content["findings"]:
            onset = finding["onset"] or {}
            found.update(onset[key] for key in ("step", "low", "high") if key in onset)
            if finding["until"] is not None:
                found.add(finding["until"])
            found |= set(_whole_facts(finding["facts"]))
            for example in finding["evidence"]:
                found.add(example["step"])
                if example["before"]:
                    found.add(example["before"]["step"])
        keep = self.content["verdict"]["keep_step"]
        return found if keep is None else found | {keep}

    def problem(self, claim: Claim) -> str:
        """Return what is wrong with a printed number, "" if it is a number of its course."""
        if claim.quantity not in self.courses:
            return f"{claim}: not logged"
        if self._is_of_other_unit(claim):
            return "" if self._is_in_other_unit(claim) else f"{claim}: in no unit"
        if claim.text.startswith("×"):
            return "" if self._is_factor(claim) else f"{claim}: no factor of two levels"
        if claim.steps is not None and self._is_mean(claim):
            return ""
        if claim.steps is None and self._is_level(claim):
            return ""
        levels = {
            name: level["value"] for name, level in self.levels(claim.quantity).items()
        }
        return f"{claim}: none of {levels}"

    def _is_of_other_unit(self, claim: Claim) -> bool:
        """Return whether a KL is per token and the course's per response, or the other way."""
        if claim.quantity != "kl" or not claim.unit:
            return False
        return claim.unit != self.unit_of_kl

    @property
    def unit_of_kl(self) -> str:
        source = self.courses["kl"]["series"]
        is_sum = source["column"] == "kl_k1_mean" or "sum" in source["column"]
        return "response" if is_sum else "token"

    def _is_in_other_unit(self, claim: Claim) -> bool:
        """Return whether it is the mean of KL and length of each step over the steps of a level."""
        kl = self.series["kl"]
        length = self.series["length"].reindex(kl.index)
        other = kl / length if self.unit_of_kl == "response" else kl * length
        means = [_mean(other, level) for level in self._stretches(claim)]
        return any(is_printed(mean, claim.text) for mean in means)

    def _stretches(self, claim: Claim) -> list[dict[str, Any]]:
        """Return the levels of which a claim may be, and the steps that it names as another."""
        levels = list(self.levels(claim.quantity).values())
        if claim.steps is not None:
            levels.append({"steps": claim.steps})
        return levels

    def _width(self, quantity: str) -> int:
        """Return how many values a level has."""
        twentieth = int(len(self.series[quantity]) / 20 + 0.5)
        return max(3, min(10, twentieth))

    def _is_level(self, claim: Claim) -> bool:
        values = [level["value"] for level in self.levels(claim.quantity).values()]
        if "recovered to" in claim.where:
            climbs = [e for e in self.events(claim.quantity) if e["kind"] == "climb"]
            values += [event["level"] for event in climbs]
        pieces = self.courses[claim.quantity]["pieces"]
        if len(pieces) == 1 and pieces[0]["kind"] == "flat":
            values.append(pieces[0]["from"])
        return any(is_printed(value, claim.text) for value in values)

    def _is_mean(self, claim: Claim) -> bool:
        """Return whether a number is a level with these steps, or that before or in an event."""
        steps = claim.steps
        assert steps is not None
        for level in self.levels(claim.quantity).values():
            if tuple(level["steps"]) == steps and is_printed(
                level["value"], claim.text
            ):
                again = self.mean(claim.quantity, steps, level.get("without", ()))
                return abs(again - level["value"]) <= 1e-8 * max(abs(again), 1)
        if "(threshold" in claim.where or "（阈值" in claim.where:
            return is_printed(self.mean(claim.quantity, steps), claim.text)
        for event in self.events(claim.quantity):
            if steps == (event["onset"], event["until"]):
                values = [event["before"], *self._extremes(claim.quantity, steps)]
                if any(v is not None and is_printed(v, claim.text) for v in values):
                    return True
        logged = self.series[claim.quantity]
        first, last = steps
        if first == last and first in logged.index:
            return is_printed(float(logged[first]), claim.text)
        return False

    def _extremes(self, quantity: str, steps: tuple[int, int]) -> list[float]:
        """Return the lowest and the highest level of a stretch of steps.

        That is the one of the whole run, if it lies there, else that of as many values as a level
        has.
        """
        levels = self.levels(quantity)
        values = self.series[quantity].loc[steps[0] : steps[1]]
        means = values.rolling(min(self._width(quantity), len(values))).mean()
        extremes = {"lowest": means.min(), "highest": means.max()}
        found = []
        for name, extreme in extremes.items():
            low, high = levels[name]["steps"]
            is_there = steps[0] <= low and high <= steps[1]
            found.append(levels[name]["value"] if is_there else float(extreme))
        return found

    def _is_factor(self, claim: Claim) -> bool:
        levels = self.levels(claim.quantity)
        first = levels["first"]["value"]
        return first != 0 and is_printed(levels["last"]["value"] / first, claim.text)


def _mean(values: pd.Series, level: Mapping[str, Any]) -> float:
    """Return the mean of a series over the steps of a level, but for those that it leaves out."""
    first, last = level["steps"]
    without = list(level.get("without", ()))
    inside = values.loc[first:last].drop(without)
    return float(inside.mean())


def _whole_facts(facts: Any) -> Iterator[int]:
    if isinstance(facts, Mapping):
        facts = list(facts.values())
    if isinstance(facts, list):
        for fact in facts:
            yield from _whole_facts(fact)
    elif isinstance(facts, int) and not isinstance(facts, bool):
        yield facts
