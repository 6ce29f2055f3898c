"""The index: a row a report, whatever state it is in."""

import html
import io
import json
import random
import re
import shutil
import zipfile
from itertools import product

import numpy as np
import pytest

import rlreport
from rlreport.check.course import course_of
from rlreport.check.series import Series
from rlreport.check.verdict import SCHEMA
from rlreport.draw.sparkline import sparkline
from rlreport.errors import RlreportError
from rlreport.text.numbers import exact, written
from tests.browser import visiting
from tests.reading import write


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for k, form in enumerate(("", ".zip", ".html")):
        logs = root / "logs" / f"{k}"
        rows = []
        for step, n in product(range(10), range(4)):
            texts = {"prompt": f"p{n}", "response": f"r {n}"}
            rows.append({"step": step, **texts, "reward": step + k})
        write(logs / "a.jsonl", rows)
        config = {"algo": {"lr": 10.0**-k, "same": 1}, "model": f"<b>m{k}</b>"}
        (logs / "config.json").write_text(json.dumps(config))
        out = root / f"run:{k}#<i>{form}"
        meta = {"only": "0"} if k == 0 else {}
        rlreport.build(logs, out, title=f"run <b>{k}", meta=meta, workers=1)
    shutil.rmtree(root / "logs")
    return root


def test_reports_of_every_form_have_a_row_with_their_figures_and_what_differs(runs):
    out = runs / "index.html"
    made = rlreport.index(runs, out)
    page = out.read_text()
    assert (made.reports, made.unread) == (3, [])
    for k in range(3):
        assert f"run &lt;b&gt;{k}" in page
        # Rewards without noise rise at once, so a level is a single step: the first, the last.
        levels = rf'<b>{k}<.*?title="{k}".*?title="{k + 9}"'
        assert re.search(levels, html.unescape(page), re.S)
    assert "./run%3A0%23%3Ci%3E/index.html" in page
    assert "./run%3A1%23%3Ci%3E.zip" in page
    assert 'data-key="card:algo.lr"' in page
    assert 'data-key="card:only"' in page
    assert "card:algo.same" not in page
    assert "<b>m" not in page
    first = out.read_bytes()
    rlreport.index(runs, out)
    assert out.read_bytes() == first
    main = page.split("<main")[1].split("</main")[0]
    assert "http" not in main.replace("http://www.w3.org", "")


def test_broken_reports_say_why_in_their_rows_and_other_files_have_none(runs, tmp_path):
    about = json.loads((runs / "run:0#<i>/data/report.json").read_text())
    odd = {
        "steps": [1, {"responses": "x"}],
        "card": [],
        "verdict": 3,
        "findings": {},
    }
    texts = {
        "broken": "{",
        "odd": "[]",
        "newer": json.dumps(about | {"schema": 99}),
        "before": json.dumps(about | {"schema": 1}),
        "wrong": json.dumps(about | odd),
    }
    for name, text in texts.items():
        (tmp_path / name / "data").mkdir(parents=True)
        (tmp_path / name / "data/report.json").write_text(text)
    shutil.copytree(runs / "run:0#<i>", tmp_path / "good")
    shutil.copytree(tmp_path / "good", tmp_path / "no_data")
    shutil.rmtree(tmp_path / "no_data/data")
    (tmp_path / "t.zip").write_bytes((runs / "run:1#<i>.zip").read_bytes()[:-1000])
    whole = (runs / "run:2#<i>.html").read_bytes()
    (tmp_path / "trunc.html").write_bytes(whole[:100_000])
    rlreport.index([tmp_path / "good"], tmp_path / "earlier.html")
    rlreport.compare(tmp_path / "good", tmp_path / "good", tmp_path / "comparison")
    (tmp_path / "foreign.html").write_text("<html>")
    (tmp_path / "foreign.zip").write_bytes(b"text")
    made = rlreport.index([tmp_path], tmp_path / "index.html")
    told = dict(made.unread)
    for name, why in {
        "broken": "broken",
        "odd": "not a report",
        "newer": "schema 99 instead of 5; update rlreport",
        "before": "schema 1 instead of 5; build it again",
        "no_data": "is a broken report without data/report.json",
        "t.zip": "is a broken .zip, cut off or damaged; build it again",
        "trunc.html": "is a broken report, cut off; build it again",
    }.items():
        assert why in told.pop(name)
    assert (told, made.reports) == ({}, 9)
    page = (tmp_path / "index.html").read_text()
    assert "9 reports." in page
    assert counts_of(page) == {
        "unread": "! 7 cannot be read",
        "unjudged": "– 1 Not judged",
        "healthy": "✓ 1 Healthy",
    }
    assert str(tmp_path) not in page
    message = r"t\.zip: is a broken \.zip, cut off or damaged"
    with pytest.raises(RlreportError, match=message):
        rlreport.compare(tmp_path / "t.zip", tmp_path / "good", tmp_path / "out")


