"""Mistakes in what a function given to `ctx.write` may do with the connection that it is lent."""

from __future__ import annotations

from tests.mutants.applying import Edit, Mutant

_REFUSED = ("tests/worker/test_effects.py::test_a_write_can_neither_end_the_transaction_nor_touch_the_engines_tables",)

MUTANTS = (
    Mutant(
        "schema unguarded",
        "a write changes the schema of the engine's tables on SQLite",
        (Edit("store/drivers/authorizer.py", "if action in _ROWS else (first, second)", "if action in _ROWS else ()"),),
        _REFUSED,
    ),
    Mutant(
        "allowed before",
        "a statement that the engine has prepared runs in a write without being asked about",
        (Edit("store/drivers/sqlite.py", "has_cache=True", "has_cache=False"),),
        _REFUSED,
    ),
    Mutant(
        "name in codes",
        "a table of the engine's is not known by a name that is written in codes",
        (Edit("store/drivers/sql_check.py", 'found["escape"] or "\\\\"', 'found["escape"] or "!"'),),
        _REFUSED,
    ),
    Mutant(
        "code unread",
        "a write runs code that nothing has looked at",
        (Edit("store/drivers/sql_check.py", 'if command == "do":', "if False:"),),
        _REFUSED,
    ),
)  # fmt: skip
