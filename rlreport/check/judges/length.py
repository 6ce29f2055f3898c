"""Checks of the length of responses, of their ends, and of texts that the logger cut."""

from __future__ import annotations

import numpy as np

from rlreport.check import means, progress, quantities
from rlreport.check.check import LENGTH, REWARD, Check, RiseOrShare
from rlreport.check.course import Course
from rlreport.check.curve import LEAST_LEVEL, Curve, Level
from rlreport.check.evidence import Ranking, beyond
from rlreport.check.finding import Fact, Facts, Rank, Result, Severity
from rlreport.check.judges.metrics import is_clip_share_wrong, is_fall_disputed
from rlreport.check.limits import EOS, Limit, LimitKind, Limits, Tested
from rlreport.check.means import mean, median
from rlreport.check.quantities import LimitedFigure
from rlreport.check.run import Run, fall_onset, onset_of
from rlreport.check.series import Series
from rlreport.check.settings import SettingKind, also, enabled, higher
from rlreport.check.windows import Trend, correlation_within
from rlreport.figures.ragged import Floats
from rlreport.figures.tokens import is_cut_off
from rlreport.text.messages import format_message, message, span, translatable

SHORT_RESPONSES = translatable("TRL error on responses under 4 tokens (LMFlow post)")
# A token has about so many characters
TOKEN_CHARACTERS = 4
# If a smaller fraction (but not 0) of responses ends with an end token, end tokens are ignored
RARE = 0.02
# Fraction of responses that counts as all: all empty in a step, or all at the maximum length
ALL = 0.98
# If the longest response has fewer tokens than this, its length is not taken as a limit
LIMIT_TOKENS = 16
# A response counts as cut off if it has this fraction of the longest response's tokens
AT_LIMIT = 0.99
# Responses were empty from the start if this fraction of the first ones is
EMPTY_AT_START = 0.5


class _LengthHacking(Limits):
    ratio = Limit(
        1.5,
        LimitKind.RATIO,
        "times",
        "length at the end against that at the start",
    )
    correlation = Limit(
        0.4,
        LimitKind.VALUE,
        "",
        "correlation of reward and length within a group, else within a step",
    )
    least = Limit(
        20,
        LimitKind.COUNT,
        "tokens",
        "length at the end (characters: four times as many); shorter ones are not judged",
    )


@Check(
    name="length hacking",
    rank=Rank.CAUSE,
    needs=(REWARD,),
    charts=("length", "reward"),
    limits=_LengthHacking,
    title="Responses grew from {start:figure} to {end:figure} {unit}, and longer ones earn more "
    "(correlation {correlation:figure}; mean reward {reward_start:figure} at the start, "
    "{reward_end:figure} at the end).",
    statement="longer responses earn more, and length grows to {end:short} {unit}",
    why="Longer text scores higher whatever it says, so the policy pads instead of improving.",
    suggestion="Normalise or penalise length, or retrain the reward model on equally long pairs.",
    advice=also(*enabled(SettingKind.LENGTH_PENALTY)),
    rules_out=higher(SettingKind.LENGTH_LIMIT),
    explains=(
        "kl_explosion",
        "missing_eos",
        "diversity_collapse",
        "entropy_collapse",
        "reward_part_dominance",
        "unearned_gain",
        "part_falls",
        "watched_reward_fall",
    ),
    of_reward=True,
    trend=True,
)
def length_hacking(check: Check, run: Run) -> Result:
    """Find that responses grow because longer ones earn more."""
    length = run.column(run.length)
    courses = quantities.courses(run)
    course = courses["length"]
    curve = course.curve
    reward = courses["reward"]
    watched = quantities.watched_course(run)
    limits = _LengthHacking
    start = curve.first.value
    end = curve.last.value
    ratio = run.limits.test(limits.ratio, ">=", end, of=start)
    # Nothing was gained by the length if the reward fell; something real if validation rose.
    is_earned = watched is not None and watched.curve.rose
    least = run.limits[limits].least
    if run.length != "response_tokens" and course.source != "metrics":
        least *= TOKEN_CHARACTERS
    is_long = end >= least  # some words more are no padding
    if not (ratio.met and is_long and curve.rose) or reward.curve.fell or is_earned:
        return Result(tested=(ratio,))
    correlation, z = correlation_with_reward(run, length)
    pays = run.limits.test(limits.correlation, ">=", correlation)
    if not pays.met or z < run.limits[Trend].z:
        return Result(tested=(ratio, pays))
    facts: Facts = {
        "reward_start": reward.first.value,
        "reward_end": reward.last.value,
        "start": start,
        "end": end,
        "correlation": correlation,
        "unit": _unit_of(run, course),
    }
    return check.found(
        run,
        Severity.WARNING,
        [ratio, pays],
        facts,
        Ranking(
            length,
            _is_long_and_paid(run, length, ratio.bound * _first_of_rows(run, course)),
            unit=run.length_unit,
            at_end=True,
        ),
        onset=onset_of(curve),
    )