def test_an_index_of_no_report_or_in_the_place_of_one_is_refused(runs, tmp_path):
    for taken in (runs / "run:0#<i>/index.html", runs / "run:2#<i>.html"):
        before = taken.read_bytes()
        with pytest.raises(RlreportError, match="report"):
            rlreport.index(runs, taken)
        assert taken.read_bytes() == before
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n', encoding="utf-8")
    (tmp_path / "empty").mkdir()
    for name in ("log.jsonl", "empty"):
        with pytest.raises(RlreportError, match=name):
            rlreport.index([tmp_path / name], tmp_path / "index.html")
    assert not (tmp_path / "index.html").exists()


def test_reports_of_one_name_are_told_apart_by_their_places(runs, tmp_path):
    def names() -> list[str]:
        page = rlreport.index(tmp_path, tmp_path / "index.html").out.read_text()
        return [row["run"] for row in rows_of(page, "runs")]

    shutil.copy(runs / "run:2#<i>.html", tmp_path / "one.html")
    assert names() == ["run &lt;b&gt;2"]
    shutil.copy(runs / "run:2#<i>.html", tmp_path / "two.html")
    assert names() == ["run &lt;b&gt;2one.html", "run &lt;b&gt;2two.html"]


def chart_of(page: str) -> str:
    (chart,) = re.findall(r'<figure class="chart.*?</figure>', page, re.S)
    return chart


def texts_of(chart: str) -> list[str]:
    """Return the texts of a drawing, and the names in its key."""
    return re.findall(r"(?<=>)[^<>]+(?=</text>)|(?<=</svg>)[^<]+(?=</li>)", chart)


