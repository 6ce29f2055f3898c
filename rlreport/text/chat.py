"""Parse conversations into turns, from chat messages, chat templates or tool calls in text.

A turn of a prompt is (role, text). A turn of a response is a dict with ``role``, ``text`` and
``sampled`` (whether the policy wrote it), and if logged ``thinking``, ``calls`` (a list of dicts
with ``name``, ``arguments``, ``id``), ``tool`` (the tool's name) and ``error``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

Turns = list[tuple[str, str]]
Turn = dict[str, Any]
Row = dict[str, Any]

# Opening tags of tool calls and tool answers in text (Hermes 2 Pro, Qwen)
CALL = "<tool_call>"
ANSWER = "<tool_response>"
_TOOL = "<tool_"  # with which both begin

_ROLE_NAMES = {
    "human": "user",
    "model": "assistant",
    "ai": "assistant",
    "gpt": "assistant",
}
# Per chat template: patterns of the start (group 1 is the role) and of the end of a turn
_TEMPLATES = [
    (re.compile(opening), re.compile(rf"(?:{closing})\s*$"))
    for opening, closing in (
        (r"<\|im_start\|>([\w.-]+)(?:\n|<\|im_sep\|>)", r"<\|im_end\|>"),
        (
            r"<\|start_header_id\|>([\w.-]+)<\|end_header_id\|>\s*",
            r"<\|eot_id\|>|<\|eom_id\|>",
        ),
        (r"<start_of_turn>([\w.-]+)\n", r"<end_of_turn>"),
        (
            r"<\|start\|>([\w.-]+)[^<]*(?:<\|channel\|>[^<]*)?(?:<\|message\|>|\Z)",
            r"<\|end\|>|<\|return\|>|<\|call\|>",
        ),
        (r"<[|｜](User|Assistant)[|｜]>", r"<[|｜]end▁of▁sentence[|｜]>"),
        (
            r"<\|(system|user|assistant|observation|tool)\|>\s*",
            r"<\|end\|>|</s>|<\|endoftext\|>",
        ),
    )
]

_WRITTEN_ROLES = (
    re.compile(r"^(System|Human|Assistant|AI|GPT):[ \t]*", re.MULTILINE),
    re.compile(r"^(System|User|Assistant|AI):[ \t]*", re.MULTILINE),
    # ChatML decoded without its special tokens, as verl and TRL log it.
    re.compile(r"^(system|user|assistant|tool|model)\n", re.MULTILINE),
)
# Matches only begin-of-text and similar tokens, as found before the first turn
_MARKS_ONLY = re.compile(r"\s*(?:(?:<[^<>\s]{1,40}>|\[[A-Za-z_]{1,20}\])\s*)*")

_LLAMA2_TURN = re.compile(
    r"\[INST\](.*?)(?:\[/INST\](.*?)(?=\[INST\]|\Z)|\Z)", re.DOTALL
)
_LLAMA2_SYSTEM = re.compile(r"\s*<<SYS>>\n?(.*?)\n?<</SYS>>\s*", re.DOTALL)

# Blanks are stripped later, as matching them next to a lazy group would take quadratic time.
_CALLS = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_ANSWERS = re.compile(r"<tool_response>(.*?)(?:</tool_response>|\Z)", re.DOTALL)
# An answer without an error flag is an error if it begins like one, after template tags or lines
# such as "RESULT 3:". "Standard error: 0.3" and "error: none" are no errors.
_ERROR_CHARS = 400  # of an answer, in which it may begin like an error
_LONGEST_ERROR = 200
_ERROR = re.compile(
    r"""(?:<[^<>\n]{1,40}>\s*(?:(?:tool|function|user)\b\s*)? | [a-z][\w #-]{0,30}:\s*\n)*
    (?P<error> traceback\ \(most\ recent
    | (?:(?:tool|execution|runtime|syntax|internal|server|http|api|parse|parsing|validation|fatal
        |network|connection|sandbox|system|command|input|request)\ )?
      (?!\w*(?:squared|absolute|standard))[\w.]*(?:error|exception)(?:\[\w+\])?\s?[:：]
      (?!\s*(?:none|null|no\b|(?![45]\d\d\b)[-\d.]))
    | error\ (?:executing|calling|running|invoking|parsing|while|when|during|occurred|[45]\d\d\b)
    | an?\ (?:\w+\ )?(?:error|exception)\ occurred | failed\ to\b
    | \{\s*["'](?:error|exception)["']\s*:(?!\s*(?:null|none|false|""|''|\{\}|\[\]|0\b))
    | \{\s*["'](?:success|ok)["']\s*:\s*false
    | [{\s]*["']?status["']?\s*:\s*["']?(?:error|failed|failure|timeout)\b
    | [{\[(\s]*["']?(?:exit[\s_-]?(?:code|status)|return[\s_-]?code)["']?\s*[:=]?\s*-?[1-9]
    | <returncode>-?[1-9] | (?:http\S{0,4}\ |status(?:\ code)?:?\ )[45]\d\d\b
    | [45]\d\d\ (?:not\ found|forbidden|bad|unauthorized|internal|service|gateway|client|server)
    | (?:\w+\ ){0,3}(?:timed\ out|permission\ denied|access\ denied)\b
    | (?:invalid|unknown)\ (?:arguments?|parameters?|json|tool|function|command)\b
    | [^\n]{0,80}:\ (?:command\ not\ found|no\ such\ file) | 错误[:：] | (?:执行|调用)失败 )""",
    re.IGNORECASE | re.VERBOSE,
)
_ERROR_KINDS = {
    "timeouts": r"time[ds]?[ -]?out|deadline exceeded|超时",
    "permissions": r"permission|forbidden|unauthori[sz]ed|access denied|\b40[13]\b",
    "not_found": r"not[ _]?found|no such|does not exist|\bunknown (?:tool|func|com)|\b404\b|不存在",
    "arguments": r"invalid (?:arg|param|input|json|call)|validation|jsondecode|\b4(?:00|22)\b"
    r"|(?:missing|required|unexpected)[^.\n]{0,30}(?:argument|param|field)",
    "exceptions": r"traceback|\w(?:error|exception)\b",
}
_KINDS = {
    kind: re.compile(words, re.IGNORECASE) for kind, words in _ERROR_KINDS.items()
}
# What a final answer is marked with
_FINAL = re.compile(r"</answer>|\\boxed\{")
# Lines with a role name that remain around text decoded without its special tokens
_ROLE_LINES = re.compile(r"\A\s*assistant\n|\n(?:user|tool)\s*\Z")


def turns(prompt: str) -> Turns:
    """Split a prompt into (role, text) turns, [] if it uses no chat template.

    Supports the markers of ChatML, Llama 2 and 3, Gemma, Harmony, DeepSeek and Phi; if the prompt
    begins so and has both roles, also lines such as ``Human:``, or ChatML decoded without its
    special tokens. Empty turns are left out, such as the last one, which the response completes.
    Text before the first marker gets the role ``prompt`` (before ``[INST]``, it is left out).
    """
    # All of these templates start with "<", which most prompts do not contain.
    if "<" in prompt:
        for opening, closing in _TEMPLATES:
            before, parts = _split(prompt, opening)
            if parts:
                # A begin-of-text token alone is no turn.
                if not _MARKS_ONLY.fullmatch(before):
                    parts.insert(0, ("prompt", before))
                parts = [(role, closing.sub("", text)) for role, text in parts]
                return _drop_blank_turns(parts)
    if "[INST]" in prompt:
        return _drop_blank_turns(_llama2(prompt))
    for opening in _WRITTEN_ROLES:
        if not opening.match(prompt):  # the prompt begins with other text
            continue
        _, parts = _split(prompt, opening)
        roles = {role_name(role) for role, _ in parts}
        # "User: ..." may be prose, so both roles are required.
        if {"user", "assistant"} <= roles:
            return _drop_blank_turns(parts)
    return []


def _split(prompt: str, opening: re.Pattern[str]) -> tuple[str, Turns]:
    """Return the text before the first turn, and (role, text) of each turn."""
    # The pattern has one group, the role: ``split`` returns the text before the first opening, then
    # for each opening the role and the text up to the next one.
    before, *parts = opening.split(prompt)
    roles = parts[::2]
    texts = parts[1::2]
    return before, list(zip(roles, texts, strict=True))


def _llama2(prompt: str) -> Turns:
    """Return the turns of a prompt with the ``[INST]`` markers of Llama 2; some may be blank."""
    parts: Turns = []
    # A question stands between [INST] and [/INST], its answer before the next [INST].
    for question, answer in _LLAMA2_TURN.findall(prompt):
        # The system prompt is the beginning of the first question, in tags of its own.
        system = _LLAMA2_SYSTEM.match(question)
        if system:
            parts.append(("system", system[1]))
            parts.append(("user", question[system.end() :]))
        else:
            parts.append(("user", question))
        parts.append(("assistant", re.sub(r"</?s>", "", answer)))
    return parts


def _drop_blank_turns(parts: Turns) -> Turns:
    """Normalize the roles of turns, strip their texts, and leave out those without any text."""
    stripped = [(role_name(role), text.strip()) for role, text in parts]
    return [(role, text) for role, text in stripped if text]


def turns_in_text(response: str) -> list[Turn]:
    """Split a response with tool call markup into turns, [] if it has no such markup.

    Answers in ``<tool_response>`` tags, and text that a chat template assigns to other roles than
    assistant, become turns with ``sampled`` False. Calls that are not JSON objects are texts.
    """
    # As most responses have neither, one search is made for both.
    if _TOOL not in response or (CALL not in response and ANSWER not in response):
        return []
    result: list[Turn] = []
    # Tools of the last turn's calls that are not answered yet, "" if unknown. Answers follow in the
    # order of the calls.
    awaited_tools: list[str] = []
    # Without a chat template, all text outside of answers is the policy's. So is a template's text
    # with the role "prompt": it lies before the first marker, where the response begins.
    for role, text in turns(response) or [("prompt", response)]:
        # ``split`` returns by turns a text outside of answers and the text of an answer.
        for i, part in enumerate(_ANSWERS.split(text)):
            is_answer = i % 2 == 1
            if is_answer:
                tool = awaited_tools.pop(0) if awaited_tools else ""
                result.append(_answer_turn(part, tool))
            elif part.strip() and role in ("prompt", "assistant"):
                turn = _policy_turn(_ROLE_LINES.sub("", part))
                awaited_tools = _called_tools(turn)
                result.append(turn)
            elif part.strip():
                result.append({"role": role, "text": part.strip(), "sampled": False})
    return result


def _answer_turn(text: str, tool: str) -> Turn:
    """Return the turn of an answer in text; ``tool`` is the name of the tool, "" if unknown."""
    turn: Turn = {"role": "tool", "text": text.strip(), "sampled": False}
    if tool:
        turn["tool"] = tool
    error = error_in_answer(text)
    if error:
        turn["error"] = error
    return turn


def _called_tools(turn: Turn) -> list[str]:
    """Return the tool's name of each call of a turn that is an object, "" if it has none."""
    calls = [call for call in turn.get("calls", ()) if isinstance(call, dict)]
    names = [call.get("name") for call in calls]
    return [name if isinstance(name, str) else "" for name in names]


def error_in_answer(text: str) -> str:
    """Return the first line of the error that a tool's answer begins with, "" if with none."""
    # Only the beginning: a page or a log that a tool returns may be about errors.
    head = text.lstrip()[:_ERROR_CHARS]
    match = _ERROR.match(head)
    if match is None:
        return ""
    line, _, _ = head[match.start("error") :].strip().partition("\n")
    return line[:_LONGEST_ERROR]


def error_kind(text: str) -> str:
    """Classify an error: timeouts, permissions, not_found, arguments, exceptions or others."""
    head = text.lstrip()[:_ERROR_CHARS]
    # The first kind that fits: a traceback may also say that a file was not found.
    for kind, words in _KINDS.items():
        if words.search(head):
            return kind
    return "others"


def calls_in_text(text: str) -> list[str]:
    """Return the texts between the tags of tool calls."""
    return [call.strip() for call in _CALLS.findall(text)] if CALL in text else []


def is_unparsed(call: object) -> bool:
    """Return whether a tool call is "" or JSON that cannot be parsed.

    Of a call that is a dict, its ``arguments`` are judged. Calls of other syntaxes, such as
    ``<function=…>``, count as parsed.
    """
    if call == "":
        return True
    text = call.get("arguments") if isinstance(call, Mapping) else call
    # Text that cannot be parsed is returned unchanged.
    return _is_json_like(text) and isinstance(_parse_if_json(text), str)


def is_final(text: str) -> bool:
    """Return whether a text has a final answer, ``</answer>`` or boxed, after its thinking."""
    return _FINAL.search(text.rpartition("</think>")[2]) is not None


def _policy_turn(text: str) -> Turn:
    """Return a turn of the policy, with the calls in its text that are JSON objects parsed."""
    plain = _CALLS.sub("", text).strip()
    turn: Turn = {"role": "assistant", "text": plain, "sampled": True}
    calls: list[Any] = []
    for call in calls_in_text(text):
        parsed = _parse_if_json(call)
        calls.append(parsed if isinstance(parsed, dict) else call)
    if calls:
        turn["calls"] = calls
    return turn


def turns_as_text(parts: Turns) -> str:
    """Join turns into one text with a line "role: text" for each; return a single turn's text."""
    if len(parts) == 1:
        return parts[0][1]
    return "\n".join(f"{role}: {text}" for role, text in parts)


def is_messages(value: object) -> bool:
    """Return whether a value is a list of chat messages, at least one."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(item, dict) and "role" in item for item in value)


def has_answer(messages: Sequence[Any]) -> bool:
    """Return whether an assistant wrote after the first message of a conversation."""
    return any(_role(message) == "assistant" for message in messages[1:])


def message_turns(messages: Sequence[object]) -> Turns:
    """Convert chat messages to (role, text) turns, with tool calls as text; skip other values."""
    return [
        (_role(message), message_text(message))
        for message in messages
        if isinstance(message, Mapping)
    ]


def conversation_text(messages: Sequence[object]) -> str:
    """Join chat messages into lines "role: text"; of a single message return only the text."""
    return turns_as_text(message_turns(messages))


def conversation_fields(messages: Sequence[Any], sampled: Sequence[bool] = ()) -> Row:
    """Split a conversation into prompt and response; return them as fields of a row.

    The response begins with the first message that the policy wrote (``sampled``). If none is
    marked, it begins with the first assistant message, if any, after all of user and system.
    """
    if any(sampled):
        start = list(map(bool, sampled)).index(True)
        reply = response_fields(messages[start:], sampled[start:])
        return prompt_fields(messages[:start]) | reply
    start = len(messages)  # without a response, all messages are the prompt
    # Go back to the last message of user or system: ``start`` is the first assistant message after.
    for i in reversed(range(len(messages))):
        role = _role(messages[i])
        if role in ("user", "system", "developer"):
            break
        if role == "assistant":
            start = i
    return prompt_fields(messages[:start]) | response_fields(messages[start:])


def prompt_and_response_fields(prompt: object, response: object) -> Row:
    """Return a row's fields ``prompt``, ``response``, … from strings or chat messages."""
    return prompt_fields(prompt) | response_fields(response)


def prompt_fields(value: object) -> Row:
    """Return a dict with ``prompt`` (text, or "") and, for chat messages, ``prompt_turns``."""
    if isinstance(value, str):
        return {"prompt": value}
    messages = [value] if isinstance(value, dict) else value
    if not isinstance(messages, list | tuple):
        return {"prompt": ""}
    row: Row = {"prompt": conversation_text(messages)}
    parts = message_turns(messages)
    # A single message with the role "text" is a whole prompt, which has its template in its text.
    if parts and [role for role, _ in parts] != ["text"]:
        row["prompt_turns"] = [[role, text] for role, text in parts]
    return row


def response_fields(value: object, sampled: Sequence[bool] | None = None) -> Row:
    """Return the field ``response`` and, for chat messages, ``turns``.

    ``response`` is a string unchanged, or the text of the messages that the policy wrote: those
    marked in ``sampled``, or if that is None, those of the assistant. ``turns`` are all messages.
    """
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list | tuple):
        return {"response": value if isinstance(value, str) else ""}
    result: list[Turn] = []
    texts: list[str] = []
    tool_of_call: dict[str, str] = {}  # id of a call -> the tool's name
    for i, message in enumerate(value):
        if not isinstance(message, Mapping):
            continue
        turn = _turn(message, tool_of_call)
        if sampled is not None:
            turn["sampled"] = bool(sampled[i])
        if turn["sampled"]:
            texts.append(message_text(message))
        result.append(turn)
    row: Row = {"response": "\n".join(texts)}
    if result:
        row["turns"] = result
    return row


def _turn(message: Mapping[str, Any], tool_of_call: dict[str, str]) -> Turn:
    """Return a chat message as a turn; see the module's docstring for its keys.

    ``tool_of_call`` maps the ids of calls to names of tools: calls of this message are added, and
    an answer finds the tool of its call.
    """
    role = _role(message)
    turn: Turn = {
        "role": role,
        "text": content_text(message.get("content")),
        "sampled": role == "assistant",
    }
    thinking = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thinking, str) and thinking:
        turn["thinking"] = thinking
    calls = [_call_of_turn(call) for call in _calls_of(message)]
    if calls:
        turn["calls"] = calls
    for call in calls:
        if "id" in call:
            tool_of_call[call["id"]] = call["name"]
    tool = message.get("name") or tool_of_call.get(str(message.get("tool_call_id")))
    if role == "tool" and isinstance(tool, str):
        turn["tool"] = tool
    error = _logged_error(message, turn["text"])
    if error is not None:
        turn["error"] = error
    return turn


def _logged_error(message: Mapping[str, Any], text: str) -> str | None:
    """Return the error that a chat message states in its fields; None if it states nothing.

    "" states that there is none, so that the text is not searched for an error.
    """
    error = message.get("error")
    if isinstance(error, str) and error:
        return error
    if message.get("is_error") is True or message.get("status") == "error":
        return text[:_LONGEST_ERROR] or "error"
    if message.get("is_error") is False or message.get("status") == "success":
        return ""
    return None


class _Call(NamedTuple):
    """A tool call of a chat message, as logged."""

    name: str | None  # None if the call is a text
    arguments: Any
    identity: object = None


def _calls_of(message: Mapping[str, Any]) -> Iterator[_Call]:
    """Yield the tool calls of a chat message; all of them, or each, may be logged as JSON text."""
    value = _parse_if_json(message.get("tool_calls"))
    if value is None:
        return
    items = value if isinstance(value, list) else [value]
    for item in map(_parse_if_json, items):
        if isinstance(item, Mapping):
            # OpenAI's calls have name and arguments in an object ``function``, others at the top.
            function = item.get("function")
            call = function if isinstance(function, Mapping) else item
            arguments = call.get("arguments", call.get("input", ""))
            yield _Call(str(call.get("name") or ""), arguments, item.get("id"))
        elif isinstance(item, str) and item:
            yield _Call(None, item)  # a text that is not JSON


def _call_of_turn(call: _Call) -> dict[str, Any]:
    """Return a call as turns have it; its ``arguments`` are a dict or, if not parsed, a text."""
    arguments = "" if call.arguments is None else _parse_if_json(call.arguments)
    if not isinstance(arguments, dict | str):  # such as a list
        arguments = _json(arguments)
    result = {"name": call.name or "", "arguments": arguments}
    if isinstance(call.identity, str):
        result["id"] = call.identity
    return result


def message_text(message: Mapping[str, Any]) -> str:
    """Return a chat message as text: its reasoning, content and tool calls."""
    parts: list[str] = []
    thinking = message.get("reasoning_content")
    if isinstance(thinking, str) and thinking:
        parts.append(f"<think>{thinking}</think>")
    parts.append(content_text(message.get("content")))
    for call in _calls_of(message):
        text = call.arguments
        if not isinstance(text, str):
            text = _json(text)
        is_text = call.name is None
        parts.append(text if is_text else f"{call.name or 'tool'}({text})")
    return "\n".join(filter(None, parts))


def content_text(content: object) -> str:
    """Return a message's content as text, with ``[image]`` or similar for parts without text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(map(_part_text, content))
    return _json(content)


def _part_text(part: object) -> str:
    """Return a part of a message's content as text; see ``content_text``."""
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'part')}]"


def role_name(role: str) -> str:
    """Normalize a role name: ``human`` to ``user``, ``model`` to ``assistant``, in lower case."""
    name = role.lower()
    return _ROLE_NAMES.get(name, name)


def _role(message: object) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    return role_name(role) if isinstance(role, str) else "?"


def _is_json_like(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.lstrip()[:1] in ("{", "[")


def _parse_if_json(value: object) -> object:
    """Return what a text of a JSON object or array stands for; other values unchanged."""
    if not _is_json_like(value):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
