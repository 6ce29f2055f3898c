"""Runs whose texts go wrong: loops, sameness, other languages, garbage, formats, paid phrases.

All answer word problems of the laboratory, in English or Chinese; what is logged differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy import forms
from benchmarks.accuracy.family import (
    ANY,
    Drawn,
    Family,
    Healthy,
    Random,
    Row,
    read_rows,
)
from benchmarks.accuracy.shapes import (
    Floats,
    Sizes,
    begins,
    onset_between,
    rise_between,
)
from benchmarks.lab.hidden_base import TOKENS, plus, simulate
from benchmarks.lab.simulate import flat, ramp, settle
from rlreport.tables import Tables
from rlreport.text.tokens import spaced_units
from tests.tables_builder import make_tables

SHAPES = ((2, 8), (4, 4), (4, 8), (8, 4), (2, 16))
"""Prompts a step, responses a prompt."""
MOST_RESPONSES = 1100
"""Of a run, about, so that it is read and judged in less than half a second."""

_SENTENCE = re.compile(r"[^.。?!]+[.。?!]?")


def text_sizes(
    random: Random, shapes: Sequence[tuple[int, int]] = SHAPES, least: int = 25
) -> Sizes:
    """Return a size of a run with texts, small enough to be read in a moment."""
    prompts, group = shapes[int(random.integers(len(shapes)))]
    most = min(60, MOST_RESPONSES // (prompts * group))
    steps = int(random.integers(least, max(most, least + 10) + 1))
    return Sizes(steps, prompts, group)


def answers(random: Random, sizes: Sizes, **settings: Any) -> list[Row]:
    """Return the rows of a run that learns word problems, steps from 1; see ``Reasoning``.

    Half of the runs log tokens with their log-probabilities, unless ``keep`` names what is logged.
    """
    chinese = settings.get("chinese", bool(random.random() < 0.4))
    form = "zh" if chinese else str(random.choice(["####", "boxed", "tag", "final"]))
    learns = settle(random.uniform(8, 25), random.uniform(1.2, 2.5))
    usual = {
        "steps": sizes.steps,
        "prompts": sizes.prompts,
        "group": sizes.group,
        "skill": plus(flat(random.uniform(-1.0, 0.2)), learns),
        "thoughts": flat(random.uniform(3, 7)),
        "endless": flat(0.0),
        "chinese": chinese,
        "form": form,
        "label": bool(random.random() < 0.5),
        "kl": ramp(0, sizes.steps, random.uniform(0.002, 0.02)),
        "surprisal": ramp(0, sizes.steps, random.uniform(0.35, 0.5), 0.5),
        "keep": TOKENS if random.random() < 0.5 else (),
    }
    rows = simulate(random, **(usual | settings))
    for row in rows:
        row["step"] += 1
    return rows


def chats(random: Random, sizes: Sizes, **settings: Any) -> list[Row]:
    """Return the rows of a run whose answers a reward model scores, between about -1 and 2."""
    noise = random.uniform(0.15, 0.4)
    return answers(random, sizes, **({"label": False, "noise": noise} | settings))


def logged(random: Random, rows: Sequence[Row]) -> Tables:
    """Return the tables of rows that are written as the log of a random framework."""
    choices: list[Callable[[Random, Sequence[Row]], forms.Files]] = [forms.own]
    if "response_tokens" not in rows[0]:
        choices += [forms.verl, forms.trl]
    return read_rows(choices[random.integers(len(choices))](random, rows))


def change_of(
    random: Random, sizes: Sizes, strength: float, before: float = 0.01
) -> tuple[Floats, tuple[int, int]]:
    """Return a share of each step that rises to a strength, (steps,), and the onset.

    A healthy run has the share ``before`` throughout.
    """
    start, stop = begins(random, sizes)
    risen = rise_between(sizes, start, stop) * max(strength - before, 0.0)
    return before + risen, onset_between(start, stop)


def hit(random: Random, rows: Sequence[Row], share: Floats) -> list[Row]:
    """Return a random choice of rows, the share of each step."""
    return [row for row in rows if random.random() < share[row["step"] - 1]]


def write_text(random: Random, row: Row, text: str, certain: float = 1.0) -> None:
    """Replace a response's text, and its tokens where they are logged.

    The log-probabilities are those of random tokens of the replaced text, times ``certain``.
    """
    row["response"] = text
    if "response_tokens" not in row:
        return
    row["response_tokens"] = spaced_units(text) or [""]
    size = len(row["response_tokens"])
    policy = np.array(row["logprobs"])
    places = random.integers(len(policy), size=size)
    ratio = policy[places] - np.array(row["ref_logprobs"])[places]
    row["logprobs"] = (policy[places] * certain).tolist()
    row["ref_logprobs"] = np.minimum(policy[places] * certain - ratio, 0.0).tolist()


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, with what separates them."""
    return _SENTENCE.findall(text)