def test_rewards_of_a_family_are_curves_of_one_chart(runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs")
    hostile = json.loads((tmp_path / "runs/run:0#<i>/data/report.json").read_text())
    values = hostile["curves"][0]["values"]
    values[:5] = [None, "x", 1e308, -1e308, "[]"]
    (tmp_path / "runs/run:0#<i>/data/report.json").write_text(json.dumps(hostile))
    rlreport.index(tmp_path / "runs", tmp_path / "runs/index.html")
    rlreport.index(runs, runs / "index.html")
    for page in (runs / "index.html", tmp_path / "runs/index.html"):
        chart = chart_of(page.read_text())
        names = {html.unescape(text) for text in texts_of(chart)}
        assert {f"run <b>{k}" for k in range(3)} <= names
        assert "<script" not in chart
    one = tmp_path / "one"
    shutil.copytree(runs / "run:0#<i>", one)
    rlreport.index([one], tmp_path / "one.html")
    assert "<figure" not in (tmp_path / "one.html").read_text()


def test_a_family_of_which_one_run_has_rewards_has_no_chart(tmp_path):
    run_folder(tmp_path, "ppo-1", settings={"lr": 1})
    run_folder(tmp_path, "ppo-2", settings={"lr": 2})
    assert "<figure" in index_page(tmp_path)
    path = tmp_path / "ppo-2/data/report.json"
    about = json.loads(path.read_text())
    del about["reward"]
    path.write_text(json.dumps(about))
    assert "<figure" not in index_page(tmp_path)


def test_runs_of_different_projects_share_no_chart_and_no_table(tmp_path):
    for place in ("ppo-1", "ppo-2"):
        run_folder(tmp_path, place, settings={"ppo_epochs": place[-1], "clip": 0.2})
    for place in ("dpo-1", "dpo-2", "dpo-3"):
        run_folder(tmp_path, place, settings={"pairs": 8, "dpo_beta": place[-1]})
    run_folder(tmp_path, "apart", settings={"width": 1})
    page = index_page(tmp_path)
    titles = re.findall(r"<summary><h2>(.*?)</h2>", page)
    assert titles == ["Settings and outcome: dpo", "Settings and outcome: ppo"]
    charts = re.findall(r'<figure class="chart.*?</figure>', page, re.S)
    drawn = []
    for chart in charts:
        drawn.append({text for text in texts_of(chart) if "po-" in text})
    assert drawn == [{"dpo-1", "dpo-2", "dpo-3"}, {"ppo-1", "ppo-2"}]
    assert [row["run"] for row in rows_of(page, "family-2")] == ["ppo-1", "ppo-2"]


def run_folder(
    root,
    place,
    *,
    run="",
    settings=None,
    what="",
    rewards=(0.1, 0.5),
    level="healthy",
):
    """Write a small report.json by hand: two steps, and the course of these two rewards."""
    generator = {"name": "rlreport", "version": "1"}
    about = {"schema": SCHEMA, "generator": generator, "run": run or place}
    steps = list(range(len(rewards)))
    about["steps"] = [{"step": step, "responses": 4} for step in steps]
    about["reward"] = {"steps": steps, "values": rewards}
    parts = {"first": rewards[0], "best": max(rewards), "last": rewards[-1]}
    course = {
        "quantity": "reward",
        "series": {"file": "steps.csv", "column": "reward_mean"},
    }
    for part, value in parts.items():
        course[part] = {"value": value, "steps": [0, 0]}
    about["verdict"] = {
        "level": level,
        "lead": None,
        "what": what,
        "course": [course],
    }
    about["card"] = {"entries": settings or {}}
    (root / place / "data").mkdir(parents=True)
    (root / place / "data/report.json").write_text(json.dumps(about))


def counts_of(page):
    """Return what is said of the number of runs with each level."""
    part = page.partition('class="counts"')[2].partition("</p>")[0]
    found = re.findall(r'data-level="(.*?)">(.*?)</span>\s*(?:·|$|\n)', part, re.S)
    counts = {}
    for level, words in found:
        text = re.sub("<.*?>", "", words)
        counts[level] = " ".join(text.split())
    return counts


def index_page(root):
    return html.unescape(rlreport.index(root, root / "index.html").out.read_text())


def rows_of(page, table):
    """Return a table's rows as texts by the key of the column."""
    part = page.partition(f'data-table="{table}">')[2].partition("</section>")[0]
    keys = re.findall(r'<th [^>]*data-key="([^"]*)"', part)
    rows = []
    for row in re.findall(r'<tr data-n="[^"]*">(.*?)</tr>', part, re.S):
        cells = re.findall(r"<td.*?</td>", row, re.S)
        texts = [re.sub("<.*?>", "", cell).strip() for cell in cells]
        rows.append(dict(zip(keys, texts, strict=True)))
    return rows


def shown_settings(page, table):
    part = page.partition(f'data-table="{table}">')[2].partition("</section>")[0]
    heads = re.findall(r'<th [^>]*data-key="card:([^"]*)"([^>]*)>', part)
    return {key: "hidden" not in rest for key, rest in heads}


def test_runs_that_differ_in_their_seed_alone_are_a_group(tmp_path):
    for seed, reward, level in (
        (1, 0.38, "warning"),
        (2, 0.43, "healthy"),
        (3, 0.45, "healthy"),
    ):
        run_folder(
            tmp_path,
            f"low_s{seed}",
            settings={"lr": 1e-6, "seed": seed},
            rewards=(0.1, reward),
            level=level,
        )
    for seed, name in ((1, "calm-owl"), (2, "brave-fox")):
        run_folder(tmp_path, f"z{seed}", run=name, settings={"lr": 1e-5, "seed": seed})
    run_folder(tmp_path, "single", settings={"lr": 1e-4})
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04")
    page = index_page(tmp_path)
    groups = rows_of(page, "family-1")
    assert [(row["run"], row["runs"]) for row in groups] == [
        ("brave-fox and others", "2"),
        ("single", "1"),
        ("low", "3"),
    ]
    _, single, low = groups
    words = low["verdict"].replace("\N{NO-BREAK SPACE}", " ").split()
    assert words == ["▲", "1", "Warning", "✓", "2", "Healthy"]
    assert low["reward_last"] == "0.42 (0.38 to 0.45)"
    assert single["reward_last"] == "0.500"
    assert single["card:lr"] == "0.0001"
    assert f'data-v="{(0.38 + 0.43 + 0.45) / 3}"' in page  # sorted by the mean
    assert "card:seed" not in low
    runs = [(row["run"], row["group"]) for row in rows_of(page, "runs")]
    assert runs == [
        ("low_s1", "low"),
        ("cut.zip", ""),
        ("brave-fox", "brave-fox and others"),
        ("calm-owl", "brave-fox and others"),
        ("low_s2", "low"),
        ("low_s3", "low"),
        ("single", ""),
    ]
    chart = chart_of(page)
    names = set(texts_of(chart))
    assert {"low", "single", "brave-fox and others"} <= names
    assert not names & {"low_s1", "calm-owl"}
    assert len(re.findall(r'd="[^"]*" fill="[^"]*" fill-opacity="0.13"', chart)) == 2


def test_runs_named_by_their_seed_are_grouped_by_folder(tmp_path):
    for place in ("low/seed_1", "low/seed_2", "high/seed_1", "high/seed_2"):
        run_folder(tmp_path, place, run=place.partition("/")[2])
    folders = [tmp_path / "low", tmp_path / "high"]
    made = rlreport.index(folders, tmp_path / "index.html")
    groups = rows_of(made.out.read_text(), "family-1")
    assert [group["run"] for group in groups] == ["high", "low"]


def test_settings_that_tell_groups_apart_come_first_and_eight_are_shown(tmp_path):
    for group in range(3):
        for seed in range(2):
            place = f"g{group}_s{seed}"
            paths = {"output_dir": place, "wandb_project": group}
            within = {"seed": seed, "port_offset": seed}
            between = {f"k{i}": group for i in range(9)}
            settings = {**paths, **within, "same": 1, **between}
            run_folder(tmp_path, place, settings=settings)
    page = index_page(tmp_path)
    runs = shown_settings(page, "runs")
    groups = shown_settings(page, "family-1")
    names = [f"k{i}" for i in range(9)]
    assert [*runs] == ["seed", "port_offset", *names, "output_dir", "wandb_project"]
    assert [*groups] == [*names, "wandb_project"]
    assert [key for key, is_visible in groups.items() if is_visible] == names[:8]
    assert not any(runs.values())  # the table of settings is above the list


def test_forty_settings_have_a_column_and_how_many_have_none_is_told(tmp_path):
    for count in (40, 41):
        for run in range(2):
            settings = {f"k{i:02}": run for i in range(count)}
            run_folder(tmp_path / f"{count}", f"run_{run}", settings=settings)
        page = index_page(tmp_path / f"{count}")
        assert len(shown_settings(page, "runs")) == 40
        assert ("40 of 41 settings that differ have a column." in page) == (count == 41)


def test_what_happened_is_that_of_the_verdict_without_its_level(tmp_path):
    long = "qwen2.5-7b_" * 14 + "end"
    sentences = {
        "a": (
            "healthy",
            "Healthy as far as rewards show: the reward rose from 0 to 1.",
        ),
        "b": ("critical", "Broken: reward hacking: length rises. The reward fell."),
        "c": ("healthy", "Healthy. The reward rose: twice."),
        "d": ("unclear", ""),
    }
    for place, (level, sentence) in sentences.items():
        run_folder(tmp_path, place, run=long + place, level=level, what=sentence)
    page = index_page(tmp_path)
    rows = rows_of(page, "runs")
    assert "Settings and outcome" not in page and "group" not in rows[0]
    assert [row["sentence"] for row in rows] == [
        "Reward hacking: length rises. The reward fell.",
        "",
        "The reward rose from 0 to 1.",
        "The reward rose: twice.",
    ]
    assert [row["run"] for row in rows] == [long + place for place in "bdac"]


def test_runs_are_sorted_by_severity_then_by_name_with_numbers_as_such(tmp_path):
    levels = {
        "run-10": "healthy",
        "run-9": "healthy",
        "b": "unjudged",
        "c": "unclear",
        "e": "warning",
        "f": "critical",
        "g": "<i>new",  # of another version: not judged
    }
    for place, level in levels.items():
        run_folder(tmp_path, place, level=level)
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04")
    page = index_page(tmp_path)
    names = [row["run"] for row in rows_of(page, "runs")]
    assert names == ["f", "e", "cut.zip", "c", "b", "g", "run-9", "run-10"]
    assert counts_of(page) == {
        "critical": "✕ 1 Broken",
        "warning": "▲ 1 Warning",
        "unread": "! 1 cannot be read",
        "unclear": "? 1 Unclear",
        "unjudged": "– 2 Not judged",
        "healthy": "✓ 2 Healthy",
    }
    assert "<i>new" not in (tmp_path / "index.html").read_text()


def test_columns_that_say_the_same_of_all_runs_are_hidden(tmp_path):
    def keys() -> dict[str, bool]:
        page = rlreport.index(tmp_path, tmp_path / "index.html").out.read_text()
        part = page.partition('data-table="runs">')[2]
        heads = re.findall(r'<th [^>]*data-key="([^"]*)"([^>]*)>', part)
        return {key: "hidden" not in rest for key, rest in heads}

    run_folder(tmp_path, "a")
    run_folder(tmp_path, "b")
    shown = keys()
    assert not shown["steps"]
    assert "since" not in shown  # no run has one
    run_folder(tmp_path, "c", rewards=(0, 0.5, 1))
    assert keys()["steps"]


def test_more_groups_than_colours_are_all_drawn_and_broken_ones_have_a_curve(tmp_path):
    def chart_with(numbers):
        for number in numbers:
            run_folder(
                tmp_path,
                f"run{number:02}",
                rewards=(0.1, number / 24),
                settings={"lr": number},
                level="critical" if number == 1 else "healthy",
            )
        return chart_of(index_page(tmp_path))

    def names_in(chart):
        return {text for text in texts_of(chart) if text.startswith("run")}

    band = r'd="[^"]*" fill="[^"]*" fill-opacity="0.13"'
    chart = chart_with(range(12))
    assert names_in(chart) == {"run01", *(f"run{number:02}" for number in range(7, 12))}
    assert "Reward; thin grey lines: 6 others" in texts_of(chart)
    assert "Reward of all 12 configurations" in chart
    assert not re.findall(band, chart)
    lines = set(re.findall(r'd="(M[^"]*)" stroke="', chart))
    assert len(lines) >= 12
    # More of them would be a thicket.
    chart = chart_with(range(12, 24))
    assert names_in(chart) == {
        "run01",
        *(f"run{number:02}" for number in range(19, 24)),
    }
    assert "18 others" in texts_of(chart)
    assert len(re.findall(band, chart)) == 1


def test_a_family_tells_what_makes_its_runs_unlike_and_how_to_compare_two(tmp_path):
    def note():
        page = index_page(tmp_path)
        part = page.partition('data-table="family-1">')[2].partition("</section>")[0]
        return part.partition('class="note">')[2].partition("</p>")[0]

    short = {"lr": 1, "reward_fn": "exact", "reward_timeout": 1}
    run_folder(tmp_path, "short", settings=short, rewards=(0.1, 0.4))
    run_folder(tmp_path, "other", settings=short | {"lr": 2, "reward_timeout": 2})
    alike = note()
    assert "have" not in alike and "differ" not in alike and "±" not in alike
    assert "rlreport compare BASE NEW -o compare.html" in alike
    long = {"lr": 3, "reward_fn": "loose"}
    run_folder(tmp_path, "long", settings=long, rewards=(0.5, 0.6, 0.7))
    unlike = note()
    assert "These runs have 2 to 3 steps." in unlike
    assert "They differ in reward_fn: the same score may not mean the same." in unlike
    assert "Their scores differ from the first step on: 0.10 to 0.50." in unlike
    steps = {
        row["run"]: row["steps"] for row in rows_of(index_page(tmp_path), "family-1")
    }
    assert steps == {"long": "3", "short": "2", "other": "2"}


def test_levels_have_the_errors_of_the_report_if_they_are_of_the_same_series(tmp_path):
    levels = [
        ("a", 0.8, 0.05),
        ("b", 0.75, 0.05),
        ("c", 0.4, -1.0),
    ]
    for name, last, error in levels:
        run_folder(tmp_path, name, settings={"lr": name}, rewards=(0.1, last))
        path = tmp_path / name / "data/report.json"
        about = json.loads(path.read_text())
        course = about["verdict"]["course"][0]
        course["last"]["se"] = course["best"]["se"] = error
        if name == "b":
            about["curves"] = [
                {"quantity": "reward", "first": 0.1, "highest": last, "last": 0.7}
            ]
        path.write_text(json.dumps(about))
    rows = rows_of(index_page(tmp_path), "family-1")
    assert [row["reward_last"] for row in rows] == ["0.800 ± 0.050", "0.700", "0.400"]
    assert rows[1]["reward_best"] == "0.750 ± 0.050"


JUNK: tuple[object, ...] = (
    None,
    [],
    {},
    "<script>alert(1)</script>",
    "\u202egpj.exe\u0000\ud800",
    -1e308,
    [
        [1e999, float("nan"), "x", None, {}],
        3,
        {"quantity": "reward"},
    ],
    "x" * 100_000,
    True,
)
PLACES = (
    ("run",),
    ("steps",),
    ("curves",),
    ("curves", 0, "quantity"),
    ("curves", 0, "steps"),
    ("curves", 0, "values"),
    ("curves", 0, "last"),
    ("curves", 0, "unit"),
    ("reward",),
    ("verdict",),
    ("verdict", "level"),
    ("verdict", "lead"),
    ("verdict", "what"),
    ("verdict", "next"),
    ("verdict", "course"),
    ("verdict", "evidence"),
    ("findings",),
    ("card",),
    ("card", "entries"),
    ("card", "entries", "lr"),
    ("shown",),
    ("responses",),
    ("generator", "version"),
)


def test_reports_of_strangers_are_listed_whatever_they_hold(runs, tmp_path):
    text = (runs / "run:1#<i>.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(text)) as archive:
        sample = archive.read("data/report.json")
    for number, (place, junk) in enumerate(product(PLACES, JUNK)):
        about = json.loads(sample)
        *outer, key = place
        inside = about
        for part in outer:
            inside = inside[part]
        inside[key] = junk
        folder = tmp_path / f"r{number}" / "data"
        folder.mkdir(parents=True)
        (folder / "report.json").write_text(json.dumps(about), encoding="utf-8")
    for lang in ("en", "zh"):
        made = rlreport.index([tmp_path], tmp_path / "index.html", lang=lang)
        page = made.out.read_text()
        # "Infinity" is no JSON: that report is said to be broken.
        assert made.reports == len(PLACES) * len(JUNK)
        assert "<script>alert" not in page
        assert len(page) < 2_500_000


def write_rollouts(path, rng):
    rows = []
    for step, n in product(range(30), range(8)):
        texts = {"prompt": f"p{n // 4}", "response": f"r {n}"}
        is_right = rng.random() < 0.2 + step / 60
        rows.append({"step": step, **texts, "reward": float(is_right)})
    write(path, rows)


def write_metrics(path, rng):
    lines = ["step,reward,kl\n"]
    for step in range(30):
        reward = 0.1 + step / 40 + rng.random() / 10
        lines.append(f"{step},{reward},{step / 90}\n")
    write(path, lines)


def middle_of_leading(*curves):
    """Return the middle between start and best of the curve that rises highest."""
    courses = []
    for curve in curves:
        course = course_of(Series(np.arange(30), curve), "reward")
        if course and course.gained:
            courses.append(course)
    leading = max(courses, key=lambda course: course.top.value)
    return (leading.first.value + leading.top.value) / 2


def assert_same_levels(curves, courses):
    """Assert that the short curves have the levels of the verdict's courses."""
    # The names of those in other units have them at their end.
    names = {short["quantity"].removesuffix("_chars") for short in curves}
    assert courses.keys() <= {name.removesuffix("_token") for name in names}
    for short in curves:
        for part in ("first", "lowest", "highest", "last"):
            whole = courses.get(short["quantity"], {}).get(part, {})
            assert whole.get("value", short[part]) == short[part]


def test_index_report_and_comparison_have_the_same_numbers(tmp_path):
    rng = random.Random(3)
    kinds = ("rollouts", "metrics", "both")
    for kind in kinds:
        logs = tmp_path / "logs" / kind
        if kind != "metrics":
            write_rollouts(logs / "a.jsonl", rng)
        if kind != "rollouts":
            write_metrics(logs / "metrics.csv", rng)
        rlreport.build(logs, tmp_path / "reports" / kind, title=kind, workers=1)
    page = index_page(tmp_path / "reports")
    rows = {row["run"]: row for row in rows_of(page, "runs")}
    curves = {}
    leading = {}
    for kind in kinds:
        report = tmp_path / "reports" / kind
        about = json.loads((report / "data/report.json").read_text())
        courses = {one["quantity"]: one for one in about["verdict"]["course"]}
        course = courses["reward"]
        overview = (report / "index.html").read_text()
        for part in ("first", "best", "last"):
            value = course[part]["value"]
            assert rows[kind][part] == written(value)
            assert f'title="{exact(value)}">{written(value)}' in page
            assert part == "best" or f'title="{exact(value)}, step' in overview
        assert rows[kind]["steps"] == "30"
        assert_same_levels(about["curves"], courses)
        curves[kind] = np.array([step["reward_mean"] for step in about["steps"]])
        leading[kind] = np.array(about["reward"]["values"])
        assert sparkline(leading[kind]) in page
        is_of_rollouts = np.array_equal(leading[kind], curves[kind])
        assert is_of_rollouts == (kind != "both")  # else of the trainer
    for base, new in (("rollouts", "metrics"), ("both", "rollouts")):
        reports = tmp_path / "reports"
        made = rlreport.compare(reports / base, reports / new, tmp_path / base)
        comparison = made.outcome.comparison
        for series, kind in zip(comparison.rewards, (base, new), strict=True):
            assert np.allclose(series.values, leading[kind])
        middle = middle_of_leading(leading[base], leading[new])
        assert comparison.speed["half"].reward == pytest.approx(middle)


def test_groups_are_sorted_by_their_mean_and_no_name_is_cut(browser, tmp_path):
    long = "qwen2.5-7b-instruct_gsm8k_grpo_" * 3
    for name, reward in (("a", 0.9), ("b", 0.2)):
        for seed in range(2):
            place = f"{name}_s{seed}"
            run_folder(
                tmp_path,
                place,
                run=long + place,
                rewards=(0, reward + seed / 10),
                what=f"Healthy. {'Words and more. ' * 20}",
                settings={f"k{i}": name for i in range(10)},
            )
    index_page(tmp_path)
    with visiting(browser, tmp_path / "index.html") as page:
        groups = page.locator('[data-table="family-1"]')
        names = groups.locator("tbody td:first-child")
        assert names.all_inner_texts() == [f"{long}a", f"{long}b"]
        groups.get_by_role("button", name="Reward, last").click()
        groups.get_by_role("button", name="Reward, last").click()
        assert names.all_inner_texts() == [f"{long}b", f"{long}a"]
        # Few rows have tools, too: they show the hidden columns.
        head = groups.locator('th[data-key="card:k9"]')
        assert not head.is_visible()
        groups.get_by_role("button", name="Columns").click()
        page.get_by_role("checkbox", name="k9").check()
        assert head.is_visible()
    cut = "cells => cells.filter(c => c.scrollHeight > c.clientHeight + 1).length"
    for width in (1400, 390):
        size = {"width": width, "height": 900}
        with visiting(browser, tmp_path / "index.html", viewport=size) as page:
            keys = ("group", "verdict", "sentence")
            cells = ", ".join(f'td[data-key="{key}"] .clamp' for key in keys)
            assert page.locator(f"{cells}, td.link").evaluate_all(cut) == 0
            assert page.evaluate("document.documentElement.scrollWidth") <= width
