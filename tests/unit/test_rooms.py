"""The rooms of the store offer modules to the engine; the others are their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
STORE = SOURCE / "onceward" / "store"
ROOMS = sorted(path.name for path in STORE.iterdir() if (path / "__init__.py").exists())


def imported(path: Path) -> Iterator[str]:
    """The modules of the store that a file imports, also at first use (`modules`)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("onceward.store"):
            parts = node.module.split(".")
            if len(parts) > 3 or node.module == "onceward.store.op":
                yield node.module
            else:
                yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "modules":
            names = [name.value for name in node.args if isinstance(name, ast.Constant)]
            yield from (name for name in names if str(name).startswith("onceward.store"))


def test_nothing_outside_the_store_reaches_past_what_its_rooms_offer() -> None:
    offered = {
        f"onceward.store.{room}.{name}" for room in ROOMS for name in import_module(f"onceward.store.{room}").__all__
    }
    offered.add("onceward.store.op")
    used = {
        (str(path.relative_to(SOURCE)), module)
        for path in SOURCE.rglob("*.py")
        if not path.is_relative_to(STORE)
        for module in imported(path)
    }
    assert {(path, module) for path, module in used if module not in offered} == set()
    assert offered == {module for _, module in used}, "what nothing outside uses is not offered"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_offers_modules_that_are_there(room: str) -> None:
    for name in import_module(f"onceward.store.{room}").__all__:
        assert import_module(f"onceward.store.{room}.{name}").__doc__
