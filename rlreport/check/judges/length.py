"""Checks of length: it buys reward, responses shrink to nothing, responses are cut off."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Need, Result
from rlreport.check.finding import Fact, Facts
from rlreport.check.limits import EOS, Limit, Limits
from rlreport.check.noise import correlation_inside
from rlreport.check.run import Run, Shown, has, mean, median
from rlreport.check.series import FEWEST_IN_WINDOW, Series
from rlreport.check.shapes import RiseOrShare, change_along, rise_or_share
from rlreport.check.windows import Trend, whole, window
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked
from rlreport.text.special import EOS_TOKENS

SHORT_RESPONSES = marked("TRL error on responses under 4 tokens (LMFlow post)")

RARE = 0.02
"""Below this share of finished responses an end token is a chance find, not how responses end."""

ALL = 0.98
"""Share from which all responses of a step count as empty, or of a run as equally long."""

LIMIT_TOKENS = 16
"""A largest length below this is no limit that responses run into."""

AT_LIMIT = 0.99
"""Part of the largest length from which a response counts as cut off there."""

END_TOKEN_CHARS = tuple({len(token) for token in EOS_TOKENS})


class LengthHacking(Limits):
    """Thresholds of ``length_hacking``."""

    ratio = Limit(1.5, "times", "mean length against the first window")
    correlation = Limit(0.4, "", "of reward and length inside a group, else inside a step")


class LengthCollapse(Limits):
    """Thresholds of ``length_collapse``."""

    ratio = Limit(0.5, "times", "mean length against the first window", SHORT_RESPONSES)
    severe = Limit(0.25, "times", "mean length against the first three steps", SHORT_RESPONSES)
    paid = Limit(0.3, "", "and so strong a correlation of reward and shortness, or no gain")
    tokens = Limit(4, "tokens", "a response with fewer is a stub", SHORT_RESPONSES)
    stubs = Limit(0.1, "of responses", "are stubs in the last window", SHORT_RESPONSES)


class MissingEos(RiseOrShare):
    """Thresholds of ``missing_eos``."""

    rise = Limit(0.2, "of responses", "rise of the share cut off since the first window", EOS)
    share = Limit(0.5, "of responses", "share cut off in the last window", EOS)


def judge_hacking(run: Run) -> Result:
    """Look for longer responses, and for a higher reward of the longer ones among alike.

    Responses of one group are compared, else those of one step; over the last window or, where
    length ran into its limit and no longer varies, over the run. Where the watched reward rises,
    responses get longer because they get better.
    """
    length, reward = run.column(run.length), run.column("reward")
    moved, watched = run.change(length), run.watched_shape
    ratio = run.met(LengthHacking.ratio, ">=", moved.last, of=moved.first)
    if not (ratio and moved.rose) or (watched is not None and watched.rose):
        return None
    paid, z = _paid(run, length)
    correlation = run.met(LengthHacking.correlation, ">=", paid)
    rewards = run.change(reward)
    if not (correlation and z >= run.limits[Trend].z) or rewards.fell:
        return None
    return LENGTH_HACKING.finding(
        run,
        "warning",
        ratio + correlation,
        series=run.by_step(length),
        shown=Shown(length, unit=run.length_unit, at_end=True),
        start=moved.first,
        end=moved.last,
        unit=run.length_unit,
        correlation=paid,
        reward_start=rewards.first,
        reward_end=rewards.last,
        carried=rewards.rose,
    )


def _paid(run: Run, length: Floats) -> tuple[float, float]:
    """Return the larger correlation of reward and length, last window or run, and its z."""
    grouped = run.responses["group"].duplicated(keep=False).mean() > 0.5
    inside = "group" if grouped else "step"
    return max(
        (
            correlation_inside(run.tables, run.column("reward"), length, part, inside)
            for part in (run.last, whole(run.tables))
        ),
        key=lambda found: (found[0] == found[0], found[0]),
    )


def hacking_title(facts: Facts) -> str:
    """Return how much longer responses became, and that length pays."""
    if not facts["carried"]:
        return marked(
            "Responses grew from {start:figure} to {end:figure} {unit}, and longer ones earn more "
            "(correlation {correlation:figure}), while the mean reward stayed: "
            "{reward_start:figure} at first, {reward_end:figure} at the end."
        )
    if facts["unit"] == "tokens":
        return marked(
            "Responses grew from {start:figure} to {end:figure} tokens and the reward rose from "
            "{reward_start:figure} to {reward_end:figure} with them: longer ones earn more "
            "(correlation {correlation:figure})."
        )
    return marked(
        "Responses grew from {start:figure} to {end:figure} characters and the reward rose from "
        "{reward_start:figure} to {reward_end:figure} with them: longer ones earn more "
        "(correlation {correlation:figure})."
    )


LENGTH_HACKING = Check(
    id="length_hacking",
    name="length hacking",
    rank="cause",
    looks_for="length buys reward",
    needs=(REWARD,),
    charts=("length", "reward"),
    judge=judge_hacking,
    limits=LengthHacking,
    title=hacking_title,
    clause="responses grew from {start:figure} to {end:figure} {unit}",
    why="Longer text scores higher whatever it says, so the policy pads instead of improving.",
    suggestion="Take length out of the reward: normalise or penalise it, retrain the reward model "
    "on pairs of equal length, or penalise responses cut off at the limit.",
    explains=(
        *("kl_explosion", "missing_eos", "diversity_collapse", "entropy_collapse"),
        *("not_sharpening", "reward_part_dominance", "persistent_losers", "watched_reward_fall"),
    ),
    of_reward=True,
)


def finish_known(run: Run) -> bool:
    """Say whether the log tells which responses ended: by finish reasons, or by end tokens."""
    share = mean(run.column("finished"))
    return share == 0 or share >= RARE


def judge_collapse(run: Run) -> Result:
    """Look for empty responses, for much shorter ones, and for stubs of next to no tokens.

    Judged is the length of finished responses where finishing is known, as learning to stop is
    no collapse; else the trainer's mean length, which is of all its rollouts. Stubs that were
    there from the start, or come with a gain, are how the task is answered: a note.
    """
    empty = _empty(run)
    by_step = run.by_step(empty)
    some_text = np.flatnonzero(by_step < ALL)
    empty_steps = len(by_step) - 1 - int(some_text[-1]) if len(some_text) else len(by_step)
    if empty_steps >= FEWEST_IN_WINDOW and mean(by_step[:FEWEST_IN_WINDOW]) < 0.5:
        return LENGTH_COLLAPSE.finding(
            run,
            "critical",
            run.met(LengthCollapse.stubs, ">", float(by_step[-empty_steps:].mean())),
            series=by_step,
            shown=Shown(run.column(run.length), highest=False, among=empty == 1),
            kind="empty",
            since=int(run.steps[-empty_steps]),
        )
    length, trainers = run.column(run.length), _trainers_length(run)
    if finish_known(run):
        length, trainers = np.where(run.column("finished") == 1, length, np.nan), None
    if trainers is not None:
        severe, moved = (change_along(trainers, steps) for steps in (FEWEST_IN_WINDOW, None))
        series = run.along(trainers)
    else:
        first = window(run.tables, 0, FEWEST_IN_WINDOW)
        severe, moved = run.change(length, first=first), run.change(length)
        series = run.by_step(length)
    typical = trainers is not None or _median_fell(run, length)
    met = run.met(LengthCollapse.severe, "<", severe.last, of=severe.first) if severe.fell else []
    if not (met := met if typical else []):
        severe = moved
        if moved.fell and typical and (not run.learned or _pays_to_be_short(run, length)):
            met = run.met(LengthCollapse.ratio, "<", moved.last, of=moved.first)
    shrank = bool(met)
    unit = "tokens" if trainers is not None else run.length_unit
    facts: dict[str, Fact] = {"start": severe.first, "end": severe.last, "unit": unit}
    grew = False
    if run.has("response_tokens"):
        tokens, least = run.column("response_tokens"), run.limits[LengthCollapse].tokens
        short = np.where(np.isfinite(tokens), tokens < least, np.nan)
        stubs = run.change(short)
        if many := run.met(LengthCollapse.stubs, ">", stubs.last):
            grew = stubs.rose
            facts |= {"stubs": stubs.last, "stubs_start": stubs.first, "tokens": least}
            met += many
            series = series if shrank else run.by_step(short)
    if not met:
        return None
    return LENGTH_COLLAPSE.finding(
        run,
        "warning" if shrank or (grew and not run.learned) else "info",
        met,
        series=series,
        always=not shrank and not grew,
        shown=Shown(run.column(run.length), highest=False, unit=run.length_unit),
        more=facts,
        kind="shrank" if shrank else "stubs",
        shrank=shrank,
        series_from="metrics" if trainers is not None and shrank else "rollouts",
    )


def _pays_to_be_short(run: Run, length: Floats) -> bool:
    """Say whether shorter responses earn more than others, and the watched reward did not rise."""
    watched = run.watched_shape
    paid, z = _paid(run, -length)
    enough = run.met(LengthCollapse.paid, ">=", paid) and z >= run.limits[Trend].z
    return bool(enough) and (watched is None or not watched.rose)


def _empty(run: Run) -> Floats:
    """Return 1 for each response without text, or with an end token alone, float64 (rows,)."""
    tokens, chars, finished = (
        run.column(name) for name in ("response_tokens", "response_chars", "finished")
    )
    lone = (tokens == 1) | (np.isnan(tokens) & _same_as_most(run) & np.isin(chars, END_TOKEN_CHARS))
    empty = (chars == 0) | (tokens == 0) | (lone & (finished == 1))
    return np.where(empty, 1.0, 0.0)


def _same_as_most(run: Run) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which responses have the text that is the most common one of the last window."""
    texts = run.responses["response_hash"].to_numpy()
    kinds, counts = np.unique(texts[run.last.rows], return_counts=True)
    return np.asarray(texts == kinds[np.argmax(counts)])


