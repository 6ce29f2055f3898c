"""The source is easy to read: habits that make it dense stay below ceilings that only go down."""

import ast
import tomllib
from pathlib import Path

import pytest

from tests import style

CEILINGS = tomllib.loads(Path(__file__).with_name("style.toml").read_text("utf-8"))


@pytest.mark.parametrize("folder", style.FOLDERS)
def test_habits_that_are_hard_to_read_stay_below_their_ceilings(folder: str) -> None:
    found = style.found_in(style.ROOT / folder)
    ceilings = CEILINGS[folder]
    assert set(found) == set(ceilings)
    too_many = {
        habit: places
        for habit, places in found.items()
        if len(places) > ceilings[habit]
    }
    assert too_many == {}, "python -m tests.style lists all places"


@pytest.mark.parametrize(
    ("habit", "source"),
    [
        ("several values in one assignment", "a, b = f(), g()"),
        ("several constants in one assignment", "a, b = 1, 2"),
        ("conditional in a conditional", "a if b else (c if d else e)"),
        ("comprehension in a comprehension", "[[x for x in y] for y in z]"),
        ("comprehension with two loops", "[x for y in z for x in y]"),
        ("*(…) group", "[*(1, 2), 3]"),
        ("*(… if …)", "[*(a if b else c)]"),
        ("*(… if …)", "{**(a if b else c)}"),
        ("loop over a generator expression", "for x in (y for y in z): pass"),
        ("walrus in a test", "if (a := f()): pass"),
        ("walrus elsewhere", "f(a := 1)"),
        ("bool as a number", "i += a < b"),
        ("bool as a number", "i = x * (a == b)"),
        ("-(-a // b)", "c = -(-a // b)"),
        ("lambda with a conditional or comprehension", "key = lambda a: b if a else c"),
        ("expression of more than 30 operations", f"a = {' + '.join(['f(x)'] * 20)}"),
    ],
)
def test_a_habit_is_found(habit: str, source: str) -> None:
    tree = style.Tree(source)
    nodes = ast.walk(tree.module)
    assert any(style.HABITS[habit](node, tree) for node in nodes)


@pytest.mark.parametrize("source", ["a, b = b, a", "a, b = b, a + b", "a, b = pair"])
def test_a_swap_or_a_recurrence_is_no_assignment_of_several_values(source: str) -> None:
    tree = style.Tree(source)
    assert not any(style.several_values(node, tree) for node in ast.walk(tree.module))


def test_signatures_do_not_count_as_long_lines() -> None:
    arguments = ", ".join(f"argument_{number}: int" for number in range(10))
    tree = style.Tree(f"def f({arguments}) -> None:\n    pass\n")
    assert list(style.long_lines(tree, 30)) == []


def test_code_is_in_modules_not_in_package_files() -> None:
    """``__init__.py`` holds names of other modules; the root also its lazy lookup."""
    allowed = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)
    wrong = []
    for path in (style.ROOT / "rlreport").rglob("__init__.py"):
        body = ast.parse(path.read_text("utf-8")).body
        is_root = path.parent.name == "rlreport"
        for node in body:
            is_allowed = isinstance(node, allowed) or is_root
            if isinstance(node, ast.Assign):
                is_allowed = is_root or ast.unparse(node.targets[0]) == "__all__"
            if not is_allowed:
                wrong.append(f"{path.parent.name}:{node.lineno}")
    assert wrong == []


def test_no_line_of_a_template_has_more_than_120_columns() -> None:
    """A cell or a tag a line; ``{%-`` and ``-%}`` keep white space between them out of the page."""
    too_long = []
    templates = style.ROOT / "templates"
    files = [path for path in templates.rglob("*") if path.is_file()]
    for path in sorted(files):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if len(line) > 120:
                too_long.append(f"{path.name}:{number}")
    assert files
    assert too_long == []
