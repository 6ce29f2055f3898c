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
        role, text: role and text.
        sampled: whether the policy wrote it.
        tokens: its tokens in the response, [first, last + 1).
        thinking: reasoning that is logged separately from the text.
        calls: tool calls (tool, arguments as text); argument objects as JSON.
        tool: the tool whose result this turn is.
        error: error message.
        seconds, reward: duration and reward of the turn.
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
    """A response to show: cleaned texts, tokens and figures.

    Attributes:
        step, n: its id; ``file`` and ``line`` locate it in the logs.
        prompt, response, ref_response, ground_truth: cleaned text (None when not logged).
        turns: chat turns (role, text) of the prompt if it uses a chat template.
        raw_tokens: token strings as logged, length T (empty without tokens).
        tokens: the same as readable text, one entry per token; a character that is split over
            tokens belongs to the last of them, the others are ``""`` (see text/tokens).
        figures: arrays of length T, NaN for tokens that were not sampled.
        sampled: bool (T,), tokens that the policy sampled; None if it sampled all.
        conversation: turns after the prompt.
        errors: errors of the rollout.
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
