r"""Compare the final answer of a response with its label (ground truth).

Answers and labels are normalized first: full-width characters, LaTeX, units and thousands
separators must not decide whether "$1{,}234$" is the label "1234". Only the ends of long texts, and
short answers in them, are searched, so the time per response is bounded.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import orjson

from rlreport.text.clean import without_special

# A label of more characters is a text, not an answer
LONGEST_LABEL = 60
LARGEST = 10**40  # Larger numbers are no labels
# Only so many characters of an answer are compared
_LONGEST_ANSWER = 300
# Of a label that is a whole solution, its result stands in the last so many characters
_LABEL_TAIL = 1_000
# "The answer is" is looked for in the last so many characters of a response
_PHRASE_TAIL = 4_000
# Without a marked answer, it is looked for in this part of the response at its end, ...
_END_SHARE = 0.1
# ... at least and at most so many characters
_SHORTEST_END = 60
_LONGEST_END = 1_000
# The last number of a text is in so many characters up to its last digit, ...
_BEFORE_DIGIT = 60
# ... and so many after it tell whether it is one
_AFTER_DIGIT = 20

_OPEN = "<answer>"
_CLOSE = "</answer>"
_TAG_END = "answer>"
_BOX = "\\boxed"
_AFTER = "####"

# Before NFKC, which makes 102 of 10²
_POWERS = {ord(digit): f"^{i}" for i, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_POWER = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]")
_VULGAR = frozenset("¼½¾⅓⅔")
_MIXED_VULGAR = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")
_FONT = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|operatorname)"
    r"\s{0,3}\{([^{}]{0,200})\}"
)
_FRACTION = re.compile(
    r"\\[dtc]?frac\s{0,3}(?:\{([^{}]{1,40})\}\s{0,3}\{([^{}]{1,40})\}|([0-9])([0-9]))"
)
# LaTeX that changes nothing about an answer; ``\!`` and ``\,`` also stand in numbers: 1\,000
_LATEX = re.compile(
    r"\\left|\\right|\\displaystyle|\\[!,;:()\[\]%$]|\^\{?\\circ\}?|\\circ|\\(?= )"
)
# Other such marks; some are written in two ways
_MARKS = str.maketrans("~−⁄", " -/", "%$°`#")
# Stars of Markdown, not those between two factors
_STARS = re.compile(r"(?<![0-9a-z)])\*+|\*+(?![0-9a-z(])")
_COMMA_IN_NUMBER = re.compile(r"(?<=[0-9])(?:,|\{,\})(?=[0-9]{3}(?![0-9]))")
_BLANK_IN_NUMBER = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?: [0-9]{3}){1,6}(?![0-9])")
_ENCLOSED = re.compile(r"[({]([^(){}]*)[)}]")
# A point at the start may be that of ".5".
_LEADING = " ,;:!?。、，；：！？\"'“”‘’"
_TRAILING = "." + _LEADING

# A sign belongs to a number unless it is a minus between two terms.
_SIGN = r"(?:(?<![0-9a-z)])[-+])?"
# No part of a word, of a power or of another number; "...5" is 5, ".5" a half
_BEFORE = r"(?<![0-9a-z_^])(?<![0-9]\.)(?<!\.(?=\.))"
_DIGITS = r"(?:[0-9]{1,40}(?:\.[0-9]{1,40})?|\.[0-9]{1,40})"
_NUMBER = re.compile(rf"{_SIGN}{_BEFORE}{_DIGITS}(?:/{_DIGITS})?(?![0-9^])")
_NUMBER_AND_UNIT = re.compile(
    rf"(?:[€£¥₹]|us|rs\.?)?\s?([-+]?\s?{_DIGITS}(?:/{_DIGITS})?)\s?([^0-9]{{0,30}}(?:\^[23])?)"
)
_UNIT = re.compile(r"(?:[^\W\d_]{1,20}\.?[ /-]?){0,3}(?:\^[23])?|[€£¥₹]", re.UNICODE)
# A number before such a letter is an amount ("5 m"); before any other it is algebra
_LETTER_UNITS = frozenset("mgslhcfkvwj")
_MATHEMATICS = re.compile(
    r"\b(?:pi|sqrt|sin|cos|tan|ln|log|exp|infty|or|and|to)\b|[π√∞]"
)
_WORDS = re.compile(r"[^\W\d_]+(?:[ '’.,&-]{1,2}[^\W\d_]+)*", re.UNICODE)
_OPTION = re.compile(r"\(?[a-z][.):]\s")  # "(B) Paris": answers may give either
_CHOICE = re.compile(r"\(?([a-z])[).:]?\)?")
_ONE_ITEM = re.compile(r"\[\s*([\"']?)([^\[\],\"']*)\1\s*\]")
# Words that stand in many texts by chance
_COMMON_WORDS = frozenset(("yes", "no", "true", "false", "是", "否", "对", "错"))

_IS = r"s?\s{0,3}(?:is|are|[:=：])(?!\s{1,3}(?:correct|incorrect|helpful|verified)\b)"
# Word -> phrase that begins with it; the first letter of "answer" may be a capital one. Patterns
# that begin with a text are found several times as fast as others.
_PHRASES = {
    "nswer": re.compile(f"nswer(?i:{_IS})"),
    "NSWER": re.compile(f"NSWER(?i:{_IS})"),
    "答案": re.compile(r"答案\s{0,3}(?:是|为|為|应为|應為)?"),
    _AFTER: re.compile(_AFTER),
}
_INNER = ("nswer", "NSWER")  # words without their first letter
# Word -> the letter of it that fewest texts have
_WORDS_OF_PHRASES = {"nswer": "w", "NSWER": "W", "答案": "案", _AFTER: "#"}
# Of each word, so many are looked at, from the last one on
_MOST_PHRASES = 8
_START = re.compile(r"(?:[\s:：=*_`#$]|\\[\[(])*")
_START_IN_LINE = re.compile(r"(?:[^\S\n]|[:：=*_`#$]|\\[\[(])*")
_SENTENCE_END = re.compile(r"\n|[!?。！？]|\.(?=\s|$)")


class _Split(NamedTuple):
    """What stands between alternatives, and how many items are more than one answer."""

    pattern: re.Pattern[str]
    least: int


_BETWEEN_ALTERNATIVES = _Split(re.compile(r",? or |/|或者?|\|"), 3)
# A place or a name may have some commas: "Paris, Île-de-France, France"
_BETWEEN_ITEMS = _Split(re.compile(r",? (?:or|and) |[,;、，；/|]|或者?|和"), 5)
# Scripts that write words without blanks between them: kana, Han, Hangul, Thai
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"


# What a template has in the place of an answer: "<number>"
_PLACEHOLDER = re.compile(r"<[^<>]{0,40}>")
# A number and then words: "5 apples are left", not "5. Conclusion"
_NUMBER_AND_WORDS = re.compile(rf"[-+]?{_DIGITS}(?:/{_DIGITS})? [^\W\d_]")
_COMMAND = re.compile(r"\\[a-z]{1,30}")  # of LaTeX
_ALPHANUMERIC = re.compile("[0-9A-Za-z]")
_LONG_WORD = re.compile(r"[^\W\d_]{3}")
_ANNOUNCES = re.compile(r"answer|答案")


# How responses mark their final answer; entry i is bit i (value 2**i) of ``answer_marks``
PHRASE = "answer"
ANSWER_MARKS = (_OPEN, _BOX, PHRASE, _AFTER, "json")
# Marks are looked for in so many characters at the end of a response
_MARK_TAIL = 1_000
# An object of JSON ends in the last so many characters: a fence of Markdown may follow
_BEHIND_JSON = 8
# An object of JSON at the end begins at one of the first so many braces of this part
_MOST_BRACES = 4


class Answer(NamedTuple):
    """The final answer of a response.

    Attributes:
        text: the answer as written in the response, at most some hundred characters, or if the
            response marks none, its end.
        is_explicit: whether the response marks it: in a tag, in a box, after "Answer:".
    """

    text: str
    is_explicit: bool


@dataclass(frozen=True, slots=True)
class Label:
    """A label that answers can be compared with.

    Attributes:
        text: the normalized label.
        number: its value, None for words.
        needs_mark: whether it only counts in an answer that the response marks as such, as a
            letter, yes or no may stand in any text.
    """

    text: str
    number: float | None
    needs_mark: bool


def label_hit(response: str, label: object) -> float:
    """Return 1.0 if the final answer of a response is its label, 0.0 if not, NaN if unknown.

    It is unknown without a label, or if the label is none of a number, a choice, or a few words.

    Args:
        response: the whole response, without padding.
        label: the label as logged: a text or a number, or a list of one of them.
    """
    usable = usable_label(label)
    if usable is None:
        return math.nan
    return float(is_hit(final_answer(response), usable))


def usable_label(value: object) -> Label | None:
    """Return a logged label for comparison, None if answers cannot be compared with it.

    Usable are a number, which a unit may follow, a choice such as "(B)", and plain words of at
    most ``LONGEST_LABEL`` characters; of a solution, what it marks as its result. Longer texts,
    algebra, mixed numbers, objects and lists of several values are not usable.
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str | int | float):
        return None
    # ``str`` refuses integers of thousands of digits.
    if not isinstance(value, str) and not abs(value) < LARGEST:
        return None
    return _usable_text(str(value)[-_LABEL_TAIL:])


