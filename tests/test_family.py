"""The table of a family of runs: settings that differ, and what came of them."""

import math

import pytest

from rlreport.pages.family import FamilyRow, Levels, differing_settings, family_table


def made(name, settings, *, levels=("healthy",), reward=0.5, **facts):
    return FamilyRow(
        name, levels, settings, reward=Levels((reward + 0.1,), (reward,)), **facts
    )


def family(*settings, **facts):
    """Rows of these settings, called a, b and c."""
    names = "abc"[: len(settings)]
    pairs = zip(names, settings, strict=True)
    return [made(name, one, **facts) for name, one in pairs]


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
    assert family_table(family({"lr": 1}, {"lr": 1})) is None
    paths = [made(name, {"output_dir": name, "lr": 1}) for name in "ab"]
    assert family_table(paths) is None
    assert family_table(paths, alone=False) is not None
    view = shown(family({"optim.lr": 1}, {"optim.lr": 2}))
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


def test_what_one_run_alone_sets_is_folded_behind_what_differs_between_runs():
    alone = {f"optim.k{i:02}": i for i in range(30)}
    cards = [{"seed_of_data": 1, **alone}, {"seed_of_data": 2}, {"seed_of_data": 3}]
    assert differing_settings(cards)[0] == "seed_of_data"
    view = shown(family(*cards))
    settings = [c for c in view.columns if c.key.startswith("card:")]
    assert [c.key for c in settings if not c.hidden] == ["card:seed_of_data"]
    assert len(settings) == 31
    assert view.note == (
        "30 settings that only some runs have are hidden; they can be selected."
    )
    # Where nothing else tells the runs apart, it is shown.
    only = shown(family({"a": 1, "optim.lora": 8}, {"a": 1}))
    assert not columns_of(only)["card:optim.lora"].hidden


def test_eight_settings_are_visible_and_long_names_that_end_alike_are_whole():
    cards = []
    for value in (1, 2):
        card = {f"k{i:02}": value for i in range(50)}
        cards.append({**card, "actor.lr": value, "critic.lr": value})
    view = shown(family(*cards))
    settings = [c for c in view.columns if c.key.startswith("card:")]
    assert len(settings) == 40
    visible = [c for c in settings if not c.hidden]
    assert [c.key for c in visible] == [c.key for c in settings[:8]]
    assert [c.label for c in settings[:2]] == ["actor.lr", "critic.lr"]
    assert view.note == "40 of 52 settings that differ have a column."


def test_numbers_are_sorted_as_numbers_also_as_texts_and_written_as_they_are():
    view = shown(family({"lr": "1e-6"}, {"lr": 32}, {"lr": "10"}))
    assert columns_of(view)["card:lr"].kind == "number"
    assert texts_of(view, "card:lr") == ["1e-6", "32", "10"]
    assert [row.cells[1].value for row in view.rows] == [1e-6, 32.0, 10.0]
    for other in (True, "auto", "nan", "1_0", None):
        view = shown(family({"lr": 1}, {"lr": other}))
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


def ranked(*levels):
    """Return the badges of rows with these last levels and errors, the best first."""
    rows = [
        FamilyRow(
            str(number),
            ["healthy"] * len(last),
            {"lr": number},
            reward=Levels(last=last, last_errors=errors),
        )
        for number, (last, errors) in enumerate(levels)
    ]
    view = family_table(rows, ranked=True)
    assert view is not None
    return [row.badges for row in view.rows]


def test_what_noise_may_set_apart_from_the_best_is_marked():
    near = ["within noise of the best"]
    # Twice the error of the difference, 0.05 · √2, is 0.141.
    levels = [((level,), (0.05,)) for level in (0.9, 0.76, 0.75)]
    assert ranked(*levels) == [["best"], near, []]
    assert ranked(levels[0], levels[2]) == [[], []]
    # What is not known is no reason to call two alike.
    for errors in ((math.nan,), ()):
        assert ranked(levels[0], ((0.89,), errors)) == [[], []]
    twice = ((0.9, 0.9), ())
    assert ranked(twice, twice) == [[], []]
    # Runs of one configuration tell the noise by their spread.
    several = [
        ((0.9, 0.7), ()),
        ((0.8, 0.7), ()),
        ((0.1, 0.1, 0.11), ()),
    ]
    assert ranked(*several) == [["best"], near, []]


def test_only_a_single_run_has_an_error_beside_its_level_and_percentages_have_theirs():
    score = Levels(
        best=(61.0,),
        last=(60.0,),
        best_errors=(2.0,),
        last_errors=(1.5,),
        is_percentage=True,
    )
    two = Levels(
        best=(0.7, 0.8),
        last=(0.5, 0.6),
        best_errors=(0.1, 0.1),
        last_errors=(0.1, 0.1),
    )
    exact = Levels((0.5,), (0.5,), (0.0,), (0.0,))
    rows = [
        FamilyRow("a", ["healthy"], {"lr": 1}, reward=score),
        FamilyRow("b", ["healthy"] * 2, {"lr": 2}, reward=two),
        FamilyRow("c", ["healthy"], {"lr": 3}, reward=exact),
    ]
    view = shown(rows)
    at = list(columns_of(view)).index("reward_last")
    assert [row.cells[at].note for row in view.rows] == ["± 1.5%", "", ""]
    assert texts_of(view, "reward_last") == ["60.0%", "0.55 (0.50 to 0.60)", "0.500"]


def test_steps_are_a_column_where_they_differ():
    rows = family({"lr": 1}, {"lr": 2}, steps=[40.0])
    assert "steps" not in columns_of(shown(rows))
    rows.append(made("c", {"lr": 3}, steps=[40.0, 200.0]))
    assert texts_of(shown(rows), "steps") == ["40", "40", "40 to 200"]


def test_columns_of_words_have_room_for_their_longest_part():
    values = ("a", "reinforce_with_baseline")
    rows = []
    for value in values:
        settings = {"loss": value, "n": value[:1]}
        rows.append(made(value, settings))
    assert columns_of(shown(rows))["card:loss"].width == "ch-10"
    assert columns_of(shown(rows))["card:n"].width == ""


def test_paths_are_hidden_even_where_few_settings_differ():
    rows = [made(name, {"lr": name, "output_dir": name}) for name in "ab"]
    columns = columns_of(shown(rows))
    assert columns["card:output_dir"].hidden
    assert not columns["card:lr"].hidden
