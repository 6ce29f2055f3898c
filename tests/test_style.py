"""Text can be read on the colours of the style sheet."""

import re

import pytest

from rlreport.draw.theme import sentinels, tokens
from rlreport.pages.templates import assets
from rlreport.text.language import ENGLISH

SHEET = assets(ENGLISH).style
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", SHEET
    )
}


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("ground", ["page", "panel"])
def test_every_tone_can_be_read_on_page_and_panel(theme: int, ground: str) -> None:
    tones = ("text", "muted", "policy", "reference", "critical", "warning", "info", "healthy")
    for tone in tones:
        assert contrast(COLOURS[tone][theme], COLOURS[ground][theme]) >= 4.5, tone


@pytest.mark.parametrize("theme", [0, 1])
def test_tokens_can_be_read_on_every_bin(theme: int) -> None:
    bins = [f"div-{k}" for k in range(1, 12)] + [f"seq-{k}" for k in range(1, 10)]
    for name in bins:
        rule = re.search(rf"\.{name}\b[^{{}}]*\{{ color: ([^;]+); \}}", SHEET)
        assert rule, name
        inks = re.findall(r"#(?:fff|000)", rule[1])
        ink = "#ffffff" if inks[theme % len(inks)] == "#fff" else "#000000"
        assert contrast(ink, COLOURS[name][theme]) >= 4.5, name


def test_no_two_colours_of_charts_are_the_same_in_the_light() -> None:
    assert len(sentinels()) == len(tokens("light"))