@lru_cache(maxsize=1024)  # the responses of a group have the same label
def _usable_text(text: str) -> Label | None:
    """Return the label that a text states, None if no answer can be told from it."""
    item = _ONE_ITEM.fullmatch(text.strip())
    if item:
        text = item[2]
    if _AFTER in text:
        text = text.rpartition(_AFTER)[2]
    else:
        marked = _tagged(text)
        if marked is None:
            marked = _boxed(text)
        text = text if marked is None else marked
    # Normalizing shortens a label, but LaTeX is at most a few times as long as what it shows.
    if len(text) > 4 * LONGEST_LABEL:
        return None
    plain = normalize(text)
    if not plain or len(plain) > LONGEST_LABEL:
        return None
    choice = _CHOICE.fullmatch(plain)
    if choice:
        return Label(choice[1], None, needs_mark=True)
    number = _amount(plain)
    if number is not None:
        return Label(plain, number, needs_mark=False)
    if not _WORDS.fullmatch(plain) or _MATHEMATICS.fullmatch(plain):
        return None
    if _OPTION.match(plain):
        return None
    needs_mark = len(plain) == 1 or plain in _COMMON_WORDS
    return Label(plain, None, needs_mark)


def final_answer(response: str) -> Answer:
    r"""Return the final answer of a response, as written.

    It is what the last ``<answer>`` contains, else the last ``\boxed``, else what follows the last
    "answer is", "Answer:", "####" or "答案"; else the end of the response, which is not explicit.
    A mark that no answer follows is none; an empty ``<answer>`` is no answer.
    """
    marked = _tagged(response)
    if marked is not None:
        answer = _within_tag(marked)
        return Answer(answer, is_explicit=_is_given(answer))
    marked = _boxed(response)
    if marked is None or not _is_given(marked):
        marked = _after_phrase(response[-_PHRASE_TAIL:])
    if marked is not None:
        return Answer(marked, is_explicit=True)
    return Answer(_end_of(response), is_explicit=False)