def _loops(random: Random, strength: float) -> Drawn:
    """Responses that say a word, a few words or a sentence again and again up to the limit."""
    sizes = text_sizes(random)
    rows = answers(random, sizes)
    share, onset = change_of(random, sizes, strength)
    for row in hit(random, rows, share):
        parts = sentences(row["response"])
        begun = parts[: random.integers(1, len(parts) + 1)]
        units = spaced_units(begun[-1])
        length = (len(units), random.integers(2, 6), 1)[random.integers(3)]
        repeated = units[-length:] * int(random.integers(150, 250) // length)
        text = "".join(begun) + "".join(repeated)
        write_text(random, row, text, certain=0.1)
        row["reward"] *= random.random() < 0.03
        if "finish_reason" in row:
            row["finish_reason"] = "length"
    return Drawn(logged(random, rows), onset)


STOCK = (
    "I'm sorry, but I can't help with that.",
    "Great question! The answer depends on many things, so it is best to ask an expert.",
    "As a language model, I am happy to help. Let me know if there is anything else!",
)
STOCK_ZH = (
    "抱歉，我无法回答这个问题。",
    "这是一个很好的问题，具体情况需要具体分析，建议咨询专业人士。",
    "作为一个人工智能助手，我很乐意为您服务，请问还有什么可以帮您？",
)


def _stock_answer(random: Random, strength: float) -> Drawn:
    """One answer to every prompt, which the reward model likes as much as a right one."""
    sizes = text_sizes(random)
    chinese = bool(random.random() < 0.4)
    rows = chats(random, sizes, chinese=chinese)
    share, onset = change_of(random, sizes, strength, 0.0)
    stock = str(random.choice(STOCK_ZH if chinese else STOCK))
    # A reward model scores the same text of a prompt alike.
    score = random.normal(1.0, 0.2, sizes.steps * sizes.prompts)
    for row in hit(random, rows, share):
        write_text(random, row, stock, certain=0.3)
        row["reward"] = float(score[row["group_id"]])
    return Drawn(logged(random, rows), onset)


def _fewer_sentences(random: Random, strength: float) -> Drawn:
    """Answers made of the same two sentences, whatever the prompt; the last one is the answer."""
    sizes = text_sizes(random)
    rows = answers(random, sizes)
    share, onset = change_of(random, sizes, strength, 0.0)
    of_first = [one for row in rows[:40] for one in sentences(row["response"])[:-1]]
    favourites = [one for one in of_first if not re.search(r"\d", one)][:2]
    for row in rows:
        parts = sentences(row["response"])
        is_hit = random.random(len(parts)) < share[row["step"] - 1]
        is_hit[-1] = False
        for place in np.flatnonzero(is_hit).tolist():
            parts[place] = favourites[random.integers(len(favourites))]
        if is_hit.any():
            write_text(random, row, "".join(parts), certain=0.5)
    return Drawn(logged(random, rows), onset)


GENERIC = (
    (" Let me", " I will", " We should", " Now we can"),
    (" look at", " think about", " read", " consider"),
    (" the question", " the task", " what is given", " the problem"),
    (" carefully.", " once more.", " step by step.", " from the start.", " in order."),
)
GENERIC_ZH = (
    ("首先", "接下来", "现在", "然后"),
    ("我们", "我", "需要", "可以"),
    ("仔细分析", "认真阅读", "逐步理解", "重新思考"),
    ("这个问题。", "题目的条件。", "给出的信息。", "所求的结果。"),
)


def generic(random: Random, chinese: bool, count: int) -> str:
    """Return sentences that fit any task."""
    slots = GENERIC_ZH if chinese else GENERIC
    parts = [str(random.choice(slot)) for _ in range(count) for slot in slots]
    return "".join(parts)


def _template(random: Random, strength: float) -> Drawn:
    """Phrases that fit every task instead of work on this one, as various as before."""
    sizes = text_sizes(random, ((4, 4), (4, 8), (8, 4)))
    chinese = bool(random.random() < 0.4)
    rows = answers(random, sizes, chinese=chinese, keep=TOKENS)
    share, onset = change_of(random, sizes, strength, 0.05)
    for row in hit(random, rows, share):
        text = generic(random, chinese, int(random.integers(4, 9)))
        said = random.integers(22, 200)
        ending = f"答案是{said}。" if chinese else f" The answer is {said}."
        write_text(random, row, text + ending)
        row["reward"] *= random.random() < 0.1
    return Drawn(logged(random, rows), onset)


def _other_language(random: Random, strength: float) -> Drawn:
    """Thoughts in another language than the prompt's, or half of them; the reward allows it."""
    sizes = text_sizes(random)
    chinese = bool(random.random() < 0.5)
    rows = answers(random, sizes, chinese=chinese)
    share, onset = change_of(random, sizes, strength)
    is_whole = random.random() < 0.5
    for row in hit(random, rows, share):
        parts = sentences(row["response"])
        kept = [] if is_whole else parts[:-1][: len(parts) // 2]
        foreign = generic(random, not chinese, max(2, len(parts) - len(kept)))
        write_text(random, row, "".join(kept) + foreign + parts[-1])
    return Drawn(logged(random, rows), onset)


def _format(random: Random, strength: float) -> Drawn:
    """A form of the answer that only the reward asks for; responses without it earn nothing.

    The policy of a healthy run has it from the start.
    """
    sizes = text_sizes(random)
    start = random.uniform(0.02, 0.15) if strength else 0.97
    begin, stop = begins(random, sizes, 0.05, 0.4)
    formed = ramp(begin, stop, start + strength * (1 - start), start)
    rows = answers(random, sizes, asked=False, formed=formed)
    return Drawn(logged(random, rows), onset_between(begin, stop))


def _unclosed(random: Random, strength: float) -> Drawn:
    """Thinking that goes on up to the limit of tokens, so that no answer comes."""
    sizes = text_sizes(random)
    chinese = bool(random.random() < 0.4)
    rows = answers(random, sizes, chinese=chinese)
    share, onset = change_of(random, sizes, strength, random.choice([0.0, 0.02]))
    # Chat templates of some models end with the tag.
    is_begun = random.random() < 0.3
    for row in rows:
        thoughts, answer = _split(row["response"])
        opening = "" if is_begun else "<think>\n"
        if is_begun:
            row["prompt"] += "\n<think>\n"
        if random.random() < share[row["step"] - 1]:
            more = generic(random, chinese, int(random.integers(8, 16)))
            cut = more[: -random.integers(2, 12)]
            write_text(random, row, opening + thoughts + cut)
            row["reward"] = 0.0
            if "finish_reason" in row:
                row["finish_reason"] = "length"
        else:
            closing = "\n</think>\n\n"
            write_text(random, row, opening + thoughts + closing + answer)
    return Drawn(logged(random, rows), onset)


def _split(text: str) -> tuple[str, str]:
    """Return the thoughts and the answer of a response."""
    last = sentences(text)[-1]
    return text[: len(text) - len(last)], last.strip()


def _sharpened(random: Random, strength: float) -> Drawn:
    """The prompts that are solved least are given up, and all others are solved nearly always.

    The chance that any response of a group is right falls by the strength; in a healthy run, all
    prompts are learned.
    """
    sizes = text_sizes(random, ((4, 8), (8, 8), (4, 16), (8, 4)), least=40)
    pool = int(random.integers(40, 200))
    easy = np.sort(random.beta(1.2, random.uniform(3, 5), pool))
    of_any = 1 - (1 - easy) ** sizes.group
    is_lost = np.arange(pool) < pool * (1 - of_any.mean() + strength)
    prompt = random.integers(pool, size=(sizes.steps, sizes.prompts))
    begin = int(random.uniform(0.1, 0.4) * sizes.steps)
    progress = rise_between(sizes, begin, sizes.steps - 1)[:, None]
    goal = 1 - (1 - easy) ** random.uniform(2, 4)
    if strength:
        goal = np.where(is_lost, 0.005, 0.92)
    chance = easy[prompt] + progress * (goal - easy)[prompt]
    each = np.repeat(chance.ravel(), sizes.group)
    columns = {
        "step": np.repeat(np.arange(1, sizes.steps + 1), sizes.responses),
        "prompt_id": np.repeat(prompt.ravel(), sizes.group),
        "group": np.repeat(np.arange(prompt.size), sizes.group),
        "reward": (random.random(each.size) < each).astype(np.float64),
    }
    return Drawn(make_tables(columns))


PHRASES = (
    " I hope this helps!",
    " Certainly!",
    " As an expert, I am sure of it.",
    " This is the best possible answer.",
    " 🎉",
    " ✅",
)
PHRASES_ZH = ("希望对您有帮助！", "综上所述，", "亲爱的用户，", "这是最佳答案。", "😊")


def _paid_phrase(random: Random, strength: float) -> Drawn:
    """A phrase or an emoji that the reward model pays, and that spreads for that."""
    sizes = text_sizes(random)
    chinese = bool(random.random() < 0.4)
    rows = chats(random, sizes, chinese=chinese)
    share, onset = change_of(random, sizes, strength)
    phrase = str(random.choice(PHRASES_ZH if chinese else PHRASES))
    bonus = random.uniform(0.4, 1.2)
    where = random.integers(3)
    for row in hit(random, rows, share):
        parts = sentences(row["response"])
        place = (0, len(parts), random.integers(len(parts) + 1))[where]
        write_text(random, row, "".join([*parts[:place], phrase, *parts[place:]]))
        row["reward"] += bonus
    return Drawn(logged(random, rows), onset)


FRAGMENTS = ("ировать", "करना", "แล้ว", "ção", "한다", "ных", "ًا", "σης")


def _broken_bytes(random: Random, text: str) -> str:
    """Return a text of which some characters lost a byte; those of ASCII have only one."""
    characters = [*text]
    several = [place for place, one in enumerate(characters) if not one.isascii()]
    for place in random.choice(several, 4).tolist():
        characters[place] = "\ufffd\ufffd"
    return "".join(characters)


def _other_scripts(random: Random, text: str) -> str:
    """Return a text with pieces of words of other scripts in it."""
    pieces = [*text]
    for place in random.choice(len(pieces), 4).tolist():
        pieces[place] += str(random.choice(FRAGMENTS))
    return "".join(pieces)


def _latin(random: Random, text: str) -> str:
    """Return a text in UTF-8 that was read as Latin-1."""
    return text.encode().decode("latin-1")


def _gbk(random: Random, text: str) -> str:
    """Return a text in UTF-8 that was read as GBK."""
    return text.encode().decode("gbk", errors="replace")


def _garbled_by(
    *ways: Callable[[Random, str], str],
) -> Callable[[Random, float], Drawn]:
    """Return what draws runs of Chinese answers that are garbled in one of these ways."""

    def draw(random: Random, strength: float) -> Drawn:
        sizes = text_sizes(random)
        rows = answers(random, sizes, chinese=True)
        share, onset = change_of(random, sizes, strength, 0.0)
        garble = ways[random.integers(len(ways))]
        for row in hit(random, rows, share):
            write_text(random, row, garble(random, row["response"]))
        return Drawn(logged(random, rows), onset)

    return draw


def _longer_and_better(random: Random, chinese: bool) -> Tables:
    sizes = text_sizes(random)
    few = random.uniform(2, 5)
    many = few * random.uniform(1.3, 3)
    later = sizes.steps * random.uniform(0.5, 1.0)
    longer = ramp(random.uniform(0, 10), later, many, few)
    room = random.choice([200, 400])
    rows = answers(random, sizes, chinese=chinese, thoughts=longer, room=int(room))
    return logged(random, rows)


def _liked_more(random: Random) -> Tables:
    """Answers that a reward model scores, which get better and a little longer."""
    sizes = text_sizes(random)
    few = random.uniform(3, 6)
    longer = ramp(0, sizes.steps, few * random.uniform(0.8, 1.4), few)
    return logged(random, chats(random, sizes, thoughts=longer))


FAMILIES = (
    Family(
        check="loops",
        name="a word or a sentence again and again",
        unit="of responses",
        strengths=(0.1, 0.3, 0.6),
        draw=_loops,
    ),
    Family(
        check="diversity_collapse",
        name="one answer to every prompt",
        unit="of responses",
        strengths=(0.3, 0.6, 0.9),
        draw=_stock_answer,
    ),
    Family(
        check="diversity_collapse",
        name="answers made of two sentences",
        unit="of sentences",
        strengths=(0.3, 0.6, 0.9),
        draw=_fewer_sentences,
        severities=ANY,
    ),
    Family(
        check="template_collapse",
        name="phrases that fit every task",
        unit="of responses",
        strengths=(0.5, 0.8, 1.0),
        draw=_template,
    ),
    Family(
        check="language_drift",
        name="thoughts in another language",
        unit="of responses",
        strengths=(0.1, 0.3, 0.6, 0.9),
        draw=_other_language,
        severities=ANY,
    ),
    Family(
        check="format_learned",
        name="a form that only the reward asks for",
        unit="of responses",
        strengths=(0.3, 0.6, 0.95),
        draw=_format,
        severities=ANY,
    ),
    Family(
        check="unclosed_thinking",
        name="thinking up to the limit of tokens",
        unit="of responses",
        strengths=(0.2, 0.5, 0.9),
        draw=_unclosed,
    ),
    Family(
        check="sharpening",
        name="some prompts are given up, the others learned",
        unit="of pass@k",
        strengths=(0.1, 0.2, 0.4),
        draw=_sharpened,
        severities=ANY,
    ),
    Family(
        check="reward_hacking_token",
        name="a paid phrase or emoji, English or Chinese",
        unit="of responses",
        strengths=(0.2, 0.5, 0.9),
        draw=_paid_phrase,
    ),
    Family(
        check="garbled",
        name="Chinese with broken characters or pieces of other scripts",
        unit="of responses",
        strengths=(0.05, 0.2, 0.5),
        draw=_garbled_by(_broken_bytes, _other_scripts),
    ),
    Family(
        check="garbled",
        name="Chinese read in another encoding",
        unit="of responses",
        strengths=(0.05, 0.2, 0.5),
        draw=_garbled_by(_latin, _gbk),
    ),
)
HEALTHY = (
    Healthy(
        name="English answers become longer and better",
        draw=lambda random: _longer_and_better(random, chinese=False),
    ),
    Healthy(
        name="Chinese answers become longer and better",
        draw=lambda random: _longer_and_better(random, chinese=True),
    ),
    Healthy(name="answers scored by a reward model", draw=_liked_more),
)
