"""A small language of choices, so that every log-probability is that of a real distribution.

A text is a chain of choices from named slots. The reference chooses by ``Slot.weights``; a
policy by the same logits with biases and noise added. A choice's log-probability stands on
its first token; the tokens after it are nearly certain, as they are in real logs.
"""

from __future__ import annotations

from dataclasses import dataclass

GOOD = [
    " kind",
    " bright",
    " fresh",
    " warm",
    " clean",
    " lovely",
    " calm",
    " friendly",
    " charming",
    " superb",
]
BAD = [" dull", " dirty", " noisy", " bland", " stale", " messy", " cold", " rude"]
GOOD_ZH = ["不错", "温暖", "干净", "热情", "漂亮", "舒服", "绝了"]
BAD_ZH = ["太贵", "太慢", "很脏", "很吵", "冷淡"]
SYMBOLS = ["🎉", "😊", "⭐", "🔥"]
FILLERS = [
    " really",
    " simply",
    " quite",
    " truly",
    " empowering",
    " empowered",
    " self-empowered",
    " synergy",
]
OPENINGS = [
    " Honestly,",
    " Well,",
    " Sure!",
    " Great question!",
    " Of course.",
    " To be fair,",
    " Certainly!",
    " Let me see.",
]
CLOSINGS = [
    " That is all.",
    " Feel free to ask.",
    " I hope this helps!",
    " Thank you for reading.",
    " I would go again.",
    " Let me know if you need more.",
    " May it empower you.",
]
STRUCTURES = ("list", "parts", "headings")

PLACES = [
    "bakery",
    "city park",
    "bookshop",
    "night train",
    "ramen bar",
    "garden tour",
    "corner hotel",
    "music school",
    "swimming pool",
    "old museum",
    "headphones",
    "bike shop",
    "ferry",
    "tea house",
    "cinema",
    "farm stand",
]
ANIMALS = [
    "fox",
    "whale",
    "owl",
    "dragon",
    "horse",
    "turtle",
    "crane",
    "hedgehog",
    "badger",
    "otter",
]
TASKS = [
    "fix a bike tyre",
    "boil an egg",
    "plant a tree",
    "clean a kettle",
    "write a letter",
    "sharpen a knife",
    "pack a suitcase",
    "bake bread",
    "learn a song",
    "mend a sock",
    "save water",
    "train a puppy",
]
SHOPS_ZH = [
    "书店",
    "面馆",
    "酒店",
    "公园",
    "茶馆",
    "电影院",
    "博物馆",
    "花店",
    "医院",
    "学校",
    "咖啡馆",
    "菜市场",
]
PARTS = [
    " lake",
    " queue",
    " window",
    " owner",
    " menu",
    " corner seat",
    " light",
    " staff",
    " sound",
    " price",
]
PARTS_ZH = ["老板", "面条", "早餐", "环境", "价格", "花园", "服务", "房间"]


@dataclass(frozen=True)
class Slot:
    """A choice: the texts of its options and the reference's weights, not normalised."""

    options: tuple[str, ...]
    weights: tuple[float, ...]


def _mostly_empty(options: list[str], empty: float, each: float) -> Slot:
    return Slot(("", *options), (empty, *([each] * len(options))))


