"""The package's own structure, read from its source: small modules that import in one direction."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import rlreport

PACKAGE = Path(rlreport.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
SIZE = tomllib.loads((PACKAGE.parent / "tests" / "size.toml").read_text("utf-8"))
LAYERS = [
    *("text", "system", "figures", "about", "formats", "read", "metrics", "summarise", "check"),
    *("choose", "comparison", "draw", "bake", "deliver", "cli"),
]
"""Packages in the order of docs/architecture.md: each imports only from those before it."""


def test_the_project_stays_within_its_size_limits() -> None:
    lines = [lines for lines, _ in modules().values()]
    tests = [path.read_text("utf-8").count("\n") for path in Path(__file__).parent.rglob("*.py")]
    size = {
        "package_lines": sum(lines),
        "package_modules": len(lines),
        "module_lines": max(lines),
        "test_lines": sum(tests),
    }
    exceeded = {name: (count, SIZE[name]) for name, count in size.items() if count > SIZE[name]}
    assert not exceeded, "(now, limit in tests/size.toml): remove what nobody would miss"


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        order = list(TopologicalSorter(imports()).static_order())
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))
    assert set(order) == set(modules())


def test_packages_import_only_from_those_before_them() -> None:
    packages = {name: name.split(".")[1] for name in modules() if name.count(".")}
    assert {package for package in packages.values() if (PACKAGE / package).is_dir()} == set(LAYERS)
    wrong = [
        (name, target)
        for name, others in imports().items()
        for target in others
        if {packages.get(name), packages.get(target)} <= set(LAYERS)
        and LAYERS.index(packages[name]) < LAYERS.index(packages[target])
    ]
    assert wrong == []
    assert " → ".join(LAYERS) in PAGE


def test_the_diagram_of_packages_shows_what_they_import() -> None:
    lines = PAGE.partition("flowchart BT\n")[2].partition("```")[0].splitlines()
    arrows = {pair for line in lines for pair in pairwise(line.strip().split(" --> "))}
    parts = ((a.split("."), b.split(".")) for a, targets in imports().items() for b in targets)
    used = {(a[1], b[1]) for a, b in parts if {*a[1:2]} ^ {*b[1:2]} and len(a) > 1 < len(b)}
    reached: dict[str, set[str]] = {}
    for layer in LAYERS:  # each after those that it imports from
        direct = {other for one, other in arrows if one == layer}
        reached[layer] = direct.union(*(reached[other] for other in direct))
    between = {(one, other) for one, other in used if {one, other} <= {*LAYERS}}
    assert arrows <= between and all(other in reached[one] for one, other in between)


def test_a_circle_would_be_found() -> None:
    tangled = imports()
    assert "rlreport.system.workers" in tangled["rlreport.pipeline"]
    tangled["rlreport.system.workers"] |= {"rlreport.pipeline"}
    with pytest.raises(CycleError):
        list(TopologicalSorter(tangled).static_order())


@cache
def modules() -> dict[str, tuple[int, ast.Module]]:
    """Lines and syntax tree of each module by its name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text("utf-8")
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = source.count("\n"), ast.parse(source)
    return found


def imports() -> dict[str, set[str]]:
    """Each module's imports from the package, those inside functions and for types included."""
    return {
        name: {
            target
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for target in targets(node)
        }
        - {name, "rlreport"}
        for name, (_, tree) in modules().items()
    }


def targets(node: ast.Import | ast.ImportFrom) -> set[str]:
    """The package's modules that an import statement names."""
    if isinstance(node, ast.Import):
        named = {alias.name for alias in node.names}
    else:
        assert not node.level, "imports are absolute"
        inner = {f"{node.module}.{alias.name}" for alias in node.names}
        # ``from package import module`` needs the module, ``from package import name`` the package.
        named = inner & modules().keys() or {str(node.module)}
    return named & modules().keys()