def _trainers_length(run: Run) -> Series | None:
    """Return the trainer's mean length of the steps in which few responses are cut off."""
    series, cut = run.series_of("length"), run.series_of("truncated")
    if series is None or not run.covers(series):
        return None
    if cut is not None:
        many = np.isin(series.steps, cut.steps[cut.values > MissingEos.rise.default])
        series = Series(series.steps[~many], series.values[~many], None, series.source, series.name)
    return series if run.covers(series) else None


def _median_fell(run: Run, length: Floats) -> bool:
    """Say whether the typical response shrank, and not only the few that were long."""
    first, last = (median(length[part.rows]) for part in (run.first, run.last) if part)
    start = median(length[window(run.tables, 0, FEWEST_IN_WINDOW).rows])
    return last < run.limits[LengthCollapse].ratio * max(first, start)


def collapse_title(facts: Facts) -> str:
    """Return how far responses shrank, and the share of stubs."""
    if facts.get("kind") == "empty":
        return marked("Every response is empty or an end token alone, from step {since} on.")
    if not facts["shrank"]:
        return marked(
            "{stubs:percent} of responses are under {tokens} tokens ({stubs_start:percent} at the "
            "start)."
        )
    if facts["unit"] != "tokens":
        return marked("Responses shrank from {start:figure} to {end:figure} characters.")
    if "stubs" in facts:
        return marked(
            "Responses shrank from {start:figure} to {end:figure} tokens; {stubs:percent} of them "
            "are under {tokens} tokens."
        )
    return marked("Responses shrank from {start:figure} to {end:figure} tokens.")