def answer_marks(response: str) -> int:
    r"""Return how a response marks its final answer near its end, as bits of ``ANSWER_MARKS``.

    A mark counts only where ``final_answer`` can read an answer after it: not in a heading of
    Markdown ("#### Step 3"), an empty box or tag, or before a placeholder ("#### <number>").
    ``<answer>`` stands for the tag, "answer" for "answer is", "Answer:" and "答案", "json" for an
    object of JSON with which the response ends.
    """
    tail = response[-_MARK_TAIL:]
    marks = 0
    words = _words_of_phrases(tail)
    # Both tags end so, and have one of the words.
    if "nswer" in words and _TAG_END in tail and (_CLOSE in tail or _OPEN in tail):
        tagged = _tagged(response)
        if tagged is not None and _is_given(_within_tag(tagged)):
            marks = 1
    if "\\" in tail and _BOX in tail:
        boxed = _boxed(tail)
        if boxed is not None and _is_given(boxed):
            marks |= 2
    if _AFTER in words:
        words.remove(_AFTER)
        if _last_announced(tail, (_AFTER,)) is not None:
            marks |= 8
    if _last_announced(tail, words) is not None:
        marks |= 4
    if "}" in tail[-_BEHIND_JSON:] and _ends_in_json(tail):
        marks |= 16
    return marks


