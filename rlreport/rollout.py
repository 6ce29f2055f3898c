"""One response with its text and tokens, read back from the logs for display."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.token import TokenFigures


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the conversation after the prompt; texts cleaned, None for what is not logged.

    Attributes:
        role, text: who spoke, and what.
        sampled: the policy wrote it.
        tokens: first and last + 1 of its tokens in the response.
        thinking: what was thought, logged apart from the text.
        calls: (tool, arguments as text, as JSON where they are an object).
        tool: whose answer it is.
        error: what went wrong.
        seconds, reward: of the turn.
    """

    role: str
    text: str
    sampled: bool
    tokens: tuple[int, int] | None = None
    thinking: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    tool: str | None = None
    error: str | None = None
    seconds: float | None = None
    reward: float | None = None


@dataclass(slots=True)
class Rollout:
    """A chosen response: cleaned texts, tokens and figures.

    Attributes:
        step, n: its name; ``file`` and ``line`` say where it lies in the logs.
        prompt, response, ref_response, ground_truth: cleaned text (None when not logged).
        turns: chat turns (role, text) of the prompt when it carries a chat template.
        raw_tokens: token strings as logged, length T (empty without tokens).
        tokens: the same as readable text: one entry a token; a token that holds only part
            of a character is ``""`` except where the character completes (see text/tokens).
        figures: per-token arrays of length T, NaN for tokens that were not sampled.
        sampled: bool (T,), tokens that the policy sampled; None where that is all.
        conversation: turns after the prompt.
        errors: what went wrong in the rollout.
    """

    step: int
    n: int
    file: str
    line: int
    prompt: str
    response: str
    ref_response: str | None = None
    ground_truth: str | None = None
    turns: list[tuple[str, str]] = field(default_factory=list)
    raw_tokens: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    figures: TokenFigures = field(default_factory=TokenFigures)
    sampled: NDArray[np.bool_] | None = None
    conversation: list[Turn] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