def collapse_clause(facts: Facts) -> str:
    """Return how far responses shrank."""
    if facts.get("kind") == "empty":
        return marked("every response is empty")
    if not facts["shrank"]:
        return marked("{stubs:percent} of responses are under {tokens} tokens")
    return marked("responses shrank from {start:figure} to {end:figure} {unit}")


LENGTH_COLLAPSE = Check(
    id="length_collapse",
    name="responses collapsed in length",
    rank="consequence",
    looks_for="responses shrink to nothing",
    needs=(Need("response", ("response_chars",)),),
    charts=("length",),
    judge=judge_collapse,
    limits=LengthCollapse,
    title=collapse_title,
    clause=collapse_clause,
    why="Stopping at once is often the cheapest way to avoid a penalty; the responses left say "
    "nothing, and some trainers fail on them.",
    suggestion="Look for a penalty that grows with length, a reward that is highest for silence, "
    "or a policy that learned EOS as its first token; give empty responses the lowest reward.",
    explains=(
        *("diversity_collapse", "entropy_collapse", "reward_stalled", "watched_reward_fall"),
        *("zero_variance_groups", "unclosed_thinking"),
    ),
)


def judge_eos(run: Run) -> Result:
    """Look for a rise of the share cut off, and for a share that is high from the start.

    The latter counts where the responses that are cut off pile up at one length, or where all
    finish reasons say so: responses that end in a stop string have no end token either.
    """
    trainers = run.series_of("truncated")
    cut_off = _cut_off(run)
    if cut_off is not None:
        moved, series = run.change(cut_off), run.by_step(cut_off)
    elif trainers is not None and len(trainers.steps) >= run.limits[Trend].shortest_run:
        moved, series = change_along(trainers, None), run.along(trainers)
    else:
        return MISSING_EOS.not_run(MISSING_EOS.needs_also)
    rise, met = rise_or_share(run, moved, MissingEos)
    if not met or (not rise and cut_off is not None and not _at_one_length(run, cut_off)):
        return None
    onset = run.onset(series, always=not rise)
    with np.errstate(invalid="ignore"):
        cut = run.steps[(series > moved.last / 2) & np.isin(run.steps, run.since(onset))]
    among = None if cut_off is None else cut_off == 1
    return MISSING_EOS.finding(
        run,
        "warning",
        met,
        series=series,
        onset=onset,
        shown=Shown(run.column(run.length), unit=run.length_unit, among=among, at_end=True),
        steps=cut.tolist(),
        share=moved.last,
        share_start=moved.first,
        series_from="metrics" if cut_off is None else "rollouts",
    )


