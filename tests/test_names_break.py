"""Where names may be broken over lines."""

import pytest

from rlreport.pages.template_files import breakable


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("is_completed", ["is_", "completed"]),
        ("actor.lr", ["actor.", "lr"]),
        ("1.0", ["1.0"]),
        ("v1.2.3", ["v1.2.3"]),
        ("temperature_0.7", ["temperature_", "0.7"]),
        ("<b>/5", ["&lt;b&gt;/", "5"]),
    ],
)
def test_names_are_broken_after_their_marks_but_not_in_numbers(name, lines):
    assert str(breakable(name)).split("<wbr>") == lines


@pytest.mark.parametrize("number", ["5e-06", "1.5E-7"])
def test_a_hyphen_in_a_number_is_not_the_end_of_a_line(number):
    whole = f'<span class="whole-number">{number}</span>'
    assert str(breakable(f"lr_{number}/x")) == f"lr_<wbr>{whole}/<wbr>x"
    assert "whole-number" not in breakable("run-06 of e-06")
