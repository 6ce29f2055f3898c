"""Checks of texts: garbled responses, and responses that stand at prompts of others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlreport.check import means, progress
from rlreport.check.check import RESPONSE, Check
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.laws import (
    NOT_OBSERVED,
    BlockFigures,
    Bools,
    Figure,
    blocks,
    figures_by_block,
)
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.means import mean
from rlreport.check.run import Run
from rlreport.check.sources import sources_of
from rlreport.check.windows import Window
from rlreport.figures.ragged import Floats
from rlreport.text.messages import format_message, sentences, translatable
from rlreport.text.tokens import units

# The sampler or its weights garble responses if its log-probabilities of these are so much further
# from the trainer's (times) than those of others
DISAGREE = 2.0
# Garbled responses come from one source if it has this part of them
OF_ONE_SOURCE = 0.8


class _Garbled(Limits):
    share = Limit(
        0.05,
        LimitKind.SHARE,
        "of responses",
        "share with words of three scripts or broken characters (healthy runs: at most 0.3%)",
    )


_CAUSES = {
    "source": translatable(
        "Nearly all come from {source}: its sampler or weights are broken."
    ),
    "sampler": translatable(
        "Trainer and sampler disagree on them: the sampler or its weights are broken."
    ),
    "": "",
}


def _garbled_title(facts: Facts) -> str:
    """Return the title, with the cause if the log allows one."""
    sentence = translatable(
        "{share:percent} of responses are garbled: words of three scripts, broken characters."
    )
    cause = _CAUSES[str(facts["cause"])]
    return sentences([format_message(sentence, facts), format_message(cause, facts)])


@Check(
    name="garbled responses",
    rank=Rank.CAUSE,
    needs=(RESPONSE,),
    charts=("surprisal",),
    limits=_Garbled,
    title=_garbled_title,
    statement="{share:percent} of responses are garbled",
    why="No language and no tokenizer writes such text: it is sampled from wrong weights, at too "
    "high a temperature, or by a policy whose entropy exploded.",
    suggestion="Compare the sampler's weights with the trainer's, then look at the temperature and "
    "the entropy.",
    explains=("language_drift", "diversity_collapse", "length_collapse"),
)
def garbled(check: Check, run: Run) -> Result:
    """Find that many responses have text that no language and no tokenizer writes."""
    is_garbled = run.column("garbled")

    def share_of_garbled(window: Window) -> Figure:
        share = mean(is_garbled[window.rows])
        return Figure(share, run.limits.test(_Garbled.share, ">", share).met)

    found = figures_by_block(run, share_of_garbled)
    if not found.is_observed:
        return Result()
    tested = run.limits.test(_Garbled.share, ">", float(np.nanmax(found.values)))
    if not found.is_violated:
        return Result(tested=(tested,))
    source = _source_of_garbled(run, is_garbled == 1)
    cause = "source" if source else ""
    if not cause and _does_sampler_disagree(run, is_garbled == 1):
        cause = "sampler"
    facts: Facts = {
        "share": mean(is_garbled[found.rows]),
        "cause": cause,
        "source": source or "",
    }
    # A run that learns with such texts from the start has a model that writes them.
    is_of_model = found.since_first and found.until is None and progress.learned(run)
    return check.found(
        run,
        Severity.INFO if is_of_model else Severity.WARNING,
        [tested],
        facts,
        Ranking(is_garbled, among=is_garbled == 1),
        onset=found.onset,
        until=found.until,
        steps=found.steps,
    )


def _source_of_garbled(run: Run, is_garbled: Bools) -> str | None:
    """Return the rank or replica from which nearly all garbled responses come, None without one."""
    sources = sources_of(run)
    if sources is None:
        return None
    for source in range(len(sources)):
        is_from = sources.is_from(source)
        part = float(is_from[is_garbled].mean())
        # A source with most of all responses has most of the garbled ones anyway.
        if part >= OF_ONE_SOURCE and is_from.mean() <= OF_ONE_SOURCE / 2:
            return sources.label(source)
    return None


def _does_sampler_disagree(run: Run, is_garbled: Bools) -> bool:
    """Return whether trainer and sampler are further apart in garbled responses than in others."""
    distance = run.column("mismatch_k3")
    return means.mean(distance[is_garbled]) > DISAGREE * means.mean(
        distance[~is_garbled]
    )


class _CopiedResponses(Limits):
    share = Limit(
        0.2,
        LimitKind.SHARE,
        "of long responses",
        "share that equals another one of the group, word for word",
        translatable("ms-swift#7219: the seeds of all engines were equal"),
    )
    chars = Limit(
        200,
        LimitKind.COUNT,
        "characters",
        "shorter responses may be equal by chance",
    )
    logp = Limit(
        -25.0,
        LimitKind.VALUE,
        "nats",
        "median log-probability of copies; of more probable ones it is the policy that repeats",
    )


@Check(
    name="responses are copies",
    rank=Rank.CAUSE,
    needs=(RESPONSE,),
    charts=("reward",),
    limits=_CopiedResponses,
    title="{share:percent} of responses of {chars:count} characters or more are identical to "
    "another one of their group.",
    statement="{share:percent} of long responses are identical copies within their group",
    why="Sampled texts of this length hardly repeat. Copies add nothing to the baseline of their "
    "group, and make it smaller than it seems.",
    suggestion="Give each engine another seed, look whether rows are gathered twice, and whether "
    "sampling is on.",
    explains=("zero_variance_groups", "diversity_collapse", "reward_stalled"),
)
def copied_responses(check: Check, run: Run) -> Result:
    """Find that long responses of a group are equal, though they hardly are by chance."""
    limits = run.limits[_CopiedResponses]
    is_long = run.responses["response_chars"].to_numpy() >= limits.chars
    # Rows of one rollout are parts of it, not samples.
    is_long &= run.responses["rollout"].isna().to_numpy()
    keys = run.responses[["step", "group", "response_hash"]]
    is_copy = np.where(is_long, keys.duplicated(keep=False), np.nan)

    def share_of_copies(window: Window) -> Figure:
        share = mean(is_copy[window.rows])
        return Figure(share, run.limits.test(_CopiedResponses.share, ">", share).met)

    found = figures_by_block(run, share_of_copies, among=is_long)
    if not found.is_observed:
        return Result()
    largest = float(np.nanmax(found.values))
    tested = run.limits.test(_CopiedResponses.share, ">", largest)
    is_shown = found.rows & (is_copy == 1)
    if not found.is_violated or _is_certain(run, is_shown, since=found.since_first):
        return Result(tested=(tested,))
    return check.found(
        run,
        Severity.WARNING,
        [tested],
        {"share": mean(is_copy[found.rows]), "chars": int(limits.chars)},
        Ranking(run.column("response_chars"), unit="characters", among=is_shown),
        onset=found.onset,
        until=found.until,
        steps=found.steps,
    )


def _is_certain(run: Run, is_copy: Bools, *, since: bool) -> bool:
    """Return whether the policy itself is so certain that it repeats its responses.

    Without log-probabilities this may be so if it began later (``since`` is false): policies become
    certain, but do not start so.
    """
    logp = -run.column("surprisal_mean") * run.column("logp_tokens")
    of_copies = logp[is_copy]
    if not np.isfinite(of_copies).any():
        return not since
    return means.median(of_copies) >= run.limits[_CopiedResponses].logp


# Responses of at least this many are compared with the prompts of their step in a block; of more,
# the first so many are
COMPARED = 100
# Steps with fewer prompts, and prompts with fewer words of their own, say too little
LEAST_PROMPTS = 4
LEAST_OWN_WORDS = 3
MOST_PROMPTS = 64  # compared in a step: the first ones
# Long responses are compared by their first words
MOST_WORDS = 600


class _AnswersOtherPrompt(Limits):
    other = Limit(
        0.4,
        LimitKind.SHARE,
        "of responses",
        "share that takes up the words of another prompt, and half as much of its own at most",
    )
    similar = Limit(
        0.3,
        LimitKind.SHARE,
        "of a prompt's words",
        "rarer words counting more, that a response takes up",
    )
    kappa = Limit(
        0.05,
        LimitKind.VALUE,
        "",
        "agreement of own and most similar prompts beyond chance: (p − 1/n) / (1 − 1/n)",
    )


class _Fits(NamedTuple):
    """How compared responses fit the prompts of their step."""

    fits_other: (
        Floats  # 1 if a response fits another prompt instead of its own, (compared,)
    )
    is_own_best: Floats  # 1 if its own prompt fits best, (compared,)
    chance: Floats  # that its own prompt fits best by chance: 1 / prompts, (compared,)
    rows: list[int]  # of the compared responses


@Check(
    name="responses at the wrong prompts",
    rank=Rank.INVALID,
    needs=(RESPONSE,),
    limits=_AnswersOtherPrompt,
    title="{share:percent} of responses take up the words of another prompt of their step, not "
    "their own.",
    statement="{share:percent} of responses answer another prompt than their own",
    why="Rewards and advantages are then given to the wrong pairs of prompt and response.",
    suggestion="Look at how prompts and responses are gathered across processes: their order.",
    explains=("zero_variance_groups", "reward_stalled"),
    sampled=("share",),
    needs_also="prompts, four or more a step",
)
def answers_other_prompt(check: Check, run: Run) -> Result:
    """Find that responses stand at other prompts than those they answer."""
    words = _Words.of(run)
    if words is None:
        return check.not_run(f"response and {check.needs_also}")
    is_known = words.is_sampled
    limits = run.limits[_AnswersOtherPrompt]
    fits: list[_Fits] = []  # of the blocks

    def share_at_others(window: Window) -> Figure:
        fit = _fits(run, words, window, limits.similar)
        fits.append(fit)
        if len(fit.rows) < COMPARED:
            return NOT_OBSERVED
        share = mean(fit.fits_other)
        return Figure(share, share > limits.other and _kappa(fit) < limits.kappa)

    windows = blocks(run, among=is_known, least_rows=COMPARED, most=MOST_COMPARED)
    figures = tuple(map(share_at_others, windows))
    found = BlockFigures(
        run, windows, figures, bool(figures) and figures[0].is_violated
    )
    if not found.is_observed:
        return check.not_run(check.needs_also)
    tested = run.limits.test(
        _AnswersOtherPrompt.other, ">", float(np.nanmax(found.values))
    )
    if not found.is_violated:
        return Result(tested=(tested,))
    at_other = np.full(len(run.responses), np.nan)
    for fit, is_violated in zip(fits, found.violated, strict=True):
        if is_violated:
            at_other[fit.rows] = fit.fits_other
    return check.found(
        run,
        Severity.CRITICAL if found.since_first else Severity.INFO,
        [tested],
        {"share": mean(at_other)},
        Ranking(at_other, among=at_other == 1),
        onset=found.onset,
        until=found.until,
        steps=found.steps,
    )


MOST_COMPARED = 5  # blocks in which responses are compared with prompts


def _kappa(fit: _Fits) -> float:
    """Return how much more often than by chance a response's own prompt fits it best."""
    chance = mean(fit.chance)
    return (mean(fit.is_own_best) - chance) / (1 - chance)


