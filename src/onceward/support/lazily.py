"""Modules that are imported when they are first used: a program pays for what it does, not for what it could do."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands in for a module. What is taken from it is kept, so that only the first use costs anything."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


def modules(*names: str) -> tuple[Any, ...]:
    """Stand-ins for modules. Type checkers are shown the real imports beside them."""
    return tuple(LazyModule(name) for name in names)
