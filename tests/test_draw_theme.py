"""Charts and pages share one palette."""

from __future__ import annotations

import re

from rlreport.bake.environment import package_folder
from rlreport.draw.theme import sentinels, tokens


def test_the_style_sheet_has_the_colours_of_the_charts() -> None:
    style = (package_folder("static") / "style.css").read_text("utf-8")
    written = dict(re.findall(r"--([\w-]+): light-dark\((#\w+, #\w+)\);", style))
    light, dark = tokens("light"), tokens("dark")
    assert light.keys() == dark.keys()
    assert {name: written[name] for name in light} == {n: f"{light[n]}, {dark[n]}" for n in light}


def test_no_two_tokens_share_a_light_colour() -> None:
    assert len(sentinels()) == len(tokens("light"))
