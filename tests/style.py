"""Habits that make Python hard to read: ``python -m tests.style`` lists where they are."""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("rlreport", "tests")

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
OPERATIONS = (
    ast.BinOp,
    ast.BoolOp,
    ast.Compare,
    ast.Call,
    ast.IfExp,
    ast.Subscript,
    ast.Attribute,
    *COMPREHENSIONS,
)
MOST_OPERATIONS = 30
SKIPPED = "# fmt: " + "skip"  # not written in one, or this line would count
COUNTED_TOKENS = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)


class Place(NamedTuple):
    """Where a habit was found."""

    path: str
    line: int


class Tree:
    """A module's syntax tree, with the parent of each node."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.module = ast.parse(source)
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.module):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around an expression, up to its statement."""
        while not isinstance(node, ast.stmt) and node in self.parents:
            node = self.parents[node]
            yield node

    def within(self, node: ast.AST, kinds: type | tuple[type, ...]) -> bool:
        return any(isinstance(one, kinds) for one in self.ancestors(node))


def several_values(node: ast.AST, tree: Tree) -> bool:
    return _assigns_several(node) and not _all_constant(node)


def several_constants(node: ast.AST, tree: Tree) -> bool:
    return _assigns_several(node) and _all_constant(node)


def _assigns_several(node: ast.AST) -> bool:
    """Return whether a statement assigns unrelated values: no swap, no recurrence."""
    if not isinstance(node, ast.Assign):
        return False
    target = node.targets[0]
    if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)):
        return False
    targets = {ast.dump(one).replace("Store()", "Load()") for one in target.elts}
    return targets.isdisjoint(ast.dump(one) for one in ast.walk(node.value))


def _all_constant(node: ast.AST) -> bool:
    assert isinstance(node, ast.Assign)
    assert isinstance(node.value, ast.Tuple)
    return all(isinstance(one, ast.Constant | ast.UnaryOp) for one in node.value.elts)


def conditional_in_conditional(node: ast.AST, tree: Tree) -> bool:
    return isinstance(node, ast.IfExp) and tree.within(node, ast.IfExp)


def comprehension_in_comprehension(node: ast.AST, tree: Tree) -> bool:
    return isinstance(node, COMPREHENSIONS) and tree.within(node, COMPREHENSIONS)


def comprehension_with_two_loops(node: ast.AST, tree: Tree) -> bool:
    return isinstance(node, COMPREHENSIONS) and len(node.generators) > 1


def starred_group(node: ast.AST, tree: Tree) -> bool:
    return isinstance(node, ast.Starred) and isinstance(
        node.value, ast.Tuple | ast.List
    )


def starred_conditional(node: ast.AST, tree: Tree) -> bool:
    if isinstance(node, ast.Starred):
        return isinstance(node.value, ast.IfExp)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return any(key is None and isinstance(value, ast.IfExp) for key, value in pairs)
    return False


def loop_over_generator(node: ast.AST, tree: Tree) -> bool:
    return isinstance(node, ast.For) and isinstance(node.iter, ast.GeneratorExp)


def walrus_in_test(node: ast.AST, tree: Tree) -> bool:
    return isinstance(node, ast.NamedExpr) and _is_in_test(node, tree)


def walrus_elsewhere(node: ast.AST, tree: Tree) -> bool:
    return isinstance(node, ast.NamedExpr) and not _is_in_test(node, tree)


def _is_in_test(node: ast.AST, tree: Tree) -> bool:
    statement = next(one for one in tree.ancestors(node) if isinstance(one, ast.stmt))
    if not isinstance(statement, ast.If | ast.While):
        return False
    return any(one is node for one in ast.walk(statement.test))


def bool_as_number(node: ast.AST, tree: Tree) -> bool:
    if isinstance(node, ast.AugAssign):
        return isinstance(node.value, ast.Compare)
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.BitAnd | ast.BitOr):
        return isinstance(node.left, ast.Compare) or isinstance(node.right, ast.Compare)
    return False


def negative_floor_division(node: ast.AST, tree: Tree) -> bool:
    if not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)):
        return False
    return isinstance(node.operand, ast.BinOp) and isinstance(
        node.operand.op, ast.FloorDiv
    )


def busy_lambda(node: ast.AST, tree: Tree) -> bool:
    if not isinstance(node, ast.Lambda):
        return False
    return any(
        isinstance(one, (ast.IfExp, *COMPREHENSIONS)) for one in ast.walk(node.body)
    )


def large_expression(node: ast.AST, tree: Tree) -> bool:
    statement = tree.parents.get(node)
    if not (isinstance(node, ast.expr) and isinstance(statement, ast.stmt)):
        return False
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return False
    operations = sum(isinstance(one, OPERATIONS) for one in ast.walk(node))
    return operations > MOST_OPERATIONS


HABITS: dict[str, Callable[[ast.AST, Tree], bool]] = {
    "several values in one assignment": several_values,
    "several constants in one assignment": several_constants,
    "conditional in a conditional": conditional_in_conditional,
    "comprehension in a comprehension": comprehension_in_comprehension,
    "comprehension with two loops": comprehension_with_two_loops,
    "*(…) group": starred_group,
    "*(… if …)": starred_conditional,
    "loop over a generator expression": loop_over_generator,
    "walrus in a test": walrus_in_test,
    "walrus elsewhere": walrus_elsewhere,
    "bool as a number": bool_as_number,
    "-(-a // b)": negative_floor_division,
    "lambda with a conditional or comprehension": busy_lambda,
    "expression of more than 30 operations": large_expression,
}


def long_lines(tree: Tree, limit: int) -> Iterator[int]:
    """Yield the lines with more than ``limit`` tokens; signatures do not count."""
    signatures: set[int] = set()
    for node in ast.walk(tree.module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            signatures.update(range(node.lineno, node.body[0].lineno))
    reader = io.StringIO(tree.source).readline
    tokens = tokenize.generate_tokens(reader)
    counted = (token for token in tokens if token.type in COUNTED_TOKENS)
    counts = Counter(token.start[0] for token in counted)
    for line, count in counts.items():
        if count > limit and line not in signatures:
            yield line


def found_in(folder: Path) -> dict[str, list[Place]]:
    """Return habit -> where it occurs in the modules of a folder."""
    places: dict[str, list[Place]] = {habit: [] for habit in HABITS}
    for habit in (
        "line of more than 25 tokens",
        "line of more than 30 tokens",
        SKIPPED,
    ):
        places[habit] = []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        tree = Tree(path.read_text("utf-8"))
        for node in ast.walk(tree.module):
            for habit, is_one in HABITS.items():
                if is_one(node, tree):
                    places[habit].append(Place(name, getattr(node, "lineno", 0)))
        for limit in (25, 30):
            habit = f"line of more than {limit} tokens"
            places[habit] += [Place(name, line) for line in long_lines(tree, limit)]
        skipped = [
            number
            for number, line in enumerate(tree.source.splitlines(), 1)
            if SKIPPED in line
        ]
        places[SKIPPED] += [Place(name, number) for number in skipped]
    return places


def main(patterns: list[str]) -> None:
    """Print the places of each habit, in files whose path contains one of the patterns."""
    for folder in FOLDERS:
        for habit, places in found_in(ROOT / folder).items():
            chosen = [place for place in places if _is_chosen(place, patterns)]
            print(f"{folder}: {len(chosen)} × {habit}")
            for place in chosen:
                print(f"    {place.path}:{place.line}")


def _is_chosen(place: Place, patterns: list[str]) -> bool:
    return not patterns or any(pattern in place.path for pattern in patterns)


if __name__ == "__main__":
    main(sys.argv[1:])
