"""Cut excerpts of responses around the places that show what findings tell of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from rlreport.check.finding import Example, Facts
from rlreport.read.rollouts import Rollout, Rollouts, Turn
from rlreport.text.scripts import garbled_at, script_of
from rlreport.text.tokens import structure_at

EXCERPT = 60  # Maximum number of characters in an excerpt

# Returns the index in ``rollout.response`` of what a finding with these facts tells of, or None
Place = Callable[[Rollout, Facts], int | None]


def garbled_place(rollout: Rollout, facts: Facts) -> int | None:
    """Return where a response has text that no language and no tokenizer writes."""
    return garbled_at(rollout.response)


def structure_place(rollout: Rollout, facts: Facts) -> int | None:
    """Return where a response has the first item of the structure that a finding names."""
    if facts.get("kind") != "structure":
        return None
    return structure_at(rollout.response, str(facts["text"]))


def other_script_place(rollout: Rollout, facts: Facts) -> int | None:
    """Return where a response has the first letter of a script that its prompt lacks."""
    of_prompt = set(map(script_of, rollout.prompt))
    for index, letter in enumerate(rollout.response):
        if script_of(letter) not in of_prompt | {""}:
            return index
    return None


class Excerpts:
    """Makes excerpts of responses, whose texts are read once."""

    def __init__(
        self, examples: Iterable[Example], responses: pd.DataFrame, rollouts: Rollouts
    ) -> None:
        """Read the texts of examples, and of those shown for comparison with them.

        Args:
            examples: of these, and of no others, excerpts can be made.
            responses: the table of all responses, whose rows are those of ``rollouts``.
            rollouts: where the texts are read from.
        """
        steps = responses["step"].to_numpy()
        self._row_of: dict[tuple[int, int], int] = {}
        for example in examples:
            for one in (example, example.before):
                if one is not None:
                    # Rows are sorted by step, and ``n`` counts the responses of a step.
                    first_row = int(np.searchsorted(steps, one.step))
                    self._row_of[one.step, one.n] = first_row + one.n
        order = sorted(set(self._row_of.values()))
        self._texts = dict(zip(order, rollouts.read(order), strict=True))

    def of(
        self,
        example: Example,
        shows: Callable[[Turn], bool] | None = None,
        place: Place | None = None,
        facts: Facts | None = None,
    ) -> Example:
        """Return an example with its excerpt, and the turn to look at.

        Args:
            example: the example; so is the one shown for comparison, for which no turn is chosen.
            shows: whether a turn of a conversation is one that the finding tells of.
            place: where the response shows what the finding tells of.
            facts: of the finding.
        """
        facts = facts or {}
        before = example.before
        if before is not None:
            before = self._cut(before, None, None)
        rollout = self._texts[self._row_of[example.step, example.n]]
        turn = _turn_of(rollout, example, shows, facts)
        index = None
        if place is not None and turn is None:
            index = place(rollout, facts)
        return replace(self._cut(example, turn, index), before=before)

    def _cut(self, example: Example, turn: int | None, index: int | None) -> Example:
        rollout = self._texts[self._row_of[example.step, example.n]]
        text = rollout.response if turn is None else rollout.conversation[turn].words
        if index is None:
            text = _single_spaced(text)
            index = _place_of_interest(text, rollout, example)
        else:
            index = len(_single_spaced(text[:index]))
            text = _single_spaced(text)
        return replace(example, turn=turn, excerpt=_around(text, index))


def _turn_of(
    rollout: Rollout,
    example: Example,
    shows: Callable[[Turn], bool] | None,
    facts: Facts,
) -> int | None:
    """Return the turn of a conversation to look at, None for the whole response.

    It is the first one that shows what the finding tells of, one of the tool that it names first,
    the first one of the policy with the text to look for, or its last one if that is the end.
    """
    turns = list(enumerate(rollout.conversation))
    if shows is not None:
        found = [(index, turn) for index, turn in turns if shows(turn)]
        of_tool = [index for index, turn in found if _is_of_tool(turn, facts)]
        return next(iter(of_tool or [index for index, _ in found]), None)
    sampled = [(index, turn) for index, turn in turns if turn.sampled]
    if example.token is not None or len(turns) < 2 or not sampled:
        return None
    if example.look_for:
        wanted = _pattern(example.look_for)
        holding = [index for index, turn in sampled if wanted.search(turn.words)]
        if holding:
            return holding[0]
    return sampled[-1][0] if example.at_end else None


def _is_of_tool(turn: Turn, facts: Facts) -> bool:
    tool = facts.get("tool")
    return bool(tool) and (
        turn.tool == tool or tool in [name for name, _ in turn.calls]
    )


def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that finds a text in any case, with any blanks between its words."""
    words = map(re.escape, text.split())
    return re.compile(r"\s+".join(words), re.IGNORECASE)


def _around(text: str, center: int) -> str:
    """Return at most EXCERPT characters of a text around an index."""
    if len(text) <= EXCERPT:
        return text
    start = max(0, min(center - EXCERPT // 2, len(text) - EXCERPT))
    stop = start + EXCERPT
    before = "…" if start else ""
    after = "…" if stop < len(text) else ""
    return before + text[start:stop] + after


def _single_spaced(text: str) -> str:
    """Return a text with one space for any white space within it, and none around it."""
    return " ".join(text.split())


def _place_of_interest(text: str, rollout: Rollout, example: Example) -> int:
    """Return the index around which a text shows what an example is cited for.

    It is that of the text to look for, else that of the token, else the start or the end.
    ``text`` is single-spaced.
    """
    if example.look_for:
        found = _pattern(example.look_for).search(text)
        if found:
            # The middle of the text, but of a long one only so far that its start is shown
            half = min(len(found.group()), EXCERPT) // 2
            return found.start() + half
    if example.token is not None and example.token < len(rollout.tokens):
        text_before = "".join(rollout.tokens[: example.token])
        return len(_single_spaced(text_before))
    return len(text) if example.at_end else 0
