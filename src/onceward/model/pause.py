"""What an operator has paused: everything, a queue, a pipeline, a source, or one instance of a source.

A pause is a text, its scope: `everything`, `queue:slow`, `pipeline:listing`, `source:web`, `source:web/example.com`.
"""

from __future__ import annotations

from typing import NamedTuple

from onceward.errors import ConfigError
from onceward.model.arguments import shown
from onceward.model.gates import read_gates, source_of

EVERYTHING = "everything"
LONGEST_NAME = 400


def scope_of(*, pipeline: str | None, source: str | None, queue: str | None) -> str:
    """The scope that is meant: one of these, or everything."""
    given = {what: name for what, name in (("pipeline", pipeline), ("source", source), ("queue", queue)) if name}
    if not given and (pipeline, source, queue) != (None, None, None):
        raise ConfigError("a pipeline, a source or a queue has a name; without any of them everything is meant")
    if len(given) > 1:
        raise ConfigError(f"give one of {', '.join(given)} at a time; each is paused by itself")
    for what, name in given.items():
        if not isinstance(name, str) or not name.isprintable() or len(name) > LONGEST_NAME:
            raise ConfigError(f"{shown(name)} is no name of a {what}")
        return f"{what}:{name}"
    return EVERYTHING


def scope_text(scope: str) -> str:
    """A scope as one says it: `the queue slow`."""
    what, _, name = scope.partition(":")
    return f"the {what} {name}" if name else scope


class Pauses(NamedTuple):
    """All pauses at one moment."""

    scopes: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.scopes)

    def of_line(self, lane: str) -> str | None:
        """What holds a line, governed or not: everything, its queue or its pipeline."""
        queue, _, kind = lane.partition("@")[0].removeprefix("!").partition(":")
        return next((one for one in (EVERYTHING, f"queue:{queue}", f"pipeline:{kind}") if one in self.scopes), None)

    def of_gate(self, gate: str) -> str | None:
        """What holds the gate of a source: a pause of all its instances, or of this one."""
        return next((one for one in (f"source:{source_of(gate)}", f"source:{gate}") if one in self.scopes), None)

    def hold(self, lane: str, gates: str | None) -> bool:
        """Whether a task that stands in a line, and has these gates to pass, is held back."""
        named = () if gates is None else read_gates(gates)
        return self.of_line(lane) is not None or any(self.of_gate(gate.name) is not None for gate in named)

    def open_lines(self, lanes: tuple[str, ...]) -> tuple[str, ...]:
        """The lines of these that are not paused."""
        return tuple(lane for lane in lanes if self.of_line(lane) is None) if self.scopes else lanes


NO_PAUSES = Pauses()
