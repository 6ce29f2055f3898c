"""Data classes for a response that is read back from the logs, to be shown on a page."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.token import TokenFigures


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the conversation after the prompt; texts are cleaned, values not logged are None.

    Attributes:
        role, text: speaker (such as ``assistant``), and text.
        sampled: whether the policy wrote the turn.
        tokens: (first, last + 1) position of the turn's tokens in the response.
        thinking: reasoning that is logged separately from the text.
        calls: tool calls as (tool, arguments); arguments other than text as JSON.
        tool: name of the tool, if the turn is a tool's result.
        error: error message of the turn.
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
    """A response with its prompt, its tokens and numbers per token (figures), as pages show it.

    Attributes:
        step, n: id of the response: its step, and its position in the step.
        file, line: log file, and line number in it, of the response.
        prompt, response, ref_response, ground_truth: cleaned texts; None if not logged.
        turns: (role, text) per message of the prompt; empty if it is not a chat.
        raw_tokens: the T token strings as logged; empty if tokens are not logged or not loaded.
        tokens: readable text of each token, length T; a character split over several tokens is
            in the text of the last one.
        figures: numbers per token, such as KL, length T; NaN if the policy did not sample it.
        sampled: bool (T,), whether the policy sampled the token; None if it sampled all.
        conversation: the turns after the prompt.
        errors: error messages of the rollout.
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