def _unit_of(run: Run, lengths: Course | Series) -> str:
    """Return the unit: the trainer's metric is in tokens, also if the log has characters only."""
    return message("tokens") if lengths.source == "metrics" else run.length_unit


def _first_of_rows(run: Run, course: Course) -> float:
    """Return the first level of the lengths of responses, in the unit of their column."""
    of_rows = means.series(run, run.column(run.length)).curve
    if course.source == "rollouts" or of_rows is None:
        return course.first.value
    return of_rows.first.value


def _is_long_and_paid(run: Run, length: Floats, least: float) -> Floats:
    """Return 1 for responses that are long and earn more than the mean of their step, (rows,).

    It is 0 for shorter ones, and NaN for long ones that earn less, which show nothing.
    """
    reward = run.column("reward")
    is_paid = reward > run.by_step(reward)[run.step_index]
    is_long = beyond(length, ">=", least)
    return np.where((is_long == 1) & ~is_paid, np.nan, is_long)


def correlation_with_reward(run: Run, length: Floats) -> tuple[float, float]:
    """Return the correlation of reward and length within groups, or else steps, and its z.

    It is the higher one of the last window and of the whole run.

    Args:
        run: the run.
        length: a length of each response, or another number, float64 (rows,).
    """
    # Groups count if most responses have another one of their group.
    are_grouped = run.responses["group"].duplicated(keep=False).mean() > 0.5
    inside = "group" if are_grouped else "step"
    reward = run.column("reward")
    windows = (run.last, run.window(0, len(run.steps)))
    correlations = [
        correlation_within(run.tables, reward, length, window, inside)
        for window in windows
    ]
    # NaN, if unknown, counts as less than any correlation.
    return max(correlations, key=lambda pair: np.nan_to_num(pair[0], nan=-2.0))


class _LengthCollapse(Limits):
    ratio = Limit(
        0.5,
        LimitKind.RATIO,
        "times",
        "mean length against its longest level, if the run does not learn or shortness pays",
        SHORT_RESPONSES,
    )
    severe = Limit(
        0.25,
        LimitKind.RATIO,
        "times",
        "mean length against its longest level before",
        SHORT_RESPONSES,
    )
    paid = Limit(
        0.3,
        LimitKind.VALUE,
        "",
        "correlation of reward and shortness, if the run learns",
    )
    tokens = Limit(
        4,
        LimitKind.COUNT,
        "tokens",
        "length below which a response is nearly empty",
        SHORT_RESPONSES,
    )
    stubs = Limit(
        0.1,
        LimitKind.SHARE,
        "of responses",
        "share nearly empty",
        SHORT_RESPONSES,
    )


def _shrunk_title(facts: Facts) -> str:
    """Return the title, with the steps of both mean lengths."""
    return format_message(_SHRUNK[str(facts["kind"])], _with_steps(facts))


def _shrunk_statement(facts: Facts) -> str:
    return format_message(_SHRINKS[str(facts["kind"])], _with_steps(facts))


def _with_steps(facts: Facts) -> dict[str, Fact]:
    steps = {name: span(facts[name]) for name in ("early", "late") if name in facts}
    return {**facts, **steps}


_SHRUNK = {
    "empty": translatable(
        "From step {since} on, nearly all responses are empty or only an end token."
    ),
    "shrunk": translatable(
        "The mean length fell from {start:figure} ({early}) to {end:figure} {unit} ({late})."
    ),
    "finished": translatable(
        "The mean length of finished responses fell from {start:figure} ({early}) to "
        "{end:figure} {unit} ({late})."
    ),
    "stubs": translatable(
        "{stubs:percent} of responses have fewer than {tokens} tokens ({stubs_start:percent} at "
        "the start)."
    ),
}
_SHRINKS = {
    "empty": translatable("nearly all responses are empty"),
    "shrunk": translatable(
        "responses shrink to {end:short} {unit} ({start:short} in {early})"
    ),
    "finished": translatable(
        "finished responses shrink to {end:short} {unit} ({start:short} in {early})"
    ),
    "stubs": translatable(
        "{stubs:percent} of responses have fewer than {tokens} tokens"
    ),
}