class _Words:
    """The words of the sampled responses and of the prompts of a run."""

    def __init__(self, run: Run) -> None:
        sample = run.tables.words
        assert sample is not None
        self.sample = sample
        self.index = {row: index for index, row in enumerate(sample.rows.tolist())}
        self.prompt = run.responses["prompt_id"].to_numpy()
        self.is_sampled = np.zeros(len(run.responses), bool)
        self.is_sampled[sample.rows] = True
        prompts = run.tables.prompts
        texts = prompts["prompt"].astype(str)
        self._texts = dict(zip(prompts["prompt_id"].tolist(), texts, strict=True))

    @classmethod
    def of(cls, run: Run) -> _Words | None:
        """Return the words of a run, None unless responses are sampled."""
        return None if run.tables.words is None else cls(run)

    def of_response(self, row: int) -> set[str]:
        """Return the words of the response in a row."""
        index = self.index[row]
        start, stop = self.sample.offsets[index : index + 2].tolist()
        stop = min(stop, start + MOST_WORDS)
        vocabulary = self.sample.vocabulary
        return _topics([vocabulary[i] for i in self.sample.units[start:stop]])

    def of_prompt(self, prompt: int) -> set[str]:
        return _topics(units(self._texts.get(prompt, "")))


def _topics(words: Sequence[str]) -> set[str]:
    """Return words in lower case; of unspaced scripts, pairs of neighbouring characters."""
    topics = set()
    last = ""
    for raw in words:
        word = raw.strip().lower()
        is_character = len(word) == 1 and word.isalpha() and not word.isascii()
        if is_character and last:
            topics.add(last + word)
        elif not is_character and (len(word) > 1 or word.isdigit()):
            topics.add(word)
        last = word if is_character else ""
    return topics