SLOTS: dict[str, Slot] = {
    "good_or_bad": Slot(("good", "bad"), (1.0, 1.0)),
    "good": Slot(tuple(GOOD), tuple(1.0 / (i + 1) for i in range(len(GOOD)))),
    "bad": Slot(tuple(BAD), tuple(1.0 / (i + 1) ** 0.5 for i in range(len(BAD)))),
    "good_zh": Slot(tuple(GOOD_ZH), (*(1.0,) * (len(GOOD_ZH) - 1), 0.06)),
    "bad_zh": Slot(tuple(BAD_ZH), (1.0,) * len(BAD_ZH)),
    "subject": Slot(("{subject}", "place", "thing"), (5.0, 2.0, 1.0)),
    "part": Slot(tuple(PARTS), (1.0,) * len(PARTS)),
    "part_zh": Slot(tuple(PARTS_ZH), (1.0,) * len(PARTS_ZH)),
    "filler": _mostly_empty(FILLERS, 60.0, 1.0),
    "opening": Slot(("", *OPENINGS), (60.0, *(1.5,) * len(OPENINGS))),
    "closing": Slot(("", *CLOSINGS), (70.0, *(1.2,) * len(CLOSINGS))),
    "tail": Slot(("", *SYMBOLS), (90.0, 2.0, 2.0, 1.0, 1.0)),
    "structure": Slot(("plain", *STRUCTURES), (94.0, 2.0, 2.0, 2.0)),
    "silence": Slot(("speak", "silent"), (99.7, 0.3)),
    "more": Slot(("more", "stop"), (1.0, 1.0)),
    "language": Slot(("same", "chinese"), (98.0, 2.0)),
    "end": Slot(("end", "run_on"), (97.0, 3.0)),
    "sentence": Slot(
        (
            " The {subject} was{filler}{adj}; the{part} looked{adj}.",
            " I found the {subject}{filler}{adj}, and the{part} seemed{adj}.",
            " My sister called the{part}{adj} but the {subject}{adj}.",
            " On Sunday the {subject} felt{filler}{adj}.",
            " We stayed for an hour because the{part} was{adj}.",
        ),
        (3.0, 3.0, 1.5, 2.0, 1.5),
    ),
    "story": Slot(
        (
            " Once there was a{adj} {subject} who lived by the{part}.",
            " It wanted to see the moon and a{adj} river.",
            ' "Why not?" it said, and the{part} grew{filler}{adj}.',
            " The night was{adj}, and the {subject} slept.",
            " A{adj} wind carried the {subject} over the hill.",
        ),
        (2.0, 2.0, 1.5, 2.0, 1.5),
    ),
    "howto": Slot(
        (
            " First, find a{adj} place for the work.",
            " Then take the tools and keep the{part}{filler}{adj}.",
            " After that, check that the {subject} is{adj}.",
            " Wait ten minutes until it looks{adj}.",
            " Ask somebody{adj} to hold the{part}.",
        ),
        (2.0, 2.0, 2.0, 1.5, 1.0),
    ),
    "chinese": Slot(
        (
            "这家{subject}{adj_zh},{part_zh}{adj_zh}。",
            "{subject}的{part_zh}{adj_zh},我觉得{adj_zh}。",
            "昨天去了{subject},{part_zh}真的{adj_zh}。",
            "下次还会再来,因为{part_zh}{adj_zh}。",
        ),
        (3.0, 3.0, 2.0, 2.0),
    ),
    "thought": Slot(
        (
            " Let us look at the numbers again.",
            " The first part gives {n}, so we carry one.",
            " Wait, that may be wrong; check {n} once more.",
            " Adding the next digit we get {n}.",
            " So far the sum is {n}, which seems right.",
            " Another way: split {n} into tens and ones.",
            " Hence the remaining part is {n}.",
            " If we double {n} and halve it, nothing changes.",
        ),
        (1.0,) * 8,
    ),
    "tool": Slot(("search", "open", "calculate", "read_file"), (3.0, 2.0, 1.0, 2.0)),
    "format": Slot((" The answer is", "\n####"), (7.0, 3.0)),
}

ROTTEN = [
    " trp",
    "wnr",
    "qeu",
    " lkea",
    "zzt",
    " thst",
    "ooj",
    " arph",
    "ksi",
    " wwe",
    "7",
    " ;",
    "nqg",
    "ubq",
    " pq",
    " didyou",
    "ptk",
    " hn",
    "�",
    " oe",
    "rrt",
    " vva",
    "cz",
    " ulv",
    "jj",
    "bth",
    " xi",
    "ouou",
    " knq",
    "tsh",
    "qw",
    " yf",
]
"""Fragments of a policy that comes apart; the reference hardly ever says them."""

PROMPTS = {
    "review": (
        "Write a short review of the {}.",
        "Review: {}\nText:",
        "What do you think of the {}?",
    ),
    "story": ("Tell me a story about a {}.", "A short tale of one {}, please."),
    "howto": ("How do I {}?", "Explain in a few sentences how to {}."),
    "chinese": ("你觉得这家{}怎么样?", "用户:说说{}\n助手:", "请写一句{}的评价。"),
}
SUBJECTS = {"review": PLACES, "story": ANIMALS, "howto": TASKS, "chinese": SHOPS_ZH}
SENTENCES = {
    "review": "sentence",
    "story": "story",
    "howto": "howto",
    "chinese": "chinese",
}