@Check(
    name="length collapse",
    rank=Rank.CONSEQUENCE,
    needs=(LENGTH,),
    charts=("length",),
    limits=_LengthCollapse,
    title=_shrunk_title,
    statement=_shrunk_statement,
    why="Stopping at once is often the cheapest way to avoid a penalty.",
    suggestion="Look for a penalty that grows with length; give empty responses the lowest reward.",
    suggestions={
        "paid": translatable(
            "Short responses earn more: look for a penalty that grows with length."
        ),
        "unpaid": translatable(
            "Read late responses beside early ones for what they leave out; nothing shows that "
            "shorter ones earn more."
        ),
    },
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
    """Find that responses became empty or far shorter, or that many have nearly no tokens."""
    # The most serious kind comes first; only one of them needs no responses.
    judges = (_shrunk,) if run.responses.empty else (_all_empty, _shrunk, _stubs)
    tested: tuple[Tested, ...] = ()
    for judge in judges:
        result = judge(check, run)
        tested += result.tested
        if result.finding is not None:
            return result
    return Result(tested=tested)


def _all_empty(check: Check, run: Run) -> Result:
    """Return a finding if nearly all responses of the last steps are empty, unlike the first."""
    tokens = run.column("response_tokens")
    chars = run.column("response_chars")
    is_only_end = (tokens == 1) & (run.column("finished") == 1)
    is_empty = (chars == 0) | (tokens == 0) | is_only_end
    share = run.by_step(is_empty.astype(np.float64))
    # After the last step in which some are not empty
    start = int(np.flatnonzero(share < ALL).max(initial=-1)) + 1
    is_too_brief = len(share) - start < LEAST_LEVEL
    if is_too_brief or mean(share[:LEAST_LEVEL]) >= EMPTY_AT_START:
        return Result()
    stubs = run.limits.test(_LengthCollapse.stubs, ">", mean(share[start:]))
    return check.found(
        run,
        Severity.CRITICAL,
        [stubs],
        {"kind": "empty", "since": int(run.steps[start])},
        Ranking(run.column(run.length), is_empty, highest=False),
        onset=run.onset(share),
    )


def _shrunk(check: Check, run: Run) -> Result:
    """Return a finding for a large fall of the mean length, or for a suspicious moderate one.

    A moderate fall is suspicious if the run does not learn, or if shorter responses earn more.
    """
    length = run.column(run.length)
    is_finish_known = _finish_known(run)
    if is_finish_known:
        # Learning to stop is not a collapse: only responses that finished count.
        length = np.where(run.column("finished") == 1, length, np.nan)
        series: Series | None = means.series(run, length)
    else:
        series = quantities.leading_series(run, "length", run.length)
    if series is None or series.curve is None or not series.curve.has_fallen:
        return Result()
    curve = series.curve
    if series.source == "rollouts" and not _is_median_shorter(run, length, curve):
        return Result()
    # If it grew before it fell, the fall is that from its highest level.
    top = curve.top
    end = curve.last.value
    severe = run.limits.test(_LengthCollapse.severe, "<", end, of=top.value)
    tested = [severe]
    if not severe.met and (not progress.learned(run) or _shortness_pays(run, length)):
        tested.append(run.limits.test(_LengthCollapse.ratio, "<", end, of=top.value))
    # What comes back from a high is no collapse.
    has_shrunk = end < run.limits[_LengthCollapse].ratio * curve.first.value
    if not (has_shrunk and any(one.met for one in tested)):
        return Result(tested=tuple(tested))
    facts: Facts = {
        "kind": "finished" if is_finish_known else "shrunk",
        "start": top.value,
        "early": top.steps,
        "end": end,
        "late": curve.last.steps,
        "unit": _unit_of(run, series),
    }
    if series.source == "rollouts" and run.has("reward"):
        facts = {**facts, "advice": "paid" if _earns_more(run, length) else "unpaid"}
    is_disputed = not is_finish_known and is_fall_disputed(run, "length")
    return check.found(
        run,
        Severity.INFO if is_disputed else Severity.WARNING,
        tested,
        facts,
        _shorter(run, length, series, top),
        series=series,
        onset=fall_onset(curve),
    )


def _shorter(run: Run, length: Floats, series: Series, top: Level) -> Ranking:
    """Return how to choose responses that are far shorter than those before the fall.

    Args:
        run: the run.
        length: of each response, float64 (rows,), NaN for those to leave out.
        series: the mean length by step, of responses or of the trainer.
        top: its level before the fall.
    """
    before = top.value
    if series.source == "metrics" and run.length != "response_tokens":
        # The trainer counts tokens, of which the log knows nothing.
        before = mean(length[run.window_of(top.steps).rows])
    most = run.limits.value(_LengthCollapse.ratio) * before
    return Ranking.beyond(length, "<", most, unit=run.length_unit)


def _is_median_shorter(run: Run, length: Floats, curve: Curve) -> bool:
    """Return whether the median length fell as well: else only a few long responses disappeared.

    Args:
        run: the run.
        length: of each response, float64 (rows,), NaN for those to leave out.
        curve: that of the mean length, whose levels are compared.
    """
    top = curve.top
    before = median(length[run.window_of(top.steps).rows])
    after = median(length[run.window_of(curve.last.steps).rows])
    return after < run.limits[_LengthCollapse].ratio * before


def _shortness_pays(run: Run, length: Floats) -> bool:
    """Return whether shorter responses earn more while validation did not rise."""
    watched = quantities.watched_course(run)
    if watched is not None and watched.curve.rose:
        return False
    return _earns_more(run, length)


def _earns_more(run: Run, length: Floats) -> bool:
    """Return whether shorter responses earn more than others of their step."""
    correlation, z = correlation_with_reward(run, -length)
    pays = run.limits.test(_LengthCollapse.paid, ">=", correlation)
    return bool(pays.met and z >= run.limits[Trend].z)


def _stubs(check: Check, run: Run) -> Result:
    """Return a finding if many responses are tiny, for some steps at least.

    It is a note if that is not new, did not last, or the run learns.
    """
    tokens = run.column("response_tokens")
    limit = run.limits[_LengthCollapse].tokens
    is_stub = np.where(np.isfinite(tokens), tokens < limit, np.nan)
    series = means.series(run, is_stub)
    figure = LimitedFigure(_LengthCollapse.stubs, ">", series)
    excursion = figure.excursion(run)
    level = figure.level(excursion)
    tested = run.limits.test(_LengthCollapse.stubs, ">", level)
    if excursion is None or series.curve is None:
        return Result(tested=(tested,))
    has_risen = series.curve.rose or series.curve.climb is not None
    is_new_fault = has_risen and excursion.lasts and not progress.learned(run)
    facts: Facts = {
        "stubs": level,
        "stubs_start": series.curve.first.value,
        "tokens": limit,
        "kind": "stubs",
    }
    return check.found(
        run,
        Severity.WARNING if is_new_fault else Severity.INFO,
        [tested],
        facts,
        Ranking(tokens, is_stub, highest=False, unit=run.length_unit),
        onset=run.onset_beyond(series, tested.bound, is_share=True),
        until=None if excursion.lasts else excursion.steps[1],
    )


class MissingEos(RiseOrShare):
    """Thresholds of ``missing_eos``."""

    rise = Limit(
        0.2,
        LimitKind.SHARE,
        "of responses",
        "rise of the share cut off, last level minus first",
        EOS,
    )
    share = Limit(0.5, LimitKind.SHARE, "of responses", "share cut off", EOS)


@Check(
    name="responses no longer end",
    rank=Rank.CONSEQUENCE,
    charts=("eos", "length"),
    limits=MissingEos,
    close={"share": "{value:percent} of responses are cut off"},
    title="{share:percent} of responses are cut off before their end ({before:percent} at the "
    "start).",
    statement="{share:percent} of responses are cut off",
    why="A response that is cut off has no ending, so its reward judges an unfinished text.",
    suggestion="Penalise responses without EOS, allow more tokens, and check the mask of the EOS.",
    advice=higher(SettingKind.LENGTH_LIMIT) + enabled(SettingKind.TRUNCATED),
    otherwise="Penalise responses without EOS, and check the mask of the EOS.",
    needs_also="an end-of-sequence token, a finish reason, or lengths in tokens",
)
def missing_eos(check: Check, run: Run) -> Result:
    """Find that many responses are cut off before their end, or more than at the start."""
    cut_off = _cut_off(run)
    if cut_off is None and is_clip_share_wrong(run):
        return check.not_run("a share of responses cut off that agrees with lengths")
    if cut_off is None:
        return check.judge_metric(run, "truncated")
    ranking = Ranking(
        run.column(run.length),
        cut_off,
        unit=run.length_unit,
        at_end=True,
    )
    result = check.judge_rows(run, cut_off, ranking=ranking)
    finding = result.finding
    crossed = () if finding is None else finding.met
    rose = any(tested.limit is MissingEos.rise for tested in crossed)
    # A share that is always high counts only if most of these responses are as long as the longest
    # or if none finished: responses that end with a stop string have no end token either. Then the
    # share says nothing, so it is not close to its limit either.
    return result if rose or _are_at_limit(run, cut_off) else Result()


def _finish_known(run: Run) -> bool:
    """Return whether column ``finished`` says which responses ended by themselves.

    A few end tokens among many responses are chance: then the others end in another way.
    """
    share = mean(run.column("finished"))
    return share == 0 or share >= RARE


def _cut_off(run: Run) -> Floats | None:
    """Return 1 for responses that are cut off, 0 for others, NaN if unknown, float64 (rows,).

    If it is not known which ones finished, those as long as the longest one count. None if nothing
    is known, such as where all are equally long.
    """
    if _finish_known(run):
        return is_cut_off(run.column("finished"), run.column("ending"))
    tokens = run.column("response_tokens")
    if not run.has("response_tokens") or np.nanmax(tokens) < LIMIT_TOKENS:
        return None
    is_at_limit = tokens >= AT_LIMIT * np.nanmax(tokens)
    at_limit = np.where(np.isfinite(tokens), is_at_limit, np.nan)
    return None if mean(at_limit) > ALL else at_limit


def _are_at_limit(run: Run, cut_off: Floats) -> bool:
    """Return whether most late responses that are cut off are as long as the longest late one.

    True as well if no response of the run is known to have finished, or lengths are not known.
    """
    tokens = run.column("response_tokens")[run.last.rows]
    any_finished = (run.column("finished") == 1).any()
    if not np.isfinite(tokens).any() or not any_finished:
        return True
    of_cut_off = tokens[cut_off[run.last.rows] == 1]
    is_at_limit = of_cut_off >= AT_LIMIT * np.nanmax(tokens)
    return bool(2 * is_at_limit.sum() > len(is_at_limit))


# A text is about as long as the longest if it has this fraction of its characters
NEARLY = 0.99


class _CutTexts(Limits):
    share = Limit(
        0.2,
        LimitKind.SHARE,
        "of responses",
        "responses with at least 99% of the largest length (note)",
    )
    least = Limit(
        64,
        LimitKind.COUNT,
        "characters",
        "largest length; shorter ones may be equal by chance",
    )


@Check(
    name="texts cut by the logger",
    rank=Rank.NOTE,
    limits=_CutTexts,
    title="{share:percent} of responses have about {most:count} characters, and none has more: "
    "the logger cut them.",
    why="Lengths in characters, response endings and spreading texts are computed from the "
    "truncated texts.",
    suggestion="Log whole responses, and fewer of them if space is short.",
    whole_run=True,
)
def cut_texts(check: Check, run: Run) -> Result:
    """Note that many responses have the largest length of all: the logger cut them."""
    chars = run.responses["response_chars"].to_numpy(np.int64)
    largest = int(chars.max(initial=0))
    longest = run.responses.loc[chars >= NEARLY * largest, "response_hash"]
    # Equal texts are equally long without being cut: at least half of these have to differ.
    are_same = 2 * longest.nunique() < len(longest)
    if largest < run.limits[_CutTexts].least or are_same:
        return Result()
    share = len(longest) / len(chars)
    tested = run.limits.test(_CutTexts.share, ">", share)
    if not tested.met:
        return Result(tested=(tested,))
    lengths = run.column("response_chars")
    ranking = Ranking.beyond(
        lengths, ">=", NEARLY * largest, unit="characters", at_end=True
    )
    facts = {"share": share, "most": largest}
    return check.found(run, Severity.INFO, [tested], facts, ranking)
