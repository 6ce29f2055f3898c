"""Checks for reward hacking: spreading texts, a dominant component, a falling watched reward."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import Fact, Facts, Finding, Limit, Limits, LogText, Met, Severity
from rlreport.check.judges.reward import lost_part
from rlreport.check.judges.text import distinct_loss
from rlreport.check.noise import centred
from rlreport.check.run import Ranking, Run, mean
from rlreport.check.series import FALL_Z, Shape, onset
from rlreport.check.spreading import Spreading, has_reference, has_text, prevalence, spreading_texts
from rlreport.figures.ragged import Floats
from rlreport.text.messages import format_message, message, sentences, translatable

GAO = translatable("Gao, Schulman and Hilton 2023, Scaling Laws for Reward Model Overoptimization")

# KL to the reference policy is too high above both limits: nats per response, nats per token
KL_OUT, KL_OUT_A_TOKEN = 10.0, 0.1
# A text counts as repeated if responses with it contain it at least this often on average
MIN_REPEATS = 3.0
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
    form = message(_FORMS.get(str(facts["text"]), ""))
    spreads = _SPREADS.get(str(facts["kind"]), _SPREADS["text"])
    when = message("of the reference's") if facts["by_reference"] else message("at the start")
    return format_message(spreads, {**facts, "form": form, "when": when})


def _fill_title(title: str, facts: Facts) -> str:
    earned = translatable("these earn {lift:figure} more reward than others of their step")
    if facts["kind"] == "often":
        earned = translatable("each occurrence earns {lift:figure} more reward")
    parts = {"what": _spread_clause(facts), "earned": format_message(earned, facts)}
    return format_message(title, {**facts, **parts})


def _hacking_title(facts: Facts) -> str:
    carried = facts["carried"]
    title = translatable("{what:capital}; {earned}.")
    if facts["exploit"]:
        title = translatable(
            "Format or exploit? {what:capital}; {earned}. Many of the best responses lack the "
            "label, and validation does not confirm a gain."
        )
    elif isinstance(carried, float) and carried >= CARRIES:
        title = translatable(
            "{what:capital}; the reward rose from {reward_start:figure} to {reward_end:figure} "
            "with it."
        )
    others = format_message("Also spreading: {others:quoted}.", facts) if facts["others"] else ""
    return sentences([_fill_title(title, facts), others])


@Check(
    name="reward hacking",
    rank="cause",
    needs=(REWARD,),
    charts=("reward",),
    limits=Spreading,
    title=_hacking_title,
    statement=_spread_clause,
    why="The policy may have found text that raises the reward whatever the answer is.",
    suggestion="Read the responses that contain it; if it is not part of the task, penalise it.",
    explains=(
        "kl_explosion",
        "diversity_collapse",
        "entropy_collapse",
        "missing_eos",
        "length_collapse",
        "length_hacking",
        "language_drift",
        "reward_part_dominance",
        "watched_reward_fall",
    ),
    of_reward=True,
    sampled=("share",),
    needs_also="response, and five steps or reference responses",
)
def reward_hacking_token(check: Check, run: Run) -> Result:
    if run.tables.words is None:
        return check.not_run("response")
    if run.first is None and run.tables.ref_words is None:
        return check.too_short(run)
    rewarded = _rewarded_texts(run)
    if rewarded.empty:
        return None
    top = _leading_text(rewarded)
    counts = run.once(spreading_texts).counts[top["ngram"]]
    category = _classify_text(run, counts)
    if category == "format":
        return None
    carried = _carried_gain(run, has_text(counts))
    often = top["kind"] == "often"
    held_by_most = run.met(Spreading.held, ">=", 1.0 if often else top["share_last"])
    carries = run.met(Spreading.carried, ">=", carried)
    critical = bool(held_by_most and carries) and category == "hack"
    met = [
        *([] if often else run.met(Spreading.share, ">=", top["share_last"])),
        *run.met(Spreading.z, ">=", top["z"]),
        *run.met(Spreading.lift, ">=", top["lift"]),
        *run.met(Spreading.lift_z, ">=", top["lift_z"]),
        *(held_by_most + carries if critical else []),
    ]
    by_lift = rewarded.sort_values("lift_z", ascending=False, kind="stable")["ngram"]
    others = [LogText(text) for text in by_lift if text not in top["ngram"]][: MAX_NAMED - 1]
    either = category == "either"
    facts: Facts = {
        "carried": carried,
        "reward_start": run.courses["reward"].first.value,
        "reward_end": run.courses["reward"].last.value,
        "others": () if either else tuple(others),
        "exploit": either,
    }
    finding = _text_finding(check, run, met, top, **facts)
    severity: Severity = "critical" if critical else "warning"
    texts = (*finding.texts, *others) if finding.texts else ()
    return replace(finding, severity=severity, rank=check.rank, texts=texts)


def _text_finding(check: Check, run: Run, met: list[Met], top: pd.Series, **facts: Fact) -> Finding:
    counts = run.once(spreading_texts).counts[top["ngram"]]
    kind = str(top["kind"])
    text = str(top["ngram"]) if kind == "structure" else LogText(top["ngram"])
    look_for = "" if kind == "structure" else text.rstrip("*")
    figure = "often" if kind == "often" else "share"
    by_reference = kind not in ("often", "structure") and has_reference(run.tables)

    names = {"share": f"{figure}_last", "share_start": f"{figure}_first", "lift": "reward_lift"}
    figures = {name: float(top[column]) for name, column in names.items()}
    return check.finding(
        run,
        "info",
        met,
        {"text": text, "kind": kind, "by_reference": by_reference, **figures, **facts},
        Ranking(counts, True, "occurrences", None, counts > 0, look_for, kind == "closing"),
        series=run.by_step(prevalence(kind, counts)),
        texts=() if kind == "structure" else (text,),
    )


def _rewarded_texts(run: Run) -> pd.DataFrame:
    limits = run.limits[Spreading]
    table = run.once(spreading_texts).table
    rose = any(run.change(run.column(name)).rose for name in ("reward", "reward_gap"))
    if not (rose or run.first is None or run.learned):
        return table[:0]
    earns = (table["lift_z"] >= limits.lift_z) & (table["lift"] >= limits.lift)
    # Without a first window the gain is unknown and not required.
    earns &= (table["of_gain"] >= limits.gain) | (run.first is None)
    return table[earns & (table["asked"] <= ASKED)]


def _leading_text(texts: pd.DataFrame) -> pd.Series:
    return texts.iloc[int(np.argmax((texts["lift_z"] * texts["share_last"]).to_numpy()))]


def _classify_text(run: Run, counts: Floats) -> Literal["hack", "format", "either"]:
    watched = run.watched_shape
    validated = watched is not None and watched.rose and not watched.fell
    contained = run.labels_contained
    if contained is not None:
        learned = validated or contained >= run.limits[_FormatLearned].contained
        return "format" if learned else "either"
    return "format" if (run.verifiable or validated) and not _does_harm(run, counts) else "hack"


def _does_harm(run: Run, counts: Floats) -> bool:
    """Return whether a text repeats, KL is high, validation is flat, or EOS or diversity fell."""
    kl, length = (run.change(run.column(name)).last for name in ("kl_k1", run.length))
    last_counts = counts[run.last.rows]
    watched = run.watched_shape
    return bool(
        (kl > KL_OUT and kl > KL_OUT_A_TOKEN * length)
        or (watched is not None and not watched.rose)
        or mean(last_counts[last_counts > 0]) >= MIN_REPEATS
        or run.change(run.column("finished")).difference <= -0.2
        or distinct_loss(run)
    )


def _carried_gain(run: Run, shares: Floats) -> float:
    if run.first is None:
        return np.nan
    reward = run.column("reward")
    moved = run.change(reward)
    gains = (reward - moved.first)[run.last.rows]
    has_text = shares[run.last.rows]
    finite = np.isfinite(gains) & np.isfinite(has_text)
    total = float(gains[finite].sum())
    return float((gains * has_text)[finite].sum()) / total if total > 0 else np.nan


class _FormatLearned(Limits):
    share = Limit(0.5, "of responses", "share of responses that contain it, last window (note)")
    contained = Limit(0.8, "of responses", "share with their label, of the best-rewarded responses")


def _format_title(facts: Facts) -> str:
    sentence = translatable(
        "{what:capital}, without a clear gain in reward: a format or a habit is learned."
    )
    if facts["paid"]:
        sentence = translatable("{what:capital}; {earned}: probably the answer format is learned.")
    return _fill_title(sentence, facts)


@Check(
    name="a format is being learned",
    rank="note",
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
)
def format_learned(check: Check, run: Run) -> Result:
    table = run.once(spreading_texts).table
    if run.tables.words is None:
        return check.not_run("response")
    min_share = run.limits[_FormatLearned].share
    table = table[(table["share_last"] >= min_share) & (table["asked"] <= ASKED)]
    if table.empty or not run.learned:
        return None
    rewarded = _rewarded_texts(run)
    widest = table.iloc[int(np.argmax(table["share_last"].to_numpy()))]
    top = widest if rewarded.empty else _leading_text(rewarded)
    counts = run.once(spreading_texts).counts[top["ngram"]]
    if not (run.verifiable if rewarded.empty else _classify_text(run, counts) == "format"):
        return None
    met = run.met(_FormatLearned.share, ">=", top["share_last"])
    return _text_finding(check, run, met, top, paid=not rewarded.empty)


class _RewardPartDominance(Limits):
    share = Limit(
        0.75, "of the reward", "share of one part in its variance within steps or its gain (note)"
    )


@Check(
    name="one part dominates the reward",
    rank="note",
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
    source="rewardspy",
    needs_also="reward_parts, two or more",
    of_reward=True,
    trend=True,
)
def reward_part_dominance(check: Check, run: Run) -> Result:
    # A part's share of the variance is its covariance with the reward over the reward's variance;
    # of parts that add up to the reward, these shares add up to one.
    extras = run.tables.extras
    names = [name for name in run.tables.reward_parts if name in extras]
    numeric = extras[names].select_dtypes(["number", "bool"])
    parts = {str(name): part.to_numpy(np.float64) for name, part in numeric.items()}
    parts = {name: part for name, part in parts.items() if np.isfinite(part).any()}
    if len(parts) < 2:
        return check.not_run(check.needs_also)
    reward = run.column("reward")
    gain = run.change(reward)
    in_last_window = run.step_index >= run.last_index

    def shares(part: Floats) -> tuple[float, float]:
        finite = np.isfinite(reward) & np.isfinite(part) & in_last_window
        y, x = (centred(values[finite], run.step_index[finite]) for values in (reward, part))
        variance = float((y * y).sum())
        of_gain = run.change(part).difference / gain.difference if gain.rose else np.nan
        return float((x * y).sum()) / variance if variance > 1e-12 else np.nan, of_gain

    shares_of = {name: shares(part) for name, part in parts.items()}
    highest = {name: float(np.nanmax([*both, -1.0])) for name, both in shares_of.items()}
    name = max(highest, key=highest.__getitem__)
    if not (met := run.met(_RewardPartDominance.share, ">", highest[name])):
        return None
    of_variance, of_gain = shares_of[name]
    kind = "both" if np.isfinite(of_gain) else "variance"
    facts: Facts = {"part": name, "of_variance": of_variance, "of_gain": of_gain, "kind": kind}
    return check.finding(run, "info", met, facts, Ranking(parts[name]))


class _WatchedRewardFall(Limits):
    lost = Limit(0.25, "of the gain", "watched reward lost again, relative to its gain", GAO)
    least = Limit(0.02, "of its range", "loss relative to the range of the watched reward", GAO)
    follow = Limit(0.5, "times", "final value relative to the training reward, if it did not rise")


@Check(
    name="drop of the watched reward",
    rank="consequence",
    needs_also="a second reward (valid_reward), or responses or metrics of validation",
    charts=("reward",),
    limits=_WatchedRewardFall,
    title={
        "apart": "The watched reward did not rise with the trained reward: it went from "
        "{start:figure} to {end:figure}, while the trained one rose from "
        "{trained_start:figure} to {trained_end:figure}.",
        "fell": "The watched reward fell from {best:figure} to {end:figure} (it started at "
        "{start:figure}).",
    },
    statement={
        "apart": "the watched reward does not follow the trained one",
        "fell": "the watched reward falls to {end:short}",
    },
    why="The policy games or over-fits the reward that it is trained on.",
    suggestion="Keep the checkpoint where it was best; raise the KL coefficient or fix the reward.",
    trend=True,
)
def watched_reward_fall(check: Check, run: Run) -> Result:
    watched = run.watched_shape
    trained = run.reward_shape
    if run.watched_reward is None:
        return check.not_run(check.needs_also)
    if watched is None:
        return check.too_short(run, run.watched_reward)
    limits = run.limits[_WatchedRewardFall]
    # On a scale of 0 to 1 a fall below 0.02 does not matter, however small the noise.
    span = 1.0 if watched.best <= 1 else float(np.ptp(watched.series.values))
    matters = watched.best - watched.end > limits.least * span
    lost = lost_part(watched, watched.end)
    loss_met = run.met(_WatchedRewardFall.lost, ">", lost) if matters else []
    # Without a gain, the best of many windows lies above the others by chance.
    significant = watched.fell or (watched.gained and watched.fall_z > FALL_Z)
    fell = bool(loss_met) and significant
    if not fell and (trained is None or _follows(watched, trained, limits.follow)):
        return None
    in_training = run.has("valid_reward")
    series = watched.series
    facts: Facts = {"kind": "fell" if fell else "apart", **run.reward_windows("watched_reward")}
    start, end = (trained.start, trained.end) if trained else (None, None)
    facts = {**facts, "trained_start": start, "trained_end": end}
    return check.finding(
        run,
        "critical" if fell and -watched.rise_z > FALL_Z else "warning",
        loss_met if fell else (),
        facts,
        Ranking(run.column("valid_reward"), False, "reward") if in_training else None,
        series=series,
        onset=onset(series.steps, series.values, peak=watched.peak) if fell else None,
    )


def _follows(watched: Shape, trained: Shape, min_ratio: float) -> bool:
    """Return False if the trained reward clearly rose but the other, on the same scale, is low."""
    both = [watched.series.values, trained.series.values]
    in_unit = [float(values.min()) >= 0 and float(values.max()) <= 1 for values in both]
    if in_unit[0] != in_unit[1] or not trained.rose or watched.rose:
        return True
    return trained.rise_z <= FALL_Z or watched.end >= min_ratio * trained.end
