"""Data classes for a response with its texts and tokens, as pages show it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.token import TokenFigures


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the conversation after the prompt; texts are cleaned, None if not logged."""

    # speaker (such as ``assistant``), and text
    role: str
    text: str
    sampled: bool  # whether the policy wrote the turn
    # (first, last + 1) position of the turn's tokens in the response
    tokens: tuple[int, int] | None = None
    thinking: str | None = None  # reasoning that is logged separately from the text
    # tool calls as (tool, arguments); arguments other than text as JSON
    calls: tuple[tuple[str, str], ...] = ()
    tool: str | None = None  # name of the tool, if the turn is a tool's result
    error: str | None = None  # error message of the turn
    # duration and reward of the turn
    seconds: float | None = None
    reward: float | None = None


@dataclass(slots=True)
class Rollout:
    """A response with its prompt, its tokens and numbers per token (figures), as pages show it."""

    # id of the response: its step, and its position in the step
    step: int
    n: int
    # log file, and line number in it, of the response
    file: str
    line: int
    # cleaned texts; None if not logged
    prompt: str
    response: str
    ref_response: str | None = None
    ground_truth: str | None = None
    # (role, text) per message of the prompt; empty if it is not a chat
    turns: list[tuple[str, str]] = field(default_factory=list)
    # the T token strings as logged; empty if tokens are not logged or not loaded
    raw_tokens: list[str] = field(default_factory=list)
    # readable text of each token, length T; a character split over several tokens is in the text of
    # the last one
    tokens: list[str] = field(default_factory=list)
    # numbers per token, such as KL, length T; NaN if the policy did not sample it
    figures: TokenFigures = field(default_factory=TokenFigures)
    # bool (T,), whether the policy sampled the token; None if it sampled all
    sampled: NDArray[np.bool_] | None = None
    conversation: list[Turn] = field(default_factory=list)  # the turns after the prompt
    errors: list[str] = field(default_factory=list)  # error messages of the rollout
