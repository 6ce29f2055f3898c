"""Checks for reward hacking: spreading texts, a dominant component, a falling watched reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from rlreport.check import means, progress, quantities
from rlreport.check.check import REWARD, Check
from rlreport.check.course import Course
from rlreport.check.evidence import Ranking, beyond, nearer, where_known
from rlreport.check.excerpts import structure_place
from rlreport.check.finding import Facts, Finding, LogText, Rank, Result, Severity
from rlreport.check.gain import gain_by_parts
from rlreport.check.judges.diversity import distinct_loss
from rlreport.check.judges.reward import lost_part
from rlreport.check.judges.reward_parts import part_falls
from rlreport.check.limits import Limit, LimitKind, Limits, Tested
from rlreport.check.means import mean
from rlreport.check.parts import of_rollouts
from rlreport.check.run import Run, fall_onset
from rlreport.check.settings import SettingKind, also, enabled, higher, lower, see
from rlreport.check.spreading import (
    Spreading,
    has_reference,
    has_text,
    prevalence,
    spreading_texts,
)
from rlreport.check.windows import centred
from rlreport.figures.ragged import Floats
from rlreport.text.labels import ANSWER_MARKS
from rlreport.text.messages import format_message, message, sentences, translatable

GAO = translatable(
    "Gao, Schulman and Hilton 2023, Scaling Laws for Reward Model Overoptimization"
)

# KL to the reference policy is too high above both limits: nats per response, nats per token
KL_OUT = 10.0
KL_OUT_A_TOKEN = 0.1
# A text does harm if this share less of the responses finishes
UNFINISHED = 0.2
# A text counts as repeated if responses with it contain it at least this often on average
MIN_REPEATS = 3.0
# A text is part of a mark of the final answer if so many responses have both or neither
SAME_AS_MARK = 0.95
MAX_NAMED = 5
# The title says that the reward rose with a text if the text explains this part of the rise
CARRIES = 0.5
# A text is ignored if it is in the prompt of more than this fraction of the responses with it
ASKED = 0.5

_SPREADS = {
    "text": translatable(
        "{text:quoted} appears in {share:percent} of responses ({share_start:percent} {when})"
    ),
    "opening": translatable(
        "{share:percent} of responses begin with {text:quoted} ({share_start:percent} {when})"
    ),
    "closing": translatable(
        "{share:percent} of responses end with {text:quoted} ({share_start:percent} {when})"
    ),
    "often": translatable(
        "{text:quoted} occurs {share:figure} times per response that has it ({share_start:figure} "
        "at the start)"
    ),
    "structure": translatable(
        "{form} appear in {share:percent} of responses ({share_start:percent} at the start)"
    ),
}
_FORMS = {
    "list": translatable("lists"),
    "numbers": translatable("numbered lists"),
    "headings": translatable("headings"),
    "parts": translatable("several parts"),
    "structure": translatable("lists, numbers or headings"),
}


def _spread_clause(facts: Facts) -> str:
    """Return the clause that says which text spread, and from which share to which."""
    form = message(_FORMS.get(str(facts["text"]), ""))  # "" unless it is a structure
    # Stems are told as texts.
    literal = _SPREADS.get(str(facts["kind"]), _SPREADS["text"])
    when = message("at the start")
    if facts["by_reference"]:
        when = message("of the reference's")
    return format_message(literal, {**facts, "form": form, "when": when})


def _fill_title(title: str, facts: Facts) -> str:
    """Return a title with {what} spread and what responses with it {earned}."""
    earned = translatable(
        "these earn {lift:figure} more reward than others of their step"
    )
    if facts["kind"] == "often":
        earned = translatable("each occurrence earns {lift:figure} more reward")
    parts = {"what": _spread_clause(facts), "earned": format_message(earned, facts)}
    return format_message(title, {**facts, **parts})


def _hacking_title(facts: Facts) -> str:
    """Return the title: an exploit, or the rise of the reward if the text carries most of it."""
    carried = facts["carried"]
    title = translatable("{what:capital}; {earned}.")
    if facts["exploit"]:
        title = translatable(
            "Format or exploit? {what:capital}; {earned}. Many of the best-rewarded responses do "
            "not give the label as their answer, and validation does not confirm a gain."
        )
        # Reports of earlier versions do not tell it.
        if not facts.get("validated", True):
            title = translatable(
                "Format or exploit? {what:capital}; {earned}. Many of the best-rewarded responses "
                "do not give the label as their answer, and no validation is logged."
            )
    elif isinstance(carried, float) and carried >= CARRIES:
        title = translatable(
            "{what:capital}; the reward rose from {reward_start:figure} to {reward_end:figure} "
            "with it."
        )
    others = ""
    if facts["others"]:
        others = format_message("Also spreading: {others:quoted}.", facts)
    return sentences([_fill_title(title, facts), others])


@Check(
    name="reward hacking",
    rank=Rank.CAUSE,
    needs=(REWARD,),
    charts=("reward",),
    limits=Spreading,
    title=_hacking_title,
    statement=_spread_clause,
    why="The policy may have found text that raises the reward whatever the answer is.",
    suggestion="Read the responses that contain it; if it is not part of the task, penalise it.",
    advice=see(SettingKind.GRADER),
    explains=(
        "kl_explosion",
        "diversity_collapse",
        "entropy_collapse",
        "missing_eos",
        "length_collapse",
        "length_hacking",
        "language_drift",
        "reward_part_dominance",
        "unearned_gain",
        "part_falls",
        "watched_reward_fall",
    ),
    of_reward=True,
    sampled=("share",),
    needs_also="response, and five steps or reference responses",
    place=structure_place,
)
def reward_hacking_token(check: Check, run: Run) -> Result:
    """Find a text that spreads through responses, earns more reward, and is no answer format."""
    if run.tables.words is None:
        return check.not_run("response")
    # Nothing to compare the last responses with
    if run.first is None and run.tables.ref_words is None:
        return check.too_short(run)
    rewarded = _rewarded_texts(run)
    if rewarded.empty:
        return Result()
    top = _leading_text(rewarded)
    counts = spreading_texts(run).counts[top["ngram"]]
    category = _classify_text(run, counts)
    if category == "format":  # which ``format_learned`` notes
        return Result()
    carried = _carried_gain(run, has_text(counts))
    occurs_often = top["kind"] == "often"
    held = run.limits.test(Spreading.held, ">=", top["share_last"])
    carries = run.limits.test(Spreading.carried, ">=", carried)
    is_critical = held.met and carries.met and category == "hack"
    tested = [
        run.limits.test(Spreading.z, ">=", top["z"]),
        run.limits.test(Spreading.lift, ">=", top["lift"]),
        run.limits.test(Spreading.lift_z, ">=", top["lift_z"]),
    ]
    if not occurs_often:  # else its share did not rise
        tested.insert(0, run.limits.test(Spreading.share, ">=", top["share_last"]))
    if is_critical:
        tested += [held, carries]
    others = _other_texts(rewarded, top)
    reward = quantities.courses(run)["reward"]
    facts: Facts = {
        "carried": carried,
        "reward_start": reward.first.value,
        "reward_end": reward.last.value,
        "others": () if category == "either" else tuple(others),
        "exploit": category == "either",
        "validated": _has_validation(run),
    }
    finding = _text_finding(check, run, tested, top, facts)
    if finding.texts:  # none for a structure
        finding = replace(finding, texts=(*finding.texts, *others))
    severity = Severity.CRITICAL if is_critical else Severity.WARNING
    # ``_text_finding`` returns a note, which has another rank.
    finding = replace(finding, severity=severity, rank=check.rank)
    return Result(finding, tuple(tested))


def _other_texts(rewarded: pd.DataFrame, top: pd.Series) -> list[LogText]:
    """Return further texts to name, those that surely earn most first, without parts of ``top``."""
    by_lift = rewarded.sort_values("lift_z", ascending=False, kind="stable")["ngram"]
    named = top["ngram"]
    others = [
        LogText(text) for text in by_lift if text not in named and named not in text
    ]
    return others[: MAX_NAMED - 1]


def _text_finding(
    check: Check, run: Run, tested: Sequence[Tested], top: pd.Series, facts: Facts
) -> Finding:
    """Return a note on a spreading text.

    Args:
        check: the check that notes it.
        run: the run.
        tested: what was compared with limits.
        top: the row of the text in the table of ``spreading_texts``.
        facts: further facts of the finding.
    """
    counts = spreading_texts(run).counts[top["ngram"]]
    kind = str(top["kind"])
    is_structure = kind == "structure"
    # The name of a structure is ours; any other text is the log's.
    text = str(top["ngram"]) if is_structure else LogText(top["ngram"])
    # These two kinds are compared with the first steps in any case.
    by_reference = kind not in ("often", "structure") and has_reference(run.tables)
    # Columns of the table: of the kind often, occurrences in a response instead of a share
    share = "often" if kind == "often" else "share"
    # Most responses have a text of the kind often from the start: it now occurs more often.
    before = float(top["often_first"]) if kind == "often" else 0.0
    shown = text.rstrip("*")  # a stem ends with "*"
    as_shown = counts if is_structure else _as_written(run, counts, shown)
    ranking = Ranking(
        as_shown,
        beyond(as_shown, ">", before),
        unit="occurrences",
        look_for="" if is_structure else shown,
        at_end=kind == "closing",
    )
    result = check.found(
        run,
        Severity.INFO,
        tested,
        {
            "text": text,
            "kind": kind,
            "by_reference": by_reference,
            "share": float(top[f"{share}_last"]),
            "share_start": float(top[f"{share}_first"]),
            "lift": float(top["reward_lift"]),
            **facts,
        },
        ranking,
        onset=run.onset(run.by_step(prevalence(kind, counts))),
        texts=() if is_structure else (text,),
    )
    assert result.finding is not None
    return result.finding


def _as_written(run: Run, counts: Floats, text: str) -> Floats:
    """Return how often responses have a text as it is written, NaN if unknown, float64 (rows,).

    The ``counts`` are of words without endings, of any number for another one, and of a sign that
    may be repeated: what a response with only such a form has is not the text, nor does it lack
    it. If no response that can be shown has the text as it is written, the counts are returned.
    """
    sample = run.tables.words
    assert sample is not None
    written = np.full(len(counts), np.nan)
    has_texts = run.responses["has_texts"].to_numpy() == 1
    wanted = text.lower()
    for index in np.flatnonzero(has_texts[sample.rows]).tolist():
        units = sample.units[sample.offsets[index] : sample.offsets[index + 1]]
        response = "".join([sample.vocabulary[unit] for unit in units.tolist()])
        times = " ".join(response.split()).lower().count(wanted)
        row = sample.rows[index]
        if (times > 0) == (counts[row] > 0):
            written[row] = times
    return written if (written > 0).any() else counts


def _rewarded_texts(run: Run) -> pd.DataFrame:
    """Return the spreading texts that earn a higher reward, and did not come from prompts."""
    limits = run.limits[Spreading]
    table = spreading_texts(run).table
    rose = any(
        means.change(run, run.column(name)).rose for name in ("reward", "reward_gap")
    )
    # Where the reward did not rise, no text raised it.
    if not (rose or run.first is None or progress.learned(run)):
        return table[:0]
    earns = (table["lift_z"] >= limits.lift_z) & (table["lift"] >= limits.lift)
    # Without a first window the gain is unknown and not required.
    if run.first is not None:
        earns = earns & (table["of_gain"] >= limits.gain)
    return table[earns & (table["asked"] <= ASKED)]


def _leading_text(texts: pd.DataFrame) -> pd.Series:
    """Return the text that surely earns most in most responses."""
    weight = texts["lift_z"] * texts["share_last"]
    return texts.iloc[int(np.argmax(weight.to_numpy()))]


def _has_validation(run: Run) -> bool:
    """Return whether the run logs what could confirm that answers are right."""
    watched = quantities.watched_course(run)
    return watched is not None or "accuracy" in quantities.courses(run)


def _classify_text(run: Run, counts: Floats) -> Literal["hack", "format", "either"]:
    """Return whether a rewarded text is an exploit of the reward or part of an answer's format.

    ``counts`` are its occurrences in each response, float64 (rows,). It is "either" if labels are
    logged, but neither they nor validation confirm that answers are right.
    """
    watched = quantities.watched_course(run)
    is_validated = watched is not None and watched.curve.rose and not watched.lost
    right = quantities.courses(run).get("accuracy")
    if right is not None and right.curve.rose and not right.lost:
        is_validated = True
    contained = progress.labels_contained(run)
    if contained is not None:
        is_right = contained >= run.limits[_FormatLearned].contained
        return "format" if is_validated or is_right else "either"
    # Without labels, only validation or a rule-based reward speak for a format.
    if not (is_validated or progress.verifiable(run)):
        return "hack"
    return "hack" if _does_harm(run, counts) else "format"


def _does_harm(run: Run, counts: Floats) -> bool:
    """Return whether a text repeats, KL is high, validation is flat, or EOS or diversity fell.

    A gain without right answers does harm, too.
    """
    gain = gain_by_parts(run)
    if gain is not None and gain.is_unearned and not gain.is_format:
        return True
    kl = mean(run.column("kl_k1")[run.last.rows])
    length = mean(run.column(run.length)[run.last.rows])
    # Long responses have a high KL in sum, short ones per token: both have to be high.
    if kl > KL_OUT and kl > KL_OUT_A_TOKEN * length:
        return True
    watched = quantities.watched_course(run)
    if watched is not None and not watched.curve.rose:
        return True
    late_counts = counts[run.last.rows]
    repeats = mean(late_counts[late_counts > 0]) >= MIN_REPEATS
    if repeats and not _marks_answer(run, has_text(counts)):
        return True
    if means.change(run, run.column("finished")).difference <= -UNFINISHED:
        return True
    return distinct_loss(run)


def _marks_answer(run: Run, contains: Floats) -> bool:
    """Return whether a text comes with a mark of the final answer, as each # of "####" does.

    ``contains`` is 1 for responses with the text, 0 for others, NaN if not sampled.
    """
    known = np.isfinite(contains)
    marks = run.responses["answer_format"].to_numpy(np.int64)[known]
    for bit in range(len(ANSWER_MARKS)):
        has_mark = (marks >> bit) & 1
        if mean(has_mark == contains[known]) >= SAME_AS_MARK:
            return True
    return False


def _carried_gain(run: Run, contains: Floats) -> float:
    """Return the part of the reward's gain that responses with a text have; NaN if unknown.

    A response's gain is its reward minus the mean reward of the first window. ``contains`` is 1 for
    responses with the text, 0 for others, NaN if not sampled, float64 (rows,).
    """
    if run.first is None:
        return np.nan
    reward = run.column("reward")
    before = means.change(run, reward).first
    gains = (reward - before)[run.last.rows]
    of_late = contains[run.last.rows]
    known = np.isfinite(gains) & np.isfinite(of_late)
    total = float(gains[known].sum())
    if not total > 0:
        return np.nan
    return float((gains * of_late)[known].sum()) / total


class _FormatLearned(Limits):
    share = Limit(
        0.5,
        LimitKind.SHARE,
        "of responses",
        "share of responses that contain it, last window (note)",
    )
    contained = Limit(
        0.8,
        LimitKind.SHARE,
        "of responses",
        "share with their label, of the best-rewarded responses",
    )


def _format_title(facts: Facts) -> str:
    """Return the title, with what responses with the text earn if they earn more (``paid``)."""
    sentence = translatable(
        "{what:capital}, without a clear gain in reward: a format or a habit is learned."
    )
    if facts["paid"]:
        sentence = translatable(
            "{what:capital}; {earned}: probably the answer format is learned."
        )
    return _fill_title(sentence, facts)


@Check(
    name="a format is being learned",
    rank=Rank.NOTE,
    charts=("reward",),
    needs=(REWARD,),
    limits=_FormatLearned,
    title=_format_title,
    why="If responses with it earn more, part of the reward's rise is due to the format.",
    suggestion="Compare the rise with a baseline whose prompt shows the format.",
    source=Spreading.share.source,
    sampled=("share",),
    of_reward=True,
    trend=True,
    place=structure_place,
)
def format_learned(check: Check, run: Run) -> Result:
    """Note a text in most responses that is a format, or that earns no more reward."""
    table = spreading_texts(run).table
    if run.tables.words is None:
        return check.not_run("response")
    min_share = run.limits[_FormatLearned].share
    common = table[(table["share_last"] >= min_share) & (table["asked"] <= ASKED)]
    if common.empty or not progress.learned(run):
        return Result()
    rewarded = _rewarded_texts(run)
    if rewarded.empty:
        top = common.iloc[int(np.argmax(common["share_last"].to_numpy()))]
        is_format = progress.verifiable(run)
    else:
        # The text that ``reward_hacking_token`` judges, which leaves it to this check
        top = _leading_text(rewarded)
        counts = spreading_texts(run).counts[top["ngram"]]
        is_format = _classify_text(run, counts) == "format"
    if not is_format:
        return Result()
    share = run.limits.test(_FormatLearned.share, ">=", top["share_last"])
    facts: Facts = {"paid": not rewarded.empty}
    return Result(_text_finding(check, run, [share], top, facts), (share,))


class _RewardPartDominance(Limits):
    share = Limit(
        0.75,
        LimitKind.SHARE,
        "of the reward",
        "share of one part in its variance within steps or its gain (note)",
    )


class _PartShares(NamedTuple):
    """The shares of a part of the reward in its variance and in its gain; NaN if unknown."""

    of_variance: float
    of_gain: float

    @property
    def highest(self) -> float:
        """The larger of both, −1 if both are unknown."""
        return float(np.nanmax([self.of_variance, self.of_gain, -1.0]))


@Check(
    name="one part dominates the reward",
    rank=Rank.NOTE,
    needs=(REWARD,),
    charts=("reward",),
    limits=_RewardPartDominance,
    title={
        "variance": "The part {part:quoted} accounts for {of_variance:percent} of the reward's "
        "variance within steps.",
        "both": "The part {part:quoted} accounts for {of_variance:percent} of the reward's "
        "variance within steps and {of_gain:percent} of its gain.",
    },
    why="The other parts of the reward hardly steer the policy: it learns this one alone.",
    suggestion="Weight the parts so that they have similar spreads within a step.",
    advice=also(*enabled(SettingKind.REWARD_PARTS)) + see(SettingKind.REWARD_PARTS),
    source="rewardspy",
    needs_also="reward_parts, two or more",
    of_reward=True,
    trend=True,
)
def reward_part_dominance(check: Check, run: Run) -> Result:
    """Note that one part of the reward accounts for nearly all of its variance or gain."""
    parts = of_rollouts(run)
    if len(parts) < 2:
        return check.not_run(check.needs_also)
    shares = {name: _part_shares(run, part) for name, part in parts.items()}
    dominant = max(shares, key=lambda name: shares[name].highest)
    top = shares[dominant]
    tested = run.limits.test(_RewardPartDominance.share, ">", top.highest)
    if not tested.met:
        return Result(tested=(tested,))
    facts: Facts = {
        "part": dominant,
        "of_variance": top.of_variance,
        "of_gain": top.of_gain,
        "kind": "both" if np.isfinite(top.of_gain) else "variance",
    }
    ranking = _carried_by(run, parts[dominant], tested.bound)
    return check.found(run, Severity.INFO, [tested], facts, ranking)


def _carried_by(run: Run, part: Floats, share: float) -> Ranking:
    """Return how to choose responses that earn more than others of their step by a part alone.

    At least the ``share`` of what they earn above the mean of their step comes from this part.
    """
    reward = run.column("reward")
    above = reward - run.by_step(reward)[run.step_index]
    of_part = part - run.by_step(part)[run.step_index]
    is_carried = (above > progress.SAME_REWARD) & (of_part >= share * above)
    return Ranking(of_part, where_known(above + of_part, is_carried))


def _part_shares(run: Run, part: Floats) -> _PartShares:
    """Return a part's share of the variance within late steps, and of the gain.

    A part's share of the variance is its covariance with the reward over the reward's variance;
    of parts that add up to the reward, these shares add up to one.
    """
    reward = run.column("reward")
    is_late = run.step_index >= run.last_index
    rows = np.isfinite(reward) & np.isfinite(part) & is_late
    step = run.step_index[rows]
    rewards = centred(reward[rows], step)
    parts = centred(part[rows], step)
    # Both times the number of rows, which their ratio does not contain
    variance = float((rewards * rewards).sum())
    covariance = float((parts * rewards).sum())
    of_variance = np.nan
    if variance > 1e-12:  # less is a rounding error of equal rewards
        of_variance = covariance / variance
    gain = means.change(run, reward)
    of_gain = np.nan
    if gain.rose:
        of_gain = means.change(run, part).difference / gain.difference
    return _PartShares(of_variance, of_gain)


class _WatchedRewardFall(Limits):
    lost = Limit(
        0.25,
        LimitKind.SHARE,
        "of the gain",
        "validation lost again, relative to its gain",
        GAO,
    )
    least = Limit(
        0.02,
        LimitKind.SHARE,
        "of its range",
        "loss relative to the range of validation",
        GAO,
    )
    follow = Limit(
        0.5,
        LimitKind.RATIO,
        "times",
        "final value relative to the training reward, if it did not rise",
    )


_ALL_SCORED = translatable("a second reward of at least 95% of the responses")


@Check(
    name="drop of validation",
    rank=Rank.CONSEQUENCE,
    needs_also="a second reward (valid_reward), or responses or metrics of validation",
    charts=("reward",),
    limits=_WatchedRewardFall,
    title={
        "apart": "Validation did not rise with the reward: it went from {start:figure}{unit} to "
        "{end:figure}{unit}, while the reward rose from {trained_start:figure} to "
        "{trained_end:figure}.",
        "fell": "Validation fell from {best:figure}{unit} to {end:figure}{unit} (it started at "
        "{start:figure}{unit}).",
        "second_apart": "The second reward did not rise with the trained one: it went from "
        "{start:figure} to {end:figure}, while the trained one rose from {trained_start:figure} to "
        "{trained_end:figure}.",
        "second_fell": "The second reward fell from {best:figure} to {end:figure} (it started at "
        "{start:figure}).",
        "part_fell": "{part:quoted}, which tells how many answers are right, fell from "
        "{best:figure} to {end:figure} (it started at {start:figure}).",
    },
    statement={
        "apart": "validation does not follow the reward",
        "fell": "validation falls from {best:short}{unit} to {end:short}{unit}",
        "second_apart": "the second reward does not follow the trained one",
        "second_fell": "the second reward falls from {best:short} to {end:short}",
        "part_fell": "{part:quoted} falls from {best:short} to {end:short}",
    },
    why="The policy games or over-fits the reward that it is trained on.",
    suggestion="Raise the KL coefficient, or fix the reward.",
    advice={
        **dict.fromkeys(
            ("apart", "fell", "second_apart", "second_fell", "part_fell"),
            higher(SettingKind.KL),
        ),
        "both": lower(SettingKind.STEP_SIZE) + higher(SettingKind.KL),
    },
    suggestions={
        # What falls together is not paid for: the policy got worse at its task.
        "both": translatable(
            "Lower the learning rate, or go back to a checkpoint before the fall."
        ),
    },
    otherwise="Keep the checkpoint where it was best, and fix the reward.",
)
def watched_reward_fall(check: Check, run: Run) -> Result:
    """Find that a reward not trained on fell, or did not rise with the trained one."""
    series = quantities.validation(run) or quantities.second_reward(run)
    if series is None:
        accuracy = quantities.courses(run).get("accuracy")
        if accuracy is None:
            is_in_part = quantities.is_scored_in_part(run)
            return check.not_run(_ALL_SCORED if is_in_part else check.needs_also)
        return _accuracy_fall(check, run, accuracy)
    watched = quantities.watched_course(run)
    trained = quantities.reward_course(run)
    if watched is None:
        return check.too_short(run, series)
    limits = run.limits[_WatchedRewardFall]
    lost = lost_part(watched, watched.last.value)
    tested = run.limits.test(_WatchedRewardFall.lost, ">", lost)
    fell = watched.lost and tested.met and _matters(watched, limits.least)
    # Else it may not have risen with the trained reward, which needs one to compare with.
    if not fell and (trained is None or _follows(watched, trained, limits.follow)):
        return Result(tested=(tested,))
    kind = "fell" if fell else "apart"
    facts: Facts = {
        "kind": kind if watched.quantity == "validation" else f"second_{kind}",
        **quantities.levels_of(watched),
        "unit": watched.unit,
        "trained_start": trained.first.value if trained else None,
        "trained_end": trained.last.value if trained else None,
    }
    if fell and trained is not None and trained.lost:
        facts = {**facts, "advice": "both"}
    # Responses of validation are not among the training responses, of which examples are chosen.
    ranking = None
    if watched.quantity == "second_reward":
        ranking = _lags_behind(run, watched, None if fell else trained)
    onset = None
    if fell:
        onset = fall_onset(watched.curve)
    is_below_start = fell and watched.curve.fell
    return check.found(
        run,
        Severity.CRITICAL if is_below_start else Severity.WARNING,
        [tested] if fell else (),
        facts,
        ranking,
        series=series,
        onset=onset,
    )


def _lags_behind(run: Run, watched: Course, trained: Course | None) -> Ranking:
    """Return how to choose responses whose second reward fell, or did not rise with ``trained``."""
    second = run.column("valid_reward")
    among = nearer(second, watched.last.value, watched.top.value)
    if trained is not None:
        reward = run.column("reward")
        is_gained = nearer(reward, trained.last.value, trained.first.value)
        among = is_gained * beyond(second, "<=", watched.first.value)
    return Ranking(second, among, highest=False, unit="reward")


def _accuracy_fall(check: Check, run: Run, accuracy: Course) -> Result:
    """Judge the fall of an accuracy, which stands in for validation where there is none."""
    # Of most of its level, it is told as a part of the reward.
    if part_falls.run(run).finding is not None:
        return Result()
    limits = run.limits[_WatchedRewardFall]
    lost = lost_part(accuracy, accuracy.last.value)
    tested = run.limits.test(_WatchedRewardFall.lost, ">", lost)
    is_fall = accuracy.lost and tested.met and _matters(accuracy, limits.least)
    if not is_fall:
        return Result(tested=(tested,))
    facts: Facts = {
        "kind": "part_fell",
        "part": LogText(accuracy.name),
        **quantities.levels_of(accuracy),
    }
    # Without right answers, whatever is left of the reward is paid for something else.
    is_dead = accuracy.last.value <= quantities.DEAD_SHARE * accuracy.top.value
    is_gone = is_dead and accuracy.curve.fell
    return check.found(
        run,
        Severity.CRITICAL if is_gone else Severity.WARNING,
        [tested],
        facts,
        onset=fall_onset(accuracy.curve),
    )


def _matters(watched: Course, least: float) -> bool:
    """Return whether the loss is more than the ``least`` part of the scale of the watched score.

    The scale is 1 for scores of up to 1, where a loss below 0.02 does not matter, however small the
    noise; for larger ones it is the range of the values.
    """
    best = watched.top.value
    scale = 1.0 if best <= 1 else float(np.ptp(watched.values))
    return best - watched.last.value > least * scale


def _follows(watched: Course, trained: Course, min_ratio: float) -> bool:
    """Return False if the trained reward clearly rose but the other, on the same scale, is low.

    It is low below ``min_ratio`` times the trained reward at the end, unless it rose as well.
    Scales are the same if both rewards, or neither, lie between 0 and 1.
    """
    if _is_in_unit(watched) != _is_in_unit(trained):
        return True
    if not trained.curve.rose or watched.curve.rose:
        return True
    return watched.last.value >= min_ratio * trained.last.value


def _is_in_unit(course: Course) -> bool:
    """Return whether all values lie between 0 and 1."""
    lowest = float(course.values.min())
    highest = float(course.values.max())
    return lowest >= 0 and highest <= 1
