"""Checks of texts: garbled responses, and responses that stand at prompts of others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from rlreport.check import means, progress
from rlreport.check.check import RESPONSE, Check
from rlreport.check.evidence import Ranking
from rlreport.check.excerpts import garbled_place
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.laws import (
    NOT_OBSERVED,
    BlockFigures,
    Bools,
    Figure,
    blocks,
    figures_by_block,
    found_in_blocks,
)
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.means import mean
from rlreport.check.run import Run
from rlreport.check.settings import SettingKind, higher, see
from rlreport.check.sources import sources_of
from rlreport.check.windows import Window
from rlreport.figures.ragged import Floats
from rlreport.text.messages import format_message, sentences, translatable
from rlreport.text.tokens import units

# The sampler or its weights garble responses if its log-probabilities of these are so much further
# from the trainer's (times) than those of others
DISAGREE = 2.0
# So few responses tell that a model writes garbled texts if more than this part of them are
FEW_ROWS = 8
MOST_OF_FEW = 0.5
# Garbled responses come from one source if it has this part of them
OF_ONE_SOURCE = 0.8


class _Garbled(Limits):
    share = Limit(
        0.05,
        LimitKind.SHARE,
        "of responses",
        "share with mixed scripts, broken characters or a wrong encoding (healthy runs: at most "
        "0.3%)",
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
        "{share:percent} of responses are garbled: mixed scripts, broken characters or a wrong "
        "encoding."
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
    "high a temperature, by a policy whose entropy exploded, or its bytes were decoded wrongly.",
    suggestion="Compare the sampler's weights with the trainer's, then look at the temperature and "
    "the entropy.",
    advice=see(SettingKind.TEMPERATURE),
    rules_out=higher(SettingKind.TEMPERATURE),
    explains=("language_drift", "diversity_collapse", "length_collapse"),
    place=garbled_place,
)
def garbled(check: Check, run: Run) -> Result:
    """Find that many responses have text that no language and no tokenizer writes."""
    is_garbled = run.column("garbled")

    def share_of_garbled(window: Window) -> Figure:
        share = mean(is_garbled[window.rows])
        return Figure(share, run.limits.test(_Garbled.share, ">", share).met)

    def share_of_few(window: Window) -> Figure:
        share = mean(is_garbled[window.rows])
        return Figure(share, share > MOST_OF_FEW)

    found = figures_by_block(run, share_of_garbled)
    if not found.windows:
        found = figures_by_block(run, share_of_few, least_rows=FEW_ROWS, most=1)
    if not found.is_observed:
        return Result()
    largest = float(np.nanmax(found.values))
    tested = run.limits.test(_Garbled.share, ">", largest)
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
    return found_in_blocks(
        check,
        found,
        (tested,),
        facts,
        Ranking(is_garbled, is_garbled),
        severity=Severity.INFO if is_of_model else Severity.WARNING,
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
    is_found = found.rows & (is_copy == 1)
    if not found.is_violated or _is_certain(run, is_found, since=found.since_first):
        return Result(tested=(tested,))
    return found_in_blocks(
        check,
        found,
        (tested,),
        {"share": mean(is_copy[found.rows]), "chars": int(limits.chars)},
        Ranking(run.column("response_chars"), is_copy, unit="characters"),
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


class _Fit(NamedTuple):
    """How a response fits the prompts of its step."""

    row: int
    fits_other: bool  # whether it fits another prompt instead of its own
    is_own_best: bool  # whether its own prompt fits best
    chance: float  # that its own prompt fits best by chance: 1 / prompts


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
        return check.not_run("response")
    limits = run.limits[_AnswersOtherPrompt]
    fits_of_blocks: list[list[_Fit]] = []

    def share_at_others(window: Window) -> Figure:
        fits = _fits_of_window(run, words, window, limits.similar)
        fits_of_blocks.append(fits)
        if len(fits) < COMPARED:
            return NOT_OBSERVED
        share = len([fit for fit in fits if fit.fits_other]) / len(fits)
        return Figure(share, share > limits.other and _kappa(fits) < limits.kappa)

    windows = blocks(
        run, among=words.is_sampled, least_rows=COMPARED, most=MOST_COMPARED
    )
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
    for fits, is_violated in zip(fits_of_blocks, found.violated, strict=True):
        for fit in fits if is_violated else ():
            at_other[fit.row] = float(fit.fits_other)
    return found_in_blocks(
        check,
        found,
        (tested,),
        {"share": mean(at_other)},
        Ranking(at_other, at_other),
        severity=Severity.CRITICAL if found.since_first else Severity.INFO,
    )


MOST_COMPARED = 5  # blocks in which responses are compared with prompts


def _kappa(fits: list[_Fit]) -> float:
    """Return how much more often than by chance a response's own prompt fits it best."""
    chance = sum(fit.chance for fit in fits) / len(fits)
    own_best = len([fit for fit in fits if fit.is_own_best]) / len(fits)
    return (own_best - chance) / (1 - chance)


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
        self._of_prompts: dict[int, set[str]] = {}

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
        """Return the words of a prompt, which may recur at many steps."""
        if prompt not in self._of_prompts:
            self._of_prompts[prompt] = _topics(units(self._texts.get(prompt, "")))
        return self._of_prompts[prompt]


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


