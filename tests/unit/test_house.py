"""The source keeps its measures: short files and functions, rows read by name, plain nouns, and a small surface."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceward
from onceward import Context, Pipeline
from onceward.authoring.stage import Stage
from onceward.store.queries import LEASE_COLUMNS
from tests import prose

SOURCE = Path(onceward.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES_OF_A_FILE = 450
MOST_LINES_OF_A_FUNCTION = 60
MOST_COLUMNS_BY_PLACE = 4

FOR_USERS = {
    Pipeline: {"stage", "at_expiry"},
    Stage: set(),
    Context: {
        "acached", "acall", "acheckpoint", "ahold", "alias", "alive", "aonce", "aread", "budget_left", "cached", "call",
        "charge", "checkpoint", "children", "cursor", "cursor_as", "held", "hold", "idempotency_key", "is_fresh", "log",
        "measure", "once", "outcome", "progress", "read", "release", "result", "scheduled_at", "setting", "settle",
        "signal", "spawn", "task", "timed_out", "used", "wrap", "write",
    },
}  # fmt: skip
"""The public methods of the objects that users write against."""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions of a file."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def places_read(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a column of a row beyond the fourth is read by its place."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name) or node.value.id != "row":
            continue
        bounds = (node.slice.lower, node.slice.upper) if isinstance(node.slice, ast.Slice) else (node.slice,)
        most = MOST_COLUMNS_BY_PLACE - (not isinstance(node.slice, ast.Slice))
        if any(isinstance(one, ast.Constant) and isinstance(one.value, int) and one.value > most for one in bounds):
            yield node.lineno, ast.unparse(node)


def test_no_file_is_too_long() -> None:
    files = [*FILES, *(path for path in SOURCE.rglob("*.sql") if path.parent.name != "migrations")]
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FILE} == {}


def test_no_function_is_too_long() -> None:
    lengths = {
        f"{path.relative_to(SOURCE)}:{one.name}": (one.end_lineno or one.lineno) - one.lineno + 1
        for path in FILES
        for one in functions(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}


def test_a_wide_row_is_read_by_name() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in FILES
        for line, text in places_read(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_the_names_of_a_lease_row_are_those_of_its_columns() -> None:
    """`as_lease` takes the row apart by names, in the order of the one definition in the query catalogue."""
    tree = ast.parse((SOURCE / "store" / "attempts" / "claims.py").read_text(encoding="utf-8"))
    [reader] = [one for one in functions(tree) if one.name == "as_lease"]
    [target] = [
        node.targets[0]
        for node in ast.walk(reader)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
    ]
    assert isinstance(target, ast.Tuple)
    _seq, *names, _rest = [ast.unparse(one) for one in target.elts]
    assert ["id" if name == "task" else name for name in names] == list(LEASE_COLUMNS)


@pytest.mark.parametrize("public", FOR_USERS, ids=lambda one: one.__name__)
def test_nothing_of_the_engine_is_public_on_an_object_of_users(public: type) -> None:
    methods = {name for name in dir(public) if not name.startswith("_") and not name.isupper()}
    assert methods == FOR_USERS[public]


def test_things_are_not_spoken_of_as_persons() -> None:
    assert list(prose.persons()) == []
