"""The tokens of some responses as columns, as pages have them: numbers and a vocabulary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, offsets_of, spans
from rlreport.figures.tokens import KEPT, TokenFigures
from rlreport.read.rollouts import HAS_TOKENS, Rollout, Rollouts
from rlreport.text.tokens import (
    Style,
    detect_style,
    readable_tokens,
    texts_of_parts,
    whole_text,
)

Ids = NDArray[np.uint32]
Token = tuple[str, str]  # its text, and the string as logged


class PromptColumns(NamedTuple):
    """The tokens of a prompt; of a long one, those at its ends."""

    n: list[int]  # positions in the step of the responses to it
    size: int  # number of all its tokens
    ids: list[int]  # indices of the vocabulary


@dataclass(frozen=True, slots=True)
class TokenColumns:
    """The tokens of R responses, N in total, one response after the other; none is empty."""

    n: list[int]  # position of each response in its step
    lengths: Ints  # int64 (R,)
    ids: Ids  # (N,), indices of ``vocabulary``
    vocabulary: list[Token]  # each once, in the order of first occurrence
    sampled: NDArray[np.bool_]  # (N,), whether the policy sampled the token
    figures: dict[str, Floats]  # name in KEPT -> float64 (N,), NaN where not logged
    # name of each figure that is logged or follows from others -> whether it has a value
    has_values: dict[str, bool]
    prompts: list[PromptColumns] = field(default_factory=list)

    @classmethod
    def read(cls, rollouts: Rollouts, rows: Sequence[int] | Ints) -> Self:
        """Return the tokens of responses by their row; those without token strings are left out."""
        indices = rollouts.indices(rows)
        lengths = rollouts.lengths[indices]
        has_strings = (rollouts.flags[indices] & HAS_TOKENS > 0) & (lengths > 0)
        if not has_strings.any():
            return cls.of([])
        # One that is logged only of responses without strings is one without a value here.
        figures = dict(rollouts.kept_figures(indices))
        if not has_strings.all():
            is_shown = np.repeat(has_strings, lengths)
            figures = {name: values[is_shown] for name, values in figures.items()}
            indices = indices[has_strings]
            lengths = lengths[has_strings]
        tokens = rollouts.tokens_of(indices)
        numbers = rollouts.places.n[indices].tolist()
        ids, vocabulary = _numbered(rollouts, tokens, offsets_of(lengths))
        prompts, vocabulary = _prompts(rollouts, indices, vocabulary)
        columns = cls(
            n=numbers,
            lengths=lengths,
            ids=ids,
            vocabulary=vocabulary,
            sampled=rollouts.sampled[tokens],
            figures=figures,
            has_values=_has_values(figures),
            prompts=prompts,
        )
        rollouts.unload()
        return columns

    @classmethod
    def of(cls, rollouts: Iterable[Rollout]) -> Self:
        """Return the tokens of responses that were read already; those without are left out."""
        those = [rollout for rollout in rollouts if rollout.raw_tokens]
        numbers: dict[Token, int] = {}
        ids: list[int] = []
        masks = [np.ones(0, np.bool_)]  # as there may be no response
        for one in those:
            tokens = zip(one.tokens, one.raw_tokens, strict=True)
            ids += [numbers.setdefault(token, len(numbers)) for token in tokens]
            all_sampled = np.ones(len(one.raw_tokens), np.bool_)
            masks.append(all_sampled if one.sampled is None else one.sampled)
        has_values = figures_with_values(those)
        return cls(
            n=[one.n for one in those],
            lengths=np.array([len(one.raw_tokens) for one in those], np.int64),
            ids=np.array(ids, np.uint32),
            vocabulary=list(numbers),
            sampled=np.concatenate(masks),
            figures={name: _joined(those, name) for name in KEPT if name in has_values},
            has_values=has_values,
        )

    def masked(self, text: str) -> Self:
        """Return a copy with ``text`` for every token, and without those of prompts."""
        hidden = np.zeros_like(self.ids)
        return replace(self, ids=hidden, vocabulary=[(text, text)], prompts=[])

    def masked_at(self, is_hidden: NDArray[np.bool_], text: str) -> Self:
        """Return a copy with ``text`` for the tokens of some responses, bool (R,).

        Tokens that only these responses have, and those of their prompts, are left out.
        """
        if not is_hidden.any():
            return self
        shown = [
            n for n, hides in zip(self.n, is_hidden.tolist(), strict=True) if not hides
        ]
        prompts = []
        for prompt in self.prompts:
            n = sorted(set(prompt.n) & set(shown))
            if n:
                prompts.append(prompt._replace(n=n))
        hides_token = np.repeat(is_hidden, self.lengths)
        is_used = np.zeros(len(self.vocabulary), np.bool_)
        is_used[self.ids[~hides_token]] = True
        for prompt in prompts:
            is_used[prompt.ids] = True
        used = np.flatnonzero(is_used).tolist()
        # The placeholder is token 0; the others follow.
        numbers = np.cumsum(is_used)
        ids = np.where(hides_token, 0, numbers[self.ids]).astype(np.uint32)
        renumbered = [one._replace(ids=numbers[one.ids].tolist()) for one in prompts]
        vocabulary = [(text, text), *(self.vocabulary[number] for number in used)]
        return replace(self, ids=ids, vocabulary=vocabulary, prompts=renumbered)


def figures_with_values(rollouts: Iterable[Rollout]) -> dict[str, bool]:
    """Return whether each figure of responses that have tokens has a value."""
    result: dict[str, bool] = {}
    for rollout in rollouts:
        if rollout.raw_tokens:
            for name, values in rollout.figures.items():
                is_known = not np.isnan(values).all()
                result[name] = result.get(name, False) or is_known
    return result


def _joined(rollouts: Sequence[Rollout], name: str) -> Floats:
    """Return a figure of all tokens, NaN for responses that do not have it."""
    parts = []
    for rollout in rollouts:
        missing = np.full(len(rollout.raw_tokens), np.nan)
        parts.append(rollout.figures.get(name, missing))
    return np.concatenate(parts)


def _has_values(kept: dict[str, Floats]) -> dict[str, bool]:
    """Return whether each figure, also of those that follow from others, has a value."""
    is_known = np.array([~np.isnan(values) for values in kept.values()], np.bool_)
    # A token with a value of each kept figure has one of each that follows from them.
    complete = np.flatnonzero(is_known.all(axis=0))[:1]
    tokens = complete if len(complete) else slice(None)
    figures = TokenFigures({name: values[tokens] for name, values in kept.items()})
    return {
        name: not bool(np.isnan(values).all())
        for name, values in figures.derive().items()
    }


def _numbered(
    rollouts: Rollouts, tokens: Ints, offsets: Ints
) -> tuple[Ids, list[Token]]:
    """Return tokens as indices of a vocabulary, and this vocabulary.

    ``tokens`` are positions in the columns of the rollouts; the rows that ``offsets`` tell apart
    are responses.
    """
    style = rollouts.style
    # As the vocabulary of the result, this one is in the order of first occurrence.
    numbers, used = pd.factorize(rollouts.ids[tokens].astype(np.int64))
    strings = [rollouts.vocabulary[number] for number in used.tolist()]
    texts = [whole_text(string, style) for string in strings]
    is_part = np.array([text is None for text in texts], np.bool_)
    vocabulary: dict[Token, int] = {}
    for text, string in zip(texts, strings, strict=True):
        vocabulary[text or "", string] = len(vocabulary)
    if not is_part.any():
        return numbers.astype(np.uint32), list(vocabulary)
    # The text of a part of a character depends on the parts beside it.
    for start, stop in _runs(is_part[numbers], offsets):
        run = [strings[number] for number in numbers[start:stop].tolist()]
        parts = zip(texts_of_parts(run, style), run, strict=True)
        new = [vocabulary.setdefault(part, len(vocabulary)) for part in parts]
        numbers[start:stop] = new
    numbers, used = pd.factorize(numbers)
    with_parts = list(vocabulary)
    ids = numbers.astype(np.uint32)
    return ids, [with_parts[number] for number in used.tolist()]


def _runs(chosen: NDArray[np.bool_], offsets: Ints) -> Iterator[tuple[int, int]]:
    """Yield [start, stop) of each run of true values, none of which reaches beyond its row."""
    runs = spans(chosen)
    first = np.searchsorted(offsets, runs[:, 0], "right").tolist()
    last = np.searchsorted(offsets, runs[:, 1], "left").tolist()
    for (start, stop), inner in zip(
        runs.tolist(), map(slice, first, last), strict=True
    ):
        # Rows that begin within it cut it.
        yield from pairwise([start, *offsets[inner].tolist(), stop])


def _prompts(
    rollouts: Rollouts, indices: Ints, vocabulary: Sequence[Token]
) -> tuple[list[PromptColumns], list[Token]]:
    """Return the different prompts of responses whose tokens are logged.

    Also return the vocabulary with their tokens, which come after those that it has.
    """
    numbers = {token: number for number, token in enumerate(vocabulary)}
    prompts: dict[tuple[str, ...], PromptColumns] = {}
    unpacked = cache(json.loads)  # the responses of a group have the same prompt
    for index in indices.tolist():
        packed = rollouts.text("prompt_tokens", index)
        if packed is None:
            continue
        size, strings = unpacked(packed)
        key = tuple(strings)
        if key not in prompts:
            tokens = zip(_prompt_texts(strings, rollouts.style), strings, strict=True)
            ids = [numbers.setdefault(token, len(numbers)) for token in tokens]
            prompts[key] = PromptColumns([], size, ids)
        prompts[key].n.append(int(rollouts.places.n[index]))
    return list(prompts.values()), list(numbers)


def _prompt_texts(strings: Sequence[str], style: Style) -> list[str]:
    # Few short responses may not show how their tokens encode bytes.
    usual = detect_style(strings) if style is Style.PLAIN else style
    return readable_tokens(strings, usual)