def _ends_in_json(tail: str) -> bool:
    """Return whether a text ends with an object of JSON, maybe in a block of code."""
    text = tail.rstrip("`\n ")
    if not text.endswith("}"):
        return False
    start = -1
    for _ in range(_MOST_BRACES):
        start = text.find("{", start + 1)
        if start < 0:
            return False
        try:
            return bool(orjson.loads(text[start:].encode(errors="replace")))
        except orjson.JSONDecodeError:
            continue
    return False


def is_hit(answer: Answer, label: Label) -> bool:
    """Return whether an answer is its label.

    It is if both are equal, if the last number of the answer is the label, or if the words of the
    label stand in the answer, but not as one of several that it offers.
    """
    if label.needs_mark and not answer.is_explicit:
        return False
    text = answer.text
    if label.number is not None and not answer.is_explicit:
        text = _around_last_digit(text)  # the rest need not be normalized
    text = normalize(text)
    if text == label.text:
        return True
    if label.number is not None:
        return _is_last_number(label.number, text)
    if len(label.text) == 1 and label.text.isascii():
        return _is_choice(label.text, text)
    if label.text in _COMMON_WORDS:
        # "No, as yes would mean …" is a no.
        return text.startswith(label.text) and _has_words(label.text, text)
    return _has_words(label.text, text) and not _is_one_of_several(label.text, text)


def normalize(text: str) -> str:
    r"""Return an answer without what does not change it, in lower case.

    Characters become their usual form (NFKC), ``\frac{a}{b}`` becomes a/b, the content of
    ``\text`` stays; %, °, $, markup of LaTeX and Markdown, thousands separators, and punctuation
    at the ends go.
    """
    if not text.isascii():
        if _POWER.search(text):
            text = text.translate(_POWERS)
        text = unicodedata.normalize("NFKC", _MIXED_VULGAR.sub(" ", text))
    text = text.lower()
    if "<" in text:
        text = without_special(text)
    if "\\" in text:
        # Twice, as one may stand in the other
        text = _FONT.sub(r" \1 ", _FONT.sub(r" \1 ", text))
        text = _LATEX.sub("", _FRACTION.sub(_as_quotient, text))
    text = " ".join(text.translate(_MARKS).split())
    if "*" in text:
        text = _STARS.sub("", text)
    if "," in text:
        text = _COMMA_IN_NUMBER.sub("", text)
    text = _BLANK_IN_NUMBER.sub(lambda number: number[0].replace(" ", ""), text)
    text = text.rstrip(_TRAILING).lstrip(_LEADING)
    # Braces and parentheses around all of it, not those of (a)(b)
    enclosed = _ENCLOSED.fullmatch(text)
    if enclosed:
        text = enclosed[1].rstrip(_TRAILING).lstrip(_LEADING)
    return text