def _fits(run: Run, words: _Words, window: Window, similar: float) -> _Fits:
    """Compare the first sampled responses of a window with the prompts of their steps.

    Args:
        run: the run.
        words: its words.
        window: the steps.
        similar: the least part of another prompt's words that a response must take up.
    """
    found = _Fits(np.empty(0), np.empty(0), np.empty(0), [])
    for step in _steps_with_prompts(run, words, window):
        if len(found.rows) >= COMPARED:
            break
        part = _fits_of_step(words, step, similar)
        found = _Fits(
            np.append(found.fits_other, part.fits_other),
            np.append(found.is_own_best, part.is_own_best),
            np.append(found.chance, part.chance),
            found.rows + part.rows,
        )
    return found


def _steps_with_prompts(run: Run, words: _Words, window: Window) -> list[list[int]]:
    """Return the sampled rows of each step of a window."""
    rows = np.flatnonzero(words.is_sampled[window.rows]) + window.rows.start
    steps = run.step_index[rows]
    starts = np.flatnonzero(np.diff(steps, prepend=-1))
    return [part.tolist() for part in np.split(rows, starts[1:])]


def _fits_of_step(words: _Words, rows: list[int], similar: float) -> _Fits:
    """Compare the responses of a step with its prompts; none if these are too few."""
    prompts = list(dict.fromkeys(words.prompt[rows].tolist()))[:MOST_PROMPTS]
    topics = [words.of_prompt(prompt) for prompt in prompts]
    counts = Counter(word for one in topics for word in one)
    # A prompt can be told from the others of its step by words that only it has.
    is_judged = [
        sum(counts[word] == 1 for word in one) >= LEAST_OWN_WORDS for one in topics
    ]
    if sum(is_judged) < LEAST_PROMPTS:
        return _Fits(np.empty(0), np.empty(0), np.empty(0), [])
    # Inverse document frequency: a word of all prompts weighs nothing.
    weights = {word: math.log(len(prompts) / count) for word, count in counts.items()}
    totals = np.array([sum(weights[word] for word in one) for one in topics])
    place = {prompt: index for index, prompt in enumerate(prompts)}
    compared = [
        row
        for row in rows
        if words.prompt[row] in place and is_judged[place[words.prompt[row]]]
    ]
    own = [place[words.prompt[row]] for row in compared]
    scores = np.zeros((len(compared), len(prompts)))
    for index, row in enumerate(compared):
        response = words.of_response(row)
        for column, one in enumerate(topics):
            # A sum in the order of the alphabet, the same on any machine
            shared = sorted(one & response)
            scores[index, column] = sum(weights[word] for word in shared)
    scores[:, ~np.array(is_judged)] = 0.0
    scores /= np.maximum(totals, 1e-9)
    of_own = scores[np.arange(len(compared)), own]
    others = scores.copy()
    others[np.arange(len(compared)), own] = -1.0
    best_other = others.max(axis=1, initial=-1.0)
    fits_other = (best_other >= similar) & (of_own <= best_other / 2)
    return _Fits(
        fits_other.astype(np.float64),
        (of_own > best_other).astype(np.float64),
        np.full(len(compared), 1 / sum(is_judged)),
        compared,
    )
