"""Checks of the length of responses, of their ends, and of texts that the logger cut."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import LENGTH, REWARD, Check, Result, RiseOrShare
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Facts, Severity
from rlreport.check.limits import EOS, Limit, Limits
from rlreport.check.noise import Trend, correlation_within
from rlreport.check.run import Run, mean, median
from rlreport.check.series import MIN_WINDOW, Series
from rlreport.figures.ragged import Floats
from rlreport.figures.tokens import is_cut_off
from rlreport.text.messages import span, translatable

SHORT_RESPONSES = translatable("TRL error on responses under 4 tokens (LMFlow post)")
# If a smaller fraction (but not 0) of responses ends with an end token, end tokens are ignored
RARE = 0.02
# Fraction of responses that counts as all: all empty in a step, or all at the maximum length
ALL = 0.98
# If the longest response has fewer tokens than this, its length is not taken as a limit
LIMIT_TOKENS = 16
# A response counts as cut off if it has this fraction of the longest response's tokens
AT_LIMIT = 0.99


class _LengthHacking(Limits):
    ratio = Limit(1.5, "times", "mean length against the first window")
    correlation = Limit(
        0.4, "", "correlation of reward and length within a group, else within a step"
    )


@Check(
    name="length hacking",
    rank="cause",
    needs=(REWARD,),
    charts=("length", "reward"),
    limits=_LengthHacking,
    title="Responses grew from {start:figure} to {end:figure} {unit}, and longer ones earn more "
    "(correlation {correlation:figure}; mean reward {reward_start:figure} at the start, "
    "{reward_end:figure} at the end).",
    statement="longer responses earn more, and length grows to {end:short} {unit}",
    why="Longer text scores higher whatever it says, so the policy pads instead of improving.",
    suggestion="Normalise or penalise length, or retrain the reward model on equally long pairs.",
    explains=(
        "kl_explosion",
        "missing_eos",
        "diversity_collapse",
        "entropy_collapse",
        "reward_part_dominance",
        "watched_reward_fall",
    ),
    of_reward=True,
    trend=True,
)
def length_hacking(check: Check, run: Run) -> Result:
    length = run.column(run.length)
    watched = run.watched_shape
    moved = run.change(length)
    rewards = run.change(run.column("reward"))
    ratio = run.met(_LengthHacking.ratio, ">=", moved.last, of=moved.first)
    if (
        not (ratio and moved.rose)
        or rewards.fell
        or (watched is not None and watched.rose)
    ):
        return None
    correlation, z = correlation_with_reward(run, length)
    pays = run.met(_LengthHacking.correlation, ">=", correlation)
    if not pays or z < run.limits[Trend].z:
        return None
    facts: Facts = {"reward_start": rewards.first, "reward_end": rewards.last}
    facts = {
        **facts,
        "start": moved.first,
        "end": moved.last,
        "correlation": correlation,
    }
    facts = {**facts, "unit": run.length_unit}
    ranking = Ranking(length, unit=run.length_unit, at_end=True)
    series = run.by_step(length)
    return check.finding(run, "warning", ratio + pays, facts, ranking, series=series)


def correlation_with_reward(run: Run, length: Floats) -> tuple[float, float]:
    grouped = run.responses["group"].duplicated(keep=False).mean() > 0.5
    inside = "group" if grouped else "step"
    reward = run.column("reward")
    windows = (run.last, run.window(0, len(run.steps)))
    pairs = [
        correlation_within(run.tables, reward, length, part, inside) for part in windows
    ]
    return max(pairs, key=lambda pair: np.nan_to_num(pair[0], nan=-2.0))


class _LengthCollapse(Limits):
    ratio = Limit(0.5, "times", "mean length against the first window", SHORT_RESPONSES)
    severe = Limit(
        0.25, "times", "mean length against the first three steps", SHORT_RESPONSES
    )
    paid = Limit(0.3, "", "correlation of reward and shortness, if the run learns")
    tokens = Limit(
        4, "tokens", "length below which a response is nearly empty", SHORT_RESPONSES
    )
    stubs = Limit(
        0.1, "of responses", "share nearly empty, last window", SHORT_RESPONSES
    )


@Check(
    name="length collapse",
    rank="consequence",
    needs=(LENGTH,),
    charts=("length",),
    limits=_LengthCollapse,
    title={
        "empty": "From step {since} on, nearly all responses are empty or only an end token.",
        "shrunk": "The mean length fell from {start:figure} to {end:figure} {unit}.",
        "finished": "The mean length of finished responses fell from {start:figure} to "
        "{end:figure} {unit}.",
        "stubs": "{stubs:percent} of responses have fewer than {tokens} tokens "
        "({stubs_start:percent} at the start).",
    },
    statement={
        "empty": "nearly all responses are empty",
        "shrunk": "responses shrink to {end:short} {unit} ({start:short} in {early})",
        "finished": "finished responses shrink to {end:short} {unit} ({start:short} in {early})",
        "stubs": "{stubs:percent} of responses have fewer than {tokens} tokens",
    },
    why="Stopping at once is often the cheapest way to avoid a penalty.",
    suggestion="Look for a penalty that grows with length; give empty responses the lowest reward.",
    explains=(
        "diversity_collapse",
        "entropy_collapse",
        "reward_stalled",
        "watched_reward_fall",
        "zero_variance_groups",
        "unclosed_thinking",
    ),
    trend=True,
)
def length_collapse(check: Check, run: Run) -> Result:
    if run.responses.empty:
        return _shrunk(check, run)
    return _all_empty(check, run) or _shrunk(check, run) or _stubs(check, run)


def _all_empty(check: Check, run: Run) -> Result:
    tokens = run.column("response_tokens")
    chars = run.column("response_chars")
    only_end = (tokens == 1) & (run.column("finished") == 1)
    empty = np.where((chars == 0) | (tokens == 0) | only_end, 1.0, 0.0)
    series = run.by_step(empty)
    start = int(np.flatnonzero(series < ALL).max(initial=-1)) + 1
    if len(series) - start < MIN_WINDOW or mean(series[:MIN_WINDOW]) >= 0.5:
        return None
    met = run.met(_LengthCollapse.stubs, ">", mean(series[start:]))
    ranking = Ranking(run.column(run.length), highest=False, among=empty == 1)
    facts: Facts = {"kind": "empty", "since": int(run.steps[start])}
    return check.finding(run, "critical", met, facts, ranking, series=series)


def _shrunk(check: Check, run: Run) -> Result:
    """Return a finding for a large fall of the mean length, or for a suspicious moderate one.

    A moderate fall is suspicious if the run does not learn, or if shorter responses earn more.
    Learning to stop is not a collapse: if the log tells which responses finished, only these
    count. If it does not, the trainer's metric is judged or, without one, all responses.
    """
    length = run.column(run.length)
    trainers = run.series_of("length")
    if _finish_known(run):
        length, trainers = np.where(run.column("finished") == 1, length, np.nan), None
    if trainers is not None and run.covers(trainers):
        severe = trainers.change(MIN_WINDOW)
        moved = trainers.change()
        series = trainers
        unit = translatable("tokens")
    else:
        first = run.window(0, MIN_WINDOW)
        medians = [median(length[part.rows]) for part in (run.last, first)]
        if medians[0] >= run.limits[_LengthCollapse].ratio * medians[1]:
            return None  # The mean fell only because a few long responses disappeared.
        severe = run.change(length, first=first)
        moved = run.change(length)
        series = Series(run.steps, run.by_step(length))
        unit = run.length_unit
    met = (
        run.met(_LengthCollapse.severe, "<", severe.last, of=severe.first)
        if severe.fell
        else []
    )
    early: object = run.window(0, MIN_WINDOW).span
    if not met:
        severe = moved
        early = run.first and run.first.span
        if moved.fell and (not run.learned or _shortness_pays(run, length)):
            met = run.met(_LengthCollapse.ratio, "<", moved.last, of=moved.first)
    if not met:
        return None
    ranking = Ranking(run.column(run.length), highest=False, unit=run.length_unit)
    kind = "finished" if _finish_known(run) else "shrunk"
    facts: Facts = {"kind": kind, "start": severe.first, "early": span(early)}
    facts = {**facts, "end": severe.last, "unit": unit}
    return check.finding(run, "warning", met, facts, ranking, series=series)


def _shortness_pays(run: Run, length: Floats) -> bool:
    """Return whether shorter responses earn more while the watched reward did not rise."""
    watched = run.watched_shape
    correlation, z = correlation_with_reward(run, -length)
    pays = run.met(_LengthCollapse.paid, ">=", correlation) and z >= run.limits[Trend].z
    return bool(pays) and (watched is None or not watched.rose)


def _stubs(check: Check, run: Run) -> Result:
    """Return a finding if many responses are tiny, a note if that is not new or the run learns."""
    tokens = run.column("response_tokens")
    limit = run.limits[_LengthCollapse].tokens
    is_stub = np.where(np.isfinite(tokens), tokens < limit, np.nan)
    share = run.change(is_stub)
    if not (met := run.met(_LengthCollapse.stubs, ">", share.last)):
        return None
    facts: Facts = {"stubs": share.last, "stubs_start": share.first, "tokens": limit}
    severity: Severity = "warning" if share.rose and not run.learned else "info"
    ranking = Ranking(tokens, highest=False, unit=run.length_unit)
    series = run.by_step(is_stub)
    dating = {"series": series, "always": not share.rose}
    return check.finding(
        run, severity, met, {**facts, "kind": "stubs"}, ranking, **dating
    )


class MissingEos(RiseOrShare):
    rise = Limit(0.2, "of responses", "share cut off, rise since the first window", EOS)
    share = Limit(0.5, "of responses", "share cut off in the last window", EOS)


@Check(
    name="responses no longer end",
    rank="consequence",
    charts=("eos", "length"),
    limits=MissingEos,
    close={"share": "{value:percent} of responses are cut off"},
    title="{share:percent} of responses are cut off before their end ({before:percent} at the "
    "start).",
    statement="{share:percent} of responses are cut off",
    why="A response that is cut off has no ending, so its reward judges an unfinished text.",
    suggestion="Penalise responses without EOS, allow more tokens, and check the mask of the EOS.",
    needs_also="an end-of-sequence token, a finish reason, or lengths in tokens",
)
def missing_eos(check: Check, run: Run) -> Result:
    # A share that is always high counts only if most of these responses are as long as the longest
    # or if none finished: responses that end with a stop string have no end token either.
    cut_off = _cut_off(run)
    if cut_off is not None:
        among = cut_off == 1
        ranking = Ranking(
            run.column(run.length), unit=run.length_unit, among=among, at_end=True
        )
        finding = check.judge_rows(run, cut_off, ranking=ranking)
        rose = finding is not None and any(
            met.name == "rise" for met in finding.thresholds
        )
        if rose or _same_length(run, cut_off):
            return finding
        run.tested.pop(MissingEos.share, None)  # the responses end with a stop string
        return None
    return check.judge_metric(run, "truncated")


def _finish_known(run: Run) -> bool:
    share = mean(run.column("finished"))
    return share == 0 or share >= RARE


def _cut_off(run: Run) -> Floats | None:
    if _finish_known(run):
        return is_cut_off(run.column("finished"), run.column("ending"))
    tokens = run.column("response_tokens")
    if not run.has("response_tokens") or np.nanmax(tokens) < LIMIT_TOKENS:
        return None
    at_limit = np.where(
        np.isfinite(tokens), tokens >= AT_LIMIT * np.nanmax(tokens), np.nan
    )
    return None if mean(at_limit) > ALL else at_limit


def _same_length(run: Run, cut_off: Floats) -> bool:
    tokens = run.column("response_tokens")[run.last.rows]
    if not np.isfinite(tokens).any() or not (run.column("finished") == 1).any():
        return True
    at_limit = tokens[cut_off[run.last.rows] == 1] >= AT_LIMIT * np.nanmax(tokens)
    return bool(2 * at_limit.sum() > len(at_limit))


NEARLY = 0.99


class _CutTexts(Limits):
    share = Limit(
        0.2, "of responses", "responses with at least 99% of the largest length (note)"
    )
    least = Limit(
        64, "characters", "largest length; shorter ones may be equal by chance"
    )


@Check(
    name="texts cut by the logger",
    rank="note",
    limits=_CutTexts,
    title="{share:percent} of responses have about {most:count} characters, and none has more: "
    "the logger cut them.",
    why="Lengths in characters, response endings and spreading texts are computed from the "
    "truncated texts.",
    suggestion="Log whole responses, and fewer of them if space is short.",
    whole_run=True,
)
def cut_texts(check: Check, run: Run) -> Result:
    chars = run.responses["response_chars"].to_numpy(np.int64)
    largest = int(chars.max(initial=0))
    longest = run.responses.loc[chars >= NEARLY * largest, "response_hash"]
    if largest < run.limits[_CutTexts].least or 2 * longest.nunique() < len(longest):
        return None
    share = len(longest) / len(chars)
    met = run.met(_CutTexts.share, ">", share)
    return (
        check.finding(run, "info", met, {"share": share, "most": largest})
        if met
        else None
    )