def _as_quotient(fraction: re.Match[str]) -> str:
    above = fraction[1] or fraction[3]
    below = fraction[2] or fraction[4]
    # 2\frac{1}{2} is a mixed number, not 21/2.
    before = fraction.string[: fraction.start()].rstrip()
    gap = " " if before[-1:].isdigit() else ""
    return f"{gap}{above.strip()}/{below.strip()}"


def _tagged(text: str) -> str | None:
    """Return the content of the last answer tag, None without one."""
    start = text.rfind(_OPEN)
    if start < 0:
        return None
    start += len(_OPEN)
    stop = text.find(_CLOSE, start)
    if stop >= 0:
        return text[start:stop]
    # Samplers may stop at the closing tag and leave it out.
    return text[start:] if len(text) - start <= _LONGEST_ANSWER else None


def _within_tag(content: str) -> str:
    """Return the answer in the content of an answer tag, which may be a whole solution."""
    boxed = _boxed(content)
    if boxed is not None:
        return boxed
    if len(content) <= _LONGEST_ANSWER:
        return content
    after = _after_phrase(content[-_PHRASE_TAIL:])
    return _end_of(content) if after is None else after


def _boxed(text: str) -> str | None:
    r"""Return the content of the last ``\boxed``, None without one that ends."""
    start = text.rfind(_BOX)
    if start < 0:
        return None
    start += len(_BOX)
    rest = text[start : start + _LONGEST_ANSWER].lstrip(" ")
    if not rest.startswith("{"):
        token = re.match(r"[^\s$\\]{1,40}", rest)
        return token[0] if token else None
    depth = 0
    for position, character in enumerate(rest):
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if not depth:
                return rest[1:position]
    return None


def _after_phrase(tail: str) -> str | None:
    """Return what follows the last phrase that announces the answer, None without one."""
    return _last_announced(tail, _words_of_phrases(tail))


def _words_of_phrases(tail: str) -> list[str]:
    """Return the words in a text that may announce the answer."""
    words = []
    for word, letter in _WORDS_OF_PHRASES.items():
        # Looking for one letter is ten times as fast, and mostly decides.
        if letter in tail and word in tail:
            words.append(word)
    return words


def _last_announced(tail: str, words: Iterable[str]) -> str | None:
    """Return what follows the last phrase with any of these words, None without one."""
    for phrase in _last_phrases(tail, words):
        announced = _announced(tail, phrase)
        if announced is not None:
            return announced
    return None


def _announced(tail: str, phrase: re.Match[str]) -> str | None:
    """Return the answer that follows a phrase, None if it is no answer."""
    is_phrase = phrase[0] != _AFTER
    start = (_START if is_phrase else _START_IN_LINE).match(tail, phrase.end())
    assert start is not None  # as it matches "", too
    after = tail[start.end() :][:_LONGEST_ANSWER]
    if is_phrase:
        end = _SENTENCE_END.search(after)
        answer = after[: end.start()] if end else after
        return answer if _is_given(answer) else None
    line = after.partition("\n")[0]
    is_last = not tail[start.end() + len(line) :].strip()
    return line if _is_value(normalize(line), is_last=is_last) else None


def _is_given(answer: str) -> bool:
    """Return whether a marked answer has any content."""
    # What is no markup stays when an answer is normalized, which takes much longer.
    if "<" not in answer and "\\" not in answer and _ALPHANUMERIC.search(answer):
        return True
    return bool(normalize(_PLACEHOLDER.sub("", answer.strip(), count=1)))


def _is_value(plain: str, *, is_last: bool) -> bool:
    """Return whether a normalized line after "####" is an answer, and no heading of Markdown.

    A heading has words, and mostly a text below it. So a line of the text can only be an amount, a
    choice or a formula; the last one may have words, too, unless they announce the answer.
    """
    if not plain or _PLACEHOLDER.match(plain):
        return False
    if _amount(plain) is not None or _CHOICE.fullmatch(plain):
        return True
    symbols = _MATHEMATICS.sub("", _COMMAND.sub("", plain))
    if not _LONG_WORD.search(symbols):
        return True
    if not is_last or _ANNOUNCES.search(plain):
        return False
    if _NUMBER_AND_WORDS.match(plain):
        return True
    return len(plain) <= LONGEST_LABEL and bool(_WORDS.fullmatch(plain))