def _cut_off(run: Run) -> Floats | None:
    """Return 1 for each response that is cut off, float64 (rows,); None where nothing tells."""
    if finish_known(run):
        return 1 - run.column("finished")
    tokens = run.column("response_tokens")
    if not has(run.responses, "response_tokens") or np.nanmax(tokens) < LIMIT_TOKENS:
        return None
    at_limit = np.where(np.isfinite(tokens), tokens >= AT_LIMIT * np.nanmax(tokens), np.nan)
    return None if mean(at_limit) > ALL else at_limit


def _at_one_length(run: Run, cut_off: Floats) -> bool:
    """Say whether most responses that are cut off in the last window are as long as the longest."""
    tokens = run.column("response_tokens")[run.last.rows]
    if not np.isfinite(tokens).any() or not (run.column("finished") == 1).any():
        return True
    long = tokens[cut_off[run.last.rows] == 1] >= AT_LIMIT * np.nanmax(tokens)
    return bool(2 * long.sum() > len(long))


def eos_title(facts: Facts) -> str:
    """Return the share of responses that do not end."""
    if facts["share_start"] is None:
        return marked("{share:percent} of responses are cut off without an end.")
    return marked(
        "{share:percent} of responses are cut off without an end ({share_start:percent} at the "
        "start)."
    )


MISSING_EOS = Check(
    id="missing_eos",
    name="responses no longer end",
    rank="consequence",
    looks_for="responses are cut off at the limit",
    charts=("eos", "length"),
    judge=judge_eos,
    limits=MissingEos,
    title=eos_title,
    clause="{share:percent} of responses are cut off",
    why="A response that is cut off has no ending to judge: its reward is that of a fragment, and "
    "the policy is not learning to stop.",
    suggestion="Penalise responses without EOS (TRL: --missing_eos_penalty), allow more tokens, "
    "and check that the EOS token is not masked out of the loss.",
    trend=False,
    needs_also="an end-of-sequence token, a finish reason, or lengths in tokens",
)
