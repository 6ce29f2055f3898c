"""How a conversation went: turns, tool calls, thinking, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import zip_longest
from operator import add
from typing import Any, NamedTuple, TypeGuard

from rlreport.fields import LARGEST_NUMBER
from rlreport.text.answers import is_empty_answer
from rlreport.text.calls import has_markup, has_plain_markup, is_observation
from rlreport.text.chat import (
    Turn,
    calls_in_text,
    content_text,
    error_in_answer,
    error_kind,
    is_final,
    is_unparsed,
    role_name,
    turns_in_text,
)
from rlreport.text.messages import translatable

MAX_TOOLS = 64  # Maximum number of tools per response whose answers are counted


class Ending(IntEnum):
    """How a response ended, as column ``ending`` of the response table; 0 if it is not known."""

    FINISHED = 1  # by itself
    CUT_OFF = 2  # at a limit of tokens
    TURN_LIMIT = 3
    # not completed, after the largest number of turns: probably their limit
    MOST_TURNS = 4
    ERROR = 5
    ABORTED = 6  # by the trainer, a limit of time or a filter of contents
    UNFINISHED = 7  # it is logged as not completed, without a reason
    OTHER = 8  # the logged reason is not a known one


# Labels of endings in lists and charts, in the order of charts
ENDING_WORDS = {
    Ending.FINISHED: translatable("by itself"),
    Ending.TURN_LIMIT: translatable("at the turn limit"),
    Ending.MOST_TURNS: translatable("at the turn limit (inferred)"),
    Ending.CUT_OFF: translatable("at the token limit"),
    Ending.ERROR: translatable("error"),
    Ending.ABORTED: translatable("aborted"),
    Ending.UNFINISHED: translatable("not completed"),
    Ending.OTHER: translatable("another reason"),
}


def several_endings(codes: Iterable[int]) -> bool:
    """Return whether any code is an ending other than FINISHED, CUT_OFF or unknown (0)."""
    return not set(codes) <= {0, Ending.FINISHED, Ending.CUT_OFF}


_END_REASONS = {
    Ending.FINISHED: "stop eos eos_token end_turn stop_sequence tool_calls done complete completed "
    "finish finished success agent_completed user_closed env_done no_tools_called "
    "has_final_env_response",
    Ending.CUT_OFF: "length max_length max_tokens max_new_tokens truncated overlong "
    "max_input_tokens max_output_tokens max_total_tokens max_turn_tokens max_completion_tokens "
    "max_total_completion_tokens max_prompt_length max_response_length max_context_length "
    "model_length model_context_window prompt_too_long context_length context_window "
    "context_limit length_limit token_limit compaction_failed",
    Ending.TURN_LIMIT: "max_turn max_turns max_steps max_rounds max_iterations max_messages "
    "turn_limit step_limit iteration_limit message_limit",
    Ending.ERROR: "error has_error failed failure exception",
    Ending.ABORTED: "abort aborted cancel cancelled canceled interrupted killed timeout timed_out "
    "time_limit content_filter",
    Ending.UNFINISHED: "incomplete unfinished not_completed",
}


def _endings_by_reason() -> dict[str, Ending]:
    endings: dict[str, Ending] = {}
    for ending, reasons in _END_REASONS.items():
        endings.update(dict.fromkeys(reasons.split(), ending))
    return endings


_ENDINGS = _endings_by_reason()
_LONGEST_REASON = 80
_BLANKS = re.compile(r"[\s-]+")
_REACHED = re.compile(r"_(?:reached|exceeded|hit)$")

_LARGEST_INTEGER = 2**53  # float64 represents all integers up to it
_LONGEST_NAME = 80
_OPEN = "<think>"
_CLOSE = "</think>"
_SPLITS = {
    "training": "train",
    "validation": "val",
    "valid": "val",
    "dev": "val",
    "evaluation": "eval",
    "test": "eval",
}


# Kinds of errors of tools that are counted, in the order of ToolCounts, and how pages name them
ERROR_KINDS = {
    "timeouts": translatable("timeouts"),
    "permissions": translatable("permission denied"),
    "not_found": translatable("not found"),
    "arguments": translatable("invalid arguments"),
    "exceptions": translatable("exceptions"),
}


class ToolCounts(NamedTuple):
    """Counts of a tool's answers in a response.

    Attributes:
        answers: number of answers.
        errors: those of them that are errors; the last five fields count these by kind, but an
            error of another kind counts only here.
        chars: total characters.
        ranges: answers whose token range is logged.
        tokens: total tokens in these ranges.
        empty: answers that hold nothing and are not errors; see ``text.answers``.
    """

    answers: int = 0
    errors: int = 0
    chars: int = 0
    ranges: int = 0
    tokens: int = 0
    empty: int = 0
    timeouts: int = 0
    permissions: int = 0
    not_found: int = 0
    arguments: int = 0
    exceptions: int = 0


@dataclass(slots=True)
class RowMetadata:
    """Values of a row other than text and tokens.

    Attributes:
        split: standard name of the data split, such as "val"; None if the row names none.
        left_out: why the row is not a trained response, a key of ``notes.ODDITIES``; "" if it is.
        figures: numbers by column of the response table.
        tools: counts of answers by tool name.
        turns: the conversation after the prompt, as logged or as the text shows it; empty without.
    """

    split: str | None = None
    left_out: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    tools: dict[str, ToolCounts] = field(default_factory=dict)
    turns: Sequence[Turn] = ()


def row_metadata(
    record: Mapping[str, Any], step: int, prompt: str, response: str
) -> RowMetadata:
    """Return a row's metadata without invalid values; call ``normalize_turns_and_mask`` before.

    ``step`` is that of the row; ``prompt`` and ``response`` are its texts.
    """
    turns = record.get("turns") or turns_in_text(response)
    metadata = RowMetadata(split_named(record.get("split")) or None)
    # A response with an error but some text was trained.
    if record.get("errors") and not response.strip():
        metadata.left_out = "failed"
    elif record.get("trainable") is False:
        metadata.left_out = "untrained"
    elif record.get("filtered_out") is True:
        metadata.left_out = "filtered_out"
    if turns:
        metadata.turns = turns
        metadata.figures = _turn_figures(turns, prompt)
        metadata.tools = _tool_counts(turns)
        trained = _trained_environment(turns, record.get("response_mask"))
        if trained is not None:
            metadata.figures["env_trained_tokens"] = float(trained)
    else:
        thinking = _thinking(response, begun=_begins_thinking(prompt))
        if thinking:
            metadata.figures["thinking_chars"] = float(thinking.chars)
            metadata.figures["unclosed_thinking"] = float(thinking.unclosed)
    version: Any = record.get("policy_version")
    if isinstance(version, list | tuple) and version:
        version = version[0]  # the oldest, if it changed within the response
    if is_number(version):
        # How many steps old the weights were that sampled the response
        metadata.figures["lag"] = float(step - version)
    seconds = record.get("seconds")
    if is_number(seconds):
        metadata.figures["seconds"] = float(seconds)
    return metadata


def ending_of(reason: object) -> Ending | None:
    """Return how a response ended by its logged reason, such as "stop"; None if it is unknown."""
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON:  # prose
        return None
    plain = _BLANKS.sub("_", reason.strip().lower())
    # Enumerations are logged with their name: "TerminationReason.MAX_TURNS_EXCEEDED".
    _, _, word = plain.rpartition(".")
    # "max_turns_exceeded" is the known "max_turns".
    return _ENDINGS.get(word) or _ENDINGS.get(_REACHED.sub("", word))


class _Part(NamedTuple):
    """A part of a text up to a closing tag of thinking, or after the last one."""

    other: str  # text before the thinking
    opening: str  # the tag, "" if the part has no thinking
    thought: str


class _Thinking(NamedTuple):
    """A text with thinking, cut at closing tags."""

    parts: list[_Part]

    @property
    def chars(self) -> int:
        return sum(len(part.thought) for part in self.parts)

    @property
    def unclosed(self) -> bool:
        return bool(self.parts[-1].opening)

    @property
    def answered(self) -> bool:
        """Whether there is text besides thinking."""
        # A closing tag without an opening one is other text, too.
        has_stray_tag = any(not part.opening for part in self.parts[:-1])
        return has_stray_tag or any(part.other.strip() for part in self.parts)


def _thinking(text: str, *, begun: bool) -> _Thinking | None:
    """Return the thinking in a text, None without any; ``begun``: the prompt ends with its tag."""
    opened = text.find(_OPEN)  # −1 without the tag
    closed = text.find(_CLOSE)
    if not begun and opened < 0 and closed < 0:
        return None
    # Chat templates often end with the opening tag, so that the text has only the closing one.
    if opened < 0 or 0 <= closed < opened:
        text = _OPEN + text
    # Each part but the last ends at a closing tag; an opening tag divides it.
    parts = [_Part._make(part.partition(_OPEN)) for part in text.split(_CLOSE)]
    return _Thinking(parts)


def _begins_thinking(prompt: str) -> bool:
    """Return whether a prompt ends with the opening tag of thinking, perhaps before blanks."""
    # Only its end is copied; that has room for the tag and 17 blanks.
    return prompt[-24:].rstrip().endswith(_OPEN)


def _turn_figures(turns: Sequence[Turn], prompt: str) -> dict[str, float]:
    """Return the columns of the response table that are counted over a conversation's turns.

    ``turns`` are those after the prompt.
    """
    sampled = [turn for turn in turns if turn["sampled"]]
    answers = [turn for turn in turns if turn["role"] == "tool"]
    errors = [answer for answer in answers if answer.get("error")]
    # The prompt may open the thinking of the first turn.
    begun = _begins_thinking(prompt)
    counts = _TurnCounts()
    for turn, reply in zip_longest(turns, turns[1:]):
        if turn["sampled"]:
            counts.add(turn, reply, begun=begun)
            begun = False
    figures = {
        "turns": float(len(sampled)),
        # If the log has no calls, the answers show that there were some.
        "tool_calls": float(max(counts.calls, len(answers))),
        "tool_errors": float(len(errors)),
        "unparsed_calls": float(counts.unparsed),
        "late_calls": float(_late_calls(turns)),
        "markup_turns": float(counts.markup),
        "plain_markup_turns": float(counts.plain_markup),
        "empty_results": float(sum(map(_is_empty, answers))),
        "void_turns": float(counts.void),
        "open_end": float(_ends_open(turns)),
    }
    seconds = [turn["seconds"] for turn in turns if is_number(turn.get("seconds"))]
    if seconds:
        figures["turn_seconds"] = sum(seconds) / len(seconds)
    if counts.has_thinking:
        figures["thinking_chars"] = float(counts.thinking_chars)
        figures["unclosed_thinking"] = float(counts.is_unclosed)
    return figures


def _ends_open(turns: Sequence[Turn]) -> bool:
    """Return whether the last turn is no text of the policy's, but a call, an answer or the like.

    A policy that could have gone on would have had a word after it.
    """
    last = turns[-1]
    return not last["sampled"] or bool(_calls_of(last))


def _trained_environment(turns: Sequence[Turn], mask: object) -> int | None:
    """Return how many tokens of turns that were not sampled have mask 1, None if it is unknown.

    The first and the last token of a turn do not count: templates put tokens around a text, which
    belong to this turn or to the next one.
    """
    if not isinstance(mask, list) or not any(turn["sampled"] for turn in turns):
        return None
    spans = [
        turn["tokens"] for turn in turns if "tokens" in turn and not turn["sampled"]
    ]
    if not spans:
        return None
    return sum(mask[start + 1 : stop - 1].count(1) for start, stop in spans)


@dataclass(slots=True)
class _TurnCounts:
    """Counts over the sampled turns of a conversation.

    Attributes:
        calls: number of calls.
        unparsed: calls that the trainer's parser did not find, or whose arguments are invalid.
        void: turns with neither a call nor text besides thinking.
        markup: turns with markup of calls that was neither read nor answered.
        plain_markup: turns without it that have such a call in plain text.
        has_thinking: whether any turn has thinking.
        thinking_chars: characters of thinking.
        is_unclosed: whether the thinking of any turn does not end.
    """

    calls: int = 0
    unparsed: int = 0
    void: int = 0
    markup: int = 0
    plain_markup: int = 0
    has_thinking: bool = False
    thinking_chars: int = 0
    is_unclosed: bool = False

    def add(self, turn: Turn, reply: Turn | None, *, begun: bool) -> None:
        """Count a turn.

        Args:
            turn: a turn that was sampled.
            reply: the next turn, if any.
            begun: whether the prompt opened its thinking.
        """
        text = turn["text"]
        thought = turn.get("thinking")  # of a trainer that logs it apart from the text
        if not isinstance(thought, str):
            thought = ""
        # Of such a trainer that logs thinking as a field, the text begins after it.
        thinking = _thinking(text, begun=begun and not thought)
        if thought:
            self.has_thinking = True
            self.thinking_chars += len(thought)
        is_answered = bool(text.strip())
        if thinking:
            self.has_thinking = True
            self.thinking_chars += thinking.chars
            self.is_unclosed = self.is_unclosed or thinking.unclosed
            is_answered = thinking.answered
        calls = _calls_of(turn)
        self.calls += len(calls)
        # The trainer's parser found none of the calls that the text has.
        if turn.get("calls") == []:
            self.unparsed += len(calls)
        else:
            self.unparsed += sum(map(is_unparsed, calls))
        # A turn with a call is never void, and its markup is that of the call.
        if calls:
            return
        if not is_answered:
            self.void += 1
        if reply is not None and _is_result(reply):
            return
        if has_markup(text):
            self.markup += 1
        elif has_plain_markup(text):
            self.plain_markup += 1


def _calls_of(turn: Turn) -> list[Any]:
    # An empty list means that the trainer's parser found no call: look for calls in the text.
    calls = turn.get("calls")
    return calls if calls and isinstance(calls, list) else calls_in_text(turn["text"])


def _is_result(turn: Turn) -> bool:
    """Return whether a turn is what a call returned, so that the call before it was run."""
    if turn["sampled"]:
        return False
    return turn["role"] == "tool" or is_observation(turn["text"])


def _late_calls(turns: Sequence[Turn]) -> int:
    """Return the number of calls in or after a final answer and before the next user turn."""
    late = 0
    answered = False  # whether there was a final answer since the last user turn
    for turn in turns:
        if turn["sampled"]:
            answered = answered or is_final(turn["text"])
            if answered:
                late += len(_calls_of(turn))
        elif turn["role"] == "user":
            answered = False
    return late


def _is_empty(answer: Turn) -> bool:
    return not answer.get("error") and is_empty_answer(answer["text"])


def _tool_counts(turns: Sequence[Turn]) -> dict[str, ToolCounts]:
    """Return the counts of answers by the tool's name; of tools beyond MAX_TOOLS none."""
    counts: dict[str, ToolCounts] = {}
    for turn in turns:
        if turn["role"] != "tool":
            continue
        name = turn.get("tool")
        # On one line; answers of unnamed tools are counted together.
        name = " ".join(name.split())[:_LONGEST_NAME] if isinstance(name, str) else ""
        if name in counts:
            # The sum of the counts, field by field
            counts[name] = ToolCounts(*map(add, counts[name], _count_of(turn)))
        elif len(counts) < MAX_TOOLS:
            counts[name] = _count_of(turn)
    return counts