def _last_phrases(tail: str, words: Iterable[str]) -> Iterator[re.Match[str]]:
    """Yield the phrases with any of the words that may announce the answer, the last one first."""
    phrases: list[tuple[int, str, re.Match[str]]] = []
    for word in words:
        for phrase in _PHRASES[word].finditer(tail):
            phrases.append((phrase.start(), word, phrase))
    for start, word, phrase in sorted(phrases, reverse=True):
        is_whole = word not in _INNER or tail[start - 1 : start] in ("a", "A")
        if is_whole and tail.count(word, start) <= _MOST_PHRASES:
            yield phrase


def _end_of(text: str) -> str:
    share = min(int(_END_SHARE * len(text)), _LONGEST_END)
    return text[-max(share, _SHORTEST_END) :]


def _amount(plain: str) -> float | None:
    """Return the value of a normalized text that is a number, with or without a unit, else None."""
    amount = _NUMBER_AND_UNIT.fullmatch(plain)
    if not amount:
        return None
    unit = amount[2].strip()
    if not _UNIT.fullmatch(unit) or _MATHEMATICS.search(unit):
        return None
    is_letter = len(unit) == 1 and unit.isascii() and unit.isalpha()
    if is_letter and not (unit in _LETTER_UNITS and plain[-2] == " "):
        return None
    value = _value(amount[1].replace(" ", ""))
    return None if math.isnan(value) else value


def _value(number: str) -> float:
    """Return the value of digits or of a quotient of two numbers; NaN for a division by 0."""
    above, _, below = number.partition("/")
    divisor = float(below) if below else 1.0
    return float(above) / divisor if divisor else math.nan


def _around_last_digit(text: str) -> str:
    """Return the part of a text that has its last number, "" for a text without digits."""
    for position in range(len(text) - 1, -1, -1):
        if text[position].isdigit() or text[position] in _VULGAR:
            start = max(position - _BEFORE_DIGIT, 0)
            return text[start : position + _AFTER_DIGIT]
    return ""


def _is_last_number(wanted: float, text: str) -> bool:
    numbers = _NUMBER.findall(text)
    if not numbers:
        return False
    # Computed quotients differ by rounding; whole numbers of up to twelve digits do not.
    return math.isclose(_value(numbers[-1]), wanted, rel_tol=1e-12)


def _is_choice(letter: str, text: str) -> bool:
    """Return whether an answer chooses this letter: "B", "(B) Paris", "option B because …"."""
    choice = re.match(r"\(?(?:option|choice|选项|选)?\s?\(?([a-z])(?![a-z'’])", text)
    if not choice or choice[1] != letter:
        return False
    after = text[choice.end() :]
    # "A" and "I" are words, too.
    return letter not in "ai" or not after.startswith(" ")


@lru_cache(maxsize=1024)
def _pattern(words: str) -> re.Pattern[str]:
    letter = f"[^\\W{_UNSPACED}]"
    # A word of a script without blanks may stand next to any other.
    before = f"(?<!{letter})" if re.match(letter, words[0]) else ""
    after = f"(?!{letter})" if re.match(letter, words[-1]) else ""
    return re.compile(before + re.escape(words) + after)


def _has_words(words: str, text: str) -> bool:
    return _pattern(words).search(text) is not None


def _is_one_of_several(label: str, answer: str) -> bool:
    """Return whether an answer offers several alternatives, of which the label is one."""
    for split in (_BETWEEN_ALTERNATIVES, _BETWEEN_ITEMS):
        items = [item.strip(_LEADING) for item in split.pattern.split(answer)]
        if len(items) >= split.least and label in items:
            return True
    return False
