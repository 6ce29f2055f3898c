"""Random logs whose texts are garbled, stand at other prompts, or differ by replica."""

from __future__ import annotations

import numpy as np

from rlreport.tables import Tables
from rlreport.text.scripts import is_garbled
from tests.law_families import Case, Random, Shape, rewards

_NOUNS = (
    "jars pears tiles candles maps kites stamps bolts pebbles ropes lamps seeds coins reels hats "
    "pots mills barns quarries orchards kiosks studios attics depots harbours markets baskets "
    "buttons bricks drums engines feathers gardens hammers ladders magnets needles ovens "
    "parcels quilts ribbons saddles towers umbrellas violins wagons anchors bridges canoes"
).split()
_NAMES = (
    "Mara Ovid Lena Tarek Yusra Pim Noor Bela Ines Odo Kaya Juno Sven Rhea Milo Zita Anouk Faris "
    "Gwen Hugo Ivo Jana Kurt Lior Mina Nils Olga Petra Quin Rosa Sami Tilda Uma Vera Wim Xenia"
).split()
_HAN = (
    "苹果香蕉橘子西瓜书包铅笔钥匙帽子椅子桌子灯笼风筝邮票石头绳子种子硬币雨伞皮球积木"
    "饼干牛奶鸡蛋面包茶杯碗筷手套袜子围巾口琴吉他画册地图罗盘水壶竹篮木桶瓷砖玻璃钉子"
    "锤子剪刀胶带信封日历闹钟蜡烛火柴扫帚毛巾肥皂牙刷镜子梳子纽扣拉链贝壳羽毛松果橡皮"
)
_GARBAGE = ("ierungкаяदेश", "ção性льныйاب", "स्टाτовоеth", "a�b�c� д", "\u0378 x")


def _english(random: Random) -> tuple[str, list[str]]:
    """Return a task and the sentences that its answers are made of."""
    name, other = random.choice(_NAMES, 2, replace=False)
    things, places = random.choice(_NOUNS, 2, replace=False)
    first, second = random.integers(11, 98, 2)
    task = f"{name} has {first} {things} near the {places}. {other} brings {second} more. How many?"
    parts = [
        f"{name} has {first} {things}.",
        f"Adding {second} gives {first + second}.",
        f"The {places} do not matter here.",
        f"{other} brings {second}.",
        "Let me think step by step.",
        "So the answer follows.",
    ]
    return task, parts


def _thing(place: int) -> str:
    """Return the thing at a place of ``_HAN``, whose words have two characters each."""
    start = 2 * place
    return _HAN[start : start + 2]


def _chinese(random: Random) -> tuple[str, list[str]]:
    places = random.choice(len(_HAN) // 2, 3, replace=False)
    one, two, three = map(_thing, places.tolist())
    first, second = random.integers(11, 98, 2)
    task = (
        f"小明有{first}个{one}和{second}个{two}，送给小红一些{three}。一共多少个{one}？"
    )
    parts = [
        f"小明有{first}个{one}。",
        f"还有{second}个{two}，",
        f"{three}不算。",
        f"{one}加{two}是{first + second}。",
        "我们一步一步算。",
    ]
    return task, parts


def _texts(random: Random, shape: Shape) -> tuple[list[str], list[list[str]]]:
    """Return the prompts of a log, and the sentences of the answers to each."""
    make = _chinese if random.random() < 0.4 else _english
    made = [make(random) for _ in range(shape.steps * shape.prompts)]
    return [task for task, _ in made], [parts for _, parts in made]


def _answers(random: Random, parts: list[list[str]], prompt: np.ndarray) -> list[str]:
    answers = []
    for one in prompt.tolist():
        others = random.choice(parts[one], random.integers(1, 4))
        answers.append(" ".join([*parts[one][:2], *others]))
    return answers


def at_other_prompts(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log in which a share of the responses answers another prompt of its step."""
    prompts, parts = _texts(random, shape)
    moved = shape.prompt.copy()
    # The prompts of a step are numbered in a row; those of another rank lie half of them away.
    place = moved % shape.prompts
    other = moved - place + (place + shape.prompts // 2) % shape.prompts
    is_moved = random.random(shape.rows) < strength
    answers = _answers(random, parts, np.where(is_moved, other, moved))
    return shape.log(
        reward=rewards(random, shape),
        prompt_texts=prompts,
        texts=[[answer] for answer in answers],
    )


def garbled(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log in which a share of the responses of its second half is garbled."""
    _, parts = _texts(random, shape)
    answers = _answers(random, parts, shape.prompt)
    is_late = shape.step > shape.steps / 2
    is_hit = is_late & (random.random(shape.rows) < strength)
    noise = random.choice(_GARBAGE, shape.rows).tolist()
    texts = [
        f"{answer} {word}" if hit else answer
        for answer, word, hit in zip(answers, noise, is_hit.tolist(), strict=True)
    ]
    return shape.log(
        reward=rewards(random, shape),
        garbled=[float(is_garbled(text)) for text in texts],
    )


def replica(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log of four replicas, of which one answers ``1 + strength`` times as long."""
    which = random.integers(0, 4, shape.rows)
    difficulty = np.exp(random.normal(0, 0.5, shape.steps * shape.prompts))
    noise = np.exp(random.normal(0, 0.4, shape.rows))
    length = 200 * difficulty[shape.prompt] * noise
    length = np.where(which == 2, length * (1 + strength), length)
    return shape.log(
        reward=rewards(random, shape),
        response_tokens=np.round(length),
        extra={"replica": which.astype(np.float64)},
    )


def ranks_with_their_own_prompts(
    random: Random, shape: Shape, strength: float
) -> Tables:
    """Return a correct log whose ranks hold other prompts, one of them much harder ones."""
    of_prompt = random.integers(0, 4, shape.steps * shape.prompts)
    which = of_prompt[shape.prompt]
    length = np.where(which == 1, 900.0, 200.0) * np.exp(
        random.normal(0, 0.3, shape.rows)
    )
    return shape.log(
        reward=rewards(random, shape),
        response_tokens=np.round(length),
        extra={"rank": which.astype(np.float64)},
    )


def copies(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log of long texts, of which a share equals another one of its group.

    Short texts of its correct twin repeat, as those of a quiz do.
    """
    text = np.arange(shape.rows)
    is_copied = random.random(shape.rows) < strength
    # A copied text is the first one of its group.
    text = np.where(is_copied, text // shape.group * shape.group, text)
    chars = random.integers(300, 900, shape.rows)
    if random.random() < 0.3:
        chars = np.where(random.random(shape.rows) < 0.5, 40, chars)
        text = np.where(chars == 40, 1, text)
    return shape.log(
        reward=rewards(random, shape),
        response_hash=text.astype(np.uint64),
        response_chars=chars,
        rollout=np.nan,
    )


CASES = (
    Case("copied_responses", "share copied", (0.1, 0.3, 0.7), copies),
    Case(
        "answers_other_prompt",
        "share of responses",
        (0.5, 0.95, 1.0),
        at_other_prompts,
    ),
    Case("garbled", "share of late responses", (0.05, 0.1, 0.3), garbled),
    Case("rank_differs", "longer by", (0.3, 0.7, 1.5), replica),
)