def _fits_of_window(
    run: Run, words: _Words, window: Window, similar: float
) -> list[_Fit]:
    """Compare the first sampled responses of a window with the prompts of their steps.

    Args:
        run: the run.
        words: its words.
        window: the steps.
        similar: the least part of another prompt's words that a response must take up.
    """
    fits: list[_Fit] = []
    rows = np.flatnonzero(words.is_sampled[window.rows]) + window.rows.start
    starts = np.flatnonzero(np.diff(run.step_index[rows], prepend=-1))
    for rows_of_step in np.split(rows, starts[1:]):
        if len(fits) >= COMPARED:
            break
        prompts = _PromptsOfStep(words, rows_of_step.tolist())
        fits += prompts.fits(similar)
    return fits


class _PromptsOfStep:
    """The prompts of a step as the words by which they differ, and the responses to them."""

    def __init__(self, words: _Words, rows: list[int]) -> None:
        self._words = words
        self._rows = rows
        prompts = dict.fromkeys(words.prompt[rows].tolist())
        chosen = list(prompts)[:MOST_PROMPTS]
        self._place = {prompt: place for place, prompt in enumerate(chosen)}
        self._topics = [words.of_prompt(prompt) for prompt in chosen]
        counts = Counter(chain.from_iterable(self._topics))
        # Inverse document frequency: a word of all prompts weighs nothing.
        self._weight = {
            word: math.log(len(chosen) / count) for word, count in counts.items()
        }
        own_words = [_own_words(topics, counts) for topics in self._topics]
        # A prompt can be told from the others by words that only it has.
        self._is_judged = np.array(own_words) >= LEAST_OWN_WORDS
        self._prompt_count = int(self._is_judged.sum())
        self._total_weights = [self._weight_of(topics) for topics in self._topics]

    def fits(self, similar: float) -> list[_Fit]:
        """Return how the responses fit these prompts; none if too few prompts can be told."""
        if self._prompt_count < LEAST_PROMPTS:
            return []
        fits = []
        for row in self._rows:
            own = self._place.get(self._words.prompt[row])
            if own is None or not self._is_judged[own]:
                continue
            scores = self._similarities(self._words.of_response(row))
            of_own = float(scores[own])
            scores[own] = 0.0
            of_other = float(scores.max())
            fits_other = of_other >= similar and of_own <= of_other / 2
            fit = _Fit(row, fits_other, of_own > of_other, 1 / self._prompt_count)
            fits.append(fit)
        return fits

    def _similarities(self, response: set[str]) -> Floats:
        """Return which part of each prompt's words a response takes up, by weight, (prompts,)."""
        similarities = []
        for topics, total in zip(self._topics, self._total_weights, strict=True):
            common = self._weight_of(topics & response)
            similarities.append(common / total if total else 0.0)
        return np.where(self._is_judged, similarities, 0.0)

    def _weight_of(self, topics: set[str]) -> float:
        # In the order of the alphabet, so that the sum is the same on any machine
        return sum(self._weight[word] for word in sorted(topics))


def _own_words(topics: set[str], counts: Counter[str]) -> int:
    """Return how many of a prompt's words no other prompt has."""
    return len([word for word in topics if counts[word] == 1])
