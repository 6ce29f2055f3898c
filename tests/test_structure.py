"""The source: imports in one direction, one script for browsers, colours that can be read on."""

import ast
import re
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import rlreport
from rlreport.draw.theme import sentinels, tokens
from rlreport.pages.scripts import assets
from rlreport.text.language import ENGLISH, TAGS, language

PACKAGE = Path(rlreport.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
SIZE = tomllib.loads((PACKAGE.parent / "tests" / "size.toml").read_text("utf-8"))
LAYERS = [
    "text",
    "system",
    "figures",
    "about",
    "formats",
    "read",
    "metrics",
    "summarise",
    "check",
    "comparison",
    "draw",
    "pages",
    "deliver",
    "flows",
    "cli",
    "training",
]
"""Packages in the order of docs/architecture.md: each imports only from those before it."""


def test_no_module_is_too_long_for_one_subject() -> None:
    longest = SIZE["module_lines"]
    too_long = {
        name: lines for name, (lines, _) in modules().items() if lines > longest
    }
    assert too_long == {}, f"more than {longest} lines: split by subject"


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        order = list(TopologicalSorter(imports()).static_order())
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))
    assert set(order) == set(modules())


def test_packages_import_only_from_those_before_them() -> None:
    inner = [name for name in modules() if "." in name]
    packages = {name: name.split(".")[1] for name in inner}
    folders = {one for one in packages.values() if (PACKAGE / one).is_dir()}
    assert folders == set(LAYERS)
    wrong = []
    for name, others in imports().items():
        for target in others:
            if not {packages.get(name), packages.get(target)} <= set(LAYERS):
                continue
            if LAYERS.index(packages[name]) < LAYERS.index(packages[target]):
                wrong.append((name, target))
    assert wrong == []
    assert " → ".join(LAYERS) in PAGE


def test_the_diagram_of_packages_shows_what_they_import() -> None:
    lines = PAGE.partition("flowchart BT\n")[2].partition("```")[0].splitlines()
    arrows: set[tuple[str, str]] = set()
    for line in lines:
        arrows.update(pairwise(line.strip().split(" --> ")))
    used: set[tuple[str, str]] = set()
    for name, targets in imports().items():
        pairs = {(package_of(name), package_of(target)) for target in targets}
        used |= {pair for pair in pairs if set(pair) <= set(LAYERS)}
    used = {(one, other) for one, other in used if one != other}
    reached: dict[str, set[str]] = {}
    for layer in LAYERS:
        direct = {other for one, other in arrows if one == layer}
        reached[layer] = direct.union(*(reached[other] for other in direct))
    assert (
        arrows <= used
        and {one for one, other in used if other not in reached[one]} == set()
    )


def package_of(module: str) -> str:
    """Return the package of a module inside of rlreport, "" if it is in the root."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@cache
def modules() -> dict[str, tuple[int, ast.Module]]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text("utf-8")
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = source.count("\n"), ast.parse(source)
    return found


def imports() -> dict[str, set[str]]:
    """Each module's imports from the package, those inside functions and for types included."""
    imported: dict[str, set[str]] = {}
    for name, (_, tree) in modules().items():
        imported[name] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imported[name].update(targets(node))
        imported[name] -= {name, "rlreport"}
    return imported


def targets(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.Import):
        named = {alias.name for alias in node.names}
    else:
        assert not node.level, "imports are absolute"
        inner = {f"{node.module}.{alias.name}" for alias in node.names}
        # ``from package import module`` needs the module, ``from package import name`` the package.
        named = inner & modules().keys() or {str(node.module)}
    return named & modules().keys()


STATIC = Path(__file__).resolve().parents[1] / "static"


def test_nothing_of_ours_turns_text_into_markup_or_code() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\.srcdoc"
    )
    files = [
        path for path in STATIC.rglob("*") if path.suffix in {".js", ".css", ".html"}
    ]
    assert len(files) > 20
    guilty = [path.name for path in files if forbidden.search(path.read_text("utf-8"))]
    assert guilty == []


@pytest.mark.parametrize("lang", TAGS)
def test_scripts_and_style_cannot_end_or_change_their_element(lang: str) -> None:
    shared = assets(language(lang))
    for text in (shared.style, shared.report, shared.one_file):
        assert not re.search(r"</script|</style|<!--|\r", text, re.IGNORECASE)
        assert not re.search(
            r"^(import|export)\b", text, re.MULTILINE
        )  # all forms are joined


SHEET = assets(ENGLISH).style
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", SHEET
    )
}


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2."""
    parts = [byte / 255 for byte in bytes.fromhex(colour.removeprefix("#"))]
    red, green, blue = (
        x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("ground", ["page", "panel"])
def test_every_tone_can_be_read_on_page_and_panel(theme: int, ground: str) -> None:
    tones = (
        "text",
        "muted",
        "policy",
        "reference",
        "critical",
        "warning",
        "info",
        "healthy",
    )
    for tone in tones:
        assert contrast(COLOURS[tone][theme], COLOURS[ground][theme]) >= 4.5, tone


@pytest.mark.parametrize("theme", [0, 1])
def test_tokens_can_be_read_on_every_bin(theme: int) -> None:
    diverging = [f"div-{k}" for k in range(1, 12)]
    sequential = [f"seq-{k}" for k in range(1, 10)]
    for name in [*diverging, *sequential]:
        rule = re.search(rf"\.{name}\b[^{{}}]*\{{ color: ([^;]+); \}}", SHEET)
        assert rule, name
        inks = re.findall(r"#(?:fff|000)", rule[1])
        ink = "#ffffff" if inks[theme % len(inks)] == "#fff" else "#000000"
        assert contrast(ink, COLOURS[name][theme]) >= 4.5, name


def test_no_two_colours_of_charts_are_the_same_in_the_light() -> None:
    assert len(sentinels()) == len(tokens("light"))
