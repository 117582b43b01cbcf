"""What the source of the applications shows: there too, no SQL is made of values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.test_source import calls, is_fixed, made_of, problems_of_code, problems_of_texts, statements

SOURCE = Path(__file__).parents[2] / "apps" / "src" / "onceward_apps"
FILES = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))
PASSES_ON = {
    ("statements.py", "_spelled(statement, connection.dialect)"): "what it is told is looked at below",
    ("transactions.py", "sql"): "a connection for functions that are looked at below",
}
SAYS_SQL = {"rows", "row", "change", "change_each"}
"""The functions of `statements.py`: their second argument is a statement."""


def unfixed(tree: ast.Module) -> Iterator[str]:
    """Statements that are neither a constant nor a name for one of several constants."""
    for place in ast.walk(tree):
        if not isinstance(place, ast.FunctionDef):
            continue
        for call, name in calls(place):
            if name in SAYS_SQL and isinstance(call.func, ast.Name) and len(call.args) > 1:
                text = call.args[1]
                origins = made_of(text, place)
                if not is_fixed(text) and not (origins and all(map(_is_constant, origins))):
                    yield f"line {call.lineno}: {ast.unparse(text)}, made of {sorted(origins)}"


def _is_constant(text: str) -> bool:
    return text != "given" and not text.startswith("each of ") and is_fixed(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize("file", FILES)
def test_no_statement_of_an_application_is_made_of_values(file: str) -> None:
    tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
    assert {text for text in statements(tree) if (file, text) not in PASSES_ON} == set()
    assert file == "statements.py" or list(unfixed(tree)) == []
    assert [*problems_of_texts(file, tree), *problems_of_code(file, tree)] == []


def test_a_statement_made_of_values_is_found() -> None:
    seeded = "def f(connection, name):\n  statement = f'SELECT {name}'\n  rows(connection, statement)"
    assert list(unfixed(ast.parse(seeded)))
    assert list(unfixed(ast.parse("def f(connection, text):\n  change(connection, text)")))
    assert not list(unfixed(ast.parse("def f(connection):\n  change(connection, 'DELETE FROM t WHERE x = ?', 1)")))