def _count_of(answer: Turn) -> ToolCounts:
    """Return the counts of a single answer of a tool."""
    # The range of its tokens in the response
    start, stop = answer.get("tokens", (0, 0))
    text = answer["text"]
    kinds: dict[
        str, int
    ] = {}  # field of ``ToolCounts`` -> 1, for the kind of the error
    if answer.get("error"):
        kind = error_kind(f"{answer['error']}\n{text}")
        if kind in ERROR_KINDS:
            kinds[kind] = 1
    return ToolCounts(
        answers=1,
        errors=1 if answer.get("error") else 0,
        chars=len(text),
        ranges=1 if "tokens" in answer else 0,
        tokens=stop - start,
        empty=1 if _is_empty(answer) else 0,
        **kinds,
    )


def split_named(value: object) -> str:
    """Return a split in lower case, "val" for "dev" etc.; "" if it is not a string."""
    if not isinstance(value, str):
        return ""
    return _SPLITS.get(value.lower(), value.lower())


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is an int within ±2^53 or a float within ±LARGEST_NUMBER, not NaN."""
    most = _LARGEST_INTEGER if type(value) is int else LARGEST_NUMBER
    return type(value) in (int, float) and abs(value) <= most


def normalize_turns_and_mask(
    row: dict[str, Any], tokens: int, *, cut: bool = False
) -> list[str]:
    """Normalize a row's turns and mask in place, and delete invalid ones.

    Return the kinds of invalid values: keys of ``notes.ODDITIES``.
    ``tokens`` is the number of the row's tokens, -1 if it has no token strings or arrays. With
    ``cut``, longer arrays were cut to ``tokens``, so the mask is cut, too.
    """
    problems: list[str] = []
    # 1 for each token that was sampled, 0 for each other
    mask = row.get("response_mask")
    logged_turns = row.get("turns")
    if mask is None and logged_turns is None:
        return problems
    ids = row.get("token_ids")
    if cut and isinstance(mask, list):
        mask = mask[:tokens]
        row["response_mask"] = mask
    if mask is not None and not (_is_mask(mask) and len(mask) == tokens):
        del row["response_mask"]
        problems.append("bad_mask")
    turns = _normalize_turns(logged_turns)
    if turns is not None:
        row["turns"] = turns
        # Without token strings, ids still tell the number of tokens in which spans must lie.
        count = len(ids) if tokens < 0 and isinstance(ids, list) else tokens
        token_spans = [turn["tokens"] for turn in turns if "tokens" in turn]
        if not _spans_fit(token_spans, count):
            for turn in turns:
                turn.pop("tokens", None)
            problems.append("bad_spans")
    elif logged_turns is not None:
        del row["turns"]
        problems.append("bad_turns")
    return problems


def _is_mask(mask: object) -> bool:
    try:
        return isinstance(mask, list) and set(mask) <= {0, 1}
    except TypeError:  # unhashable elements
        return False


def _normalize_turns(turns: object) -> list[dict[str, Any]] | None:
    """Return turns with ``role``, ``text`` and ``sampled``, as copies; None if one is invalid."""
    if not isinstance(turns, list):
        return None
    normalized: list[dict[str, Any]] = []
    for turn in turns:
        if not isinstance(turn, dict) or not isinstance(turn.get("role"), str):
            return None
        role = role_name(turn["role"])
        sampled = turn.get("sampled")
        copy = {key: value for key, value in turn.items() if value is not None}
        copy["role"] = role
        copy["text"] = content_text(turn.get("text"))
        # If the log does not say so, the policy sampled the assistant's turns.
        copy["sampled"] = role == "assistant" if sampled is None else bool(sampled)
        # A logged ``error`` of "" says that the answer is none, whatever its text.
        if role == "tool" and "error" not in copy:
            error = error_in_answer(copy["text"])
            if error:
                copy["error"] = error
        normalized.append(copy)
    return normalized


def _spans_fit(spans: Sequence[Any], tokens: int) -> bool:
    """Return whether spans are (start, stop) in ascending order, within a number of tokens.

    They come from a log, so that each may be anything.
    """
    end = 0  # of the span before
    for span in spans:
        if not isinstance(span, list | tuple) or len(span) != 2:
            return False
        start, stop = span
        if type(start) is not int or type(stop) is not int:
            return False
        if not end <= start <= stop <= tokens:
            return False
        end = stop
    return True
