"""Made-up film strips of hostile texts, the same for Python and the browser."""

import random

from rlreport.draw.film_strip import FilmCurveData, FilmRuleData, FilmStripData
from rlreport.draw.film_text import FilmRowData, excerpt

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "\u202eright to left\u202c مرحبا بالعالم",
    "\x00NUL \x1b[0m \ud800",
    "春风又绿江南岸，明月何时照我还。",
    "🎉👩\u200d👩\u200d👧\u200d👦 emoji 👍🏽 🇩🇪 👩\u200d\ufe0f👩",
    "e\u0301\u0301\u0301\u0301\u0301\u0301x",
    "\u0301\u0301\u0301\u0301\u0301\u0301mark first",
    "\r\n\r\nline\t\ttab  two \u2028 \u2029 \u00a0",
    "var(--page) <b>&amp; \"quoted\" 'x'",
    "नमस्ते दुनिया",
    "a" * 1000,
    "���",
    "word " * 200,
    "",
    "\u200b\u200d\ufeff",
    "ｆｕｌｌ 한국어 텍스트",
    "the ",
    " cat",
    "\n",
)
RULES: list[FilmRuleData] = [
    {"step": 20, "words": "keep: 20", "colour": "healthy", "dashed": True},
    {"step": 35, "words": "onset: 35", "colour": "critical", "dashed": False},
]
WIDTHS = (240, 366, 619, 620, 720, 1000)


def tokens_of(seed: int) -> tuple[list[str], list[int], int | None]:
    """Make an answer: texts and bins of its tokens, and the cited one."""
    rng = random.Random(seed)
    texts = [rng.choice(HOSTILE) for _ in range(rng.randint(0, 30))]
    bins = [rng.randint(0, 11) for _ in texts]
    return texts, bins, rng.choice([None, rng.randint(0, 40)])


def strip(seed: int) -> FilmStripData:
    rng = random.Random(seed)
    rows = [_row(rng, index) for index in range(rng.randint(1, 6))]
    return {
        "title": rng.choice(HOSTILE) * 2,
        "caption": " ".join(HOSTILE[:5]),
        "ends": rng.choice([None, ("less likely −1.20", "+1.20 more likely")]),
        "curve": _curve(rng) if rng.random() < 0.8 else None,
        "rules": RULES[: rng.randint(0, 2)],
        "rows": rows,
    }


def _row(rng: random.Random, index: int) -> FilmRowData:
    part = excerpt(*tokens_of(rng.randint(0, 10**6)))
    return {
        "name": rng.choice(HOSTILE),
        "head": f"step {7 * index}",
        "about": rng.choices(["reward 1.20", *HOSTILE], k=rng.randint(0, 2)),
        "above": rng.choice(["", "", rng.choice(HOSTILE)]),
        "pieces": part.pieces,
        "bins": part.bins,
        "cited": part.cited,
        "step": 7 * index,
        "reward": rng.choice([None, 3 * rng.random()]),
        "href": rng.choice([None, "steps/1.html#r=2&token=3"]),
    }


def _curve(rng: random.Random) -> FilmCurveData:
    steps = range(0, 60, rng.randint(1, 20))
    means = [(step, rng.gauss(0, 3)) for step in steps]
    dots = [(step, value + 1) for step, value in means]
    return {
        "low": 0.0,
        "high": rng.choice([0.0, 59.0]),
        "means": means,
        "dots": rng.choice([[], dots]),
        "reach": rng.choice([1.0, 12.0]),
        "words": "Reward",
    }
