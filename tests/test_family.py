"""The table of a family of runs: settings that differ, and what came of them."""

import math

import pytest

from rlreport.pages.family import FamilyRow, Levels, differing_settings, family_table


def made(name, settings, *, levels=("healthy",), reward=0.5, **facts):
    return FamilyRow(
        name, levels, settings, reward=Levels((reward + 0.1,), (reward,)), **facts
    )


def shown(rows):
    view = family_table(rows)
    assert view is not None
    return view


def columns_of(view):
    return {column.key: column for column in view.columns}


def texts_of(view, key):
    place = list(columns_of(view)).index(key)
    return [row.cells[place].text for row in view.rows]


def test_a_family_is_of_two_rows_that_differ_in_a_setting_of_the_training():
    assert family_table([made("a", {"lr": 1})]) is None
    assert family_table([made("a", {"lr": 1}), made("b", {"lr": 1})]) is None
    paths = [made(name, {"output_dir": name, "lr": 1}) for name in "ab"]
    assert family_table(paths) is None
    assert family_table(paths, alone=False) is not None
    view = shown([made("a", {"optim.lr": 1}), made("b", {"optim.lr": 2})])
    assert [column.key for column in view.columns] == [
        "run",
        "card:optim.lr",
        "verdict",
        "reward_best",
        "reward_last",
    ]
    assert columns_of(view)["card:optim.lr"].label == "lr"


def test_a_setting_that_is_missing_differs_unless_it_is_off_in_the_others():
    assert differing_settings([{"a": 1, "lora": False}, {"a": 1}]) == []
    assert differing_settings([{"a": 1, "rank": 8}, {"a": 1}]) == ["rank"]
    # Nothing is known of a run without a configuration.
    assert differing_settings([{"a": 1}, {"a": 1}, {}]) == []


def test_settings_that_affect_training_come_first_and_paths_last():
    cards = [
        {"out_dir": name, "colour": name, "optim.lr": name, "same": 1} for name in "ab"
    ]
    assert differing_settings(cards) == ["optim.lr", "colour", "out_dir"]


def test_eight_settings_are_visible_and_long_names_that_end_alike_are_whole():
    cards = [{f"k{i:02}": value for i in range(50)} for value in (1, 2)]
    for card in cards:
        card |= {"actor.lr": card["k00"], "critic.lr": card["k00"]}
    view = shown([made("a", cards[0]), made("b", cards[1])])
    settings = [c for c in view.columns if c.key.startswith("card:")]
    assert len(settings) == 40
    assert [c.key for c in settings if not c.hidden] == [c.key for c in settings[:8]]
    assert [c.label for c in settings[:2]] == ["actor.lr", "critic.lr"]
    assert view.note == "40 of 52 settings that differ have a column."


def test_numbers_are_sorted_as_numbers_also_as_texts_and_written_as_they_are():
    rows = [made("a", {"lr": "1e-6"}), made("b", {"lr": 32}), made("c", {"lr": "10"})]
    view = shown(rows)
    assert columns_of(view)["card:lr"].kind == "number"
    assert texts_of(view, "card:lr") == ["1e-6", "32", "10"]
    assert [row.cells[1].value for row in view.rows] == [1e-6, 32.0, 10.0]
    for other in (True, "auto", "nan", "1_0", None):
        view = shown([made("a", {"lr": 1}), made("b", {"lr": other})])
        assert columns_of(view)["card:lr"].kind == "name"


def test_a_row_of_several_runs_has_their_mean_range_verdicts_and_first_harm():
    several = FamilyRow(
        "low",
        ["healthy", "critical", "healthy"],
        {"lr": 1},
        reward=Levels((0.5, 0.7, 0.9), (0.1, 0.2, 0.6)),
        harm=(math.nan, 40.0, math.nan),
    )
    view = shown([several, made("high", {"lr": 2})])
    assert texts_of(view, "runs") == ["3", "1"]
    assert texts_of(view, "reward_last") == ["0.30 (0.10 to 0.60)", "0.500"]
    assert texts_of(view, "harm") == ["40 (1 of 3 runs)", "–"]
    verdict = view.rows[0].cells[list(columns_of(view)).index("verdict")]
    assert [tag.level for tag in verdict.tags] == ["critical", "healthy"]
    assert verdict.text.replace("\u00a0", " ") == "1 Broken, 2 Healthy"
    assert verdict.value == 0  # sorted by the worst


@pytest.mark.parametrize(
    ("validated", "keys"),
    [
        (0, ["reward_best", "reward_last"]),
        (1, ["reward_best", "reward_last"]),
        (2, ["validation_best", "validation", "reward_best", "reward_last"]),
        (3, ["validation_best", "validation"]),
    ],
)
def test_validation_stands_for_the_reward_where_all_rows_have_it(validated, keys):
    rows = []
    for number in range(3):
        score = Levels((0.6,), (0.4,)) if number < validated else Levels()
        rows.append(made("abc"[number], {"lr": number}, validation=score))
    found = [
        key for key in columns_of(shown(rows)) if "_" in key or key == "validation"
    ]
    assert found == keys


def test_paths_are_hidden_even_where_few_settings_differ():
    rows = [made(name, {"lr": name, "output_dir": name}) for name in "ab"]
    columns = columns_of(shown(rows))
    assert columns["card:output_dir"].hidden
    assert not columns["card:lr"].hidden
