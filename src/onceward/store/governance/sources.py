"""Sources for operators: the state of each gate, and how many tasks wait behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onceward.model.gates import Gate, read_gates
from onceward.model.pause import Pauses
from onceward.model.source import GateState
from onceward.model.task import gates_in
from onceward.store.lines.pause_scopes import read_pauses, wake_source
from onceward.store.op import Many, Op, Query


class GateRow(NamedTuple):
    """The row of a gate."""

    name: str
    tat: int = 0
    enabled: int = 1
    streak: int = 0
    paused_until: int = 0
    is_half_open: int = 0
    opened: int = 0
    taken_at: int = 0
    why: str | None = None
    calls: int = 0
    failures: int = 0
    hits: int = 0
    misses: int = 0
    last_success_at: int | None = None
    last_failure_at: int | None = None
    last_error: str | None = None

    @property
    def state(self) -> GateState:
        """The state that a claim computes with."""
        return GateState.stored(
            self.tat, self.enabled, self.streak, self.paused_until, self.is_half_open, self.opened, self.taken_at
        )


class GateFacts(NamedTuple):
    """A gate, how many tasks are inside or wait, and whether it is paused."""

    row: GateRow
    inside: int = 0
    probes: int = 0
    waiting: int = 0
    """How many tasks stand in lines behind it."""
    waiting_since: int | None = None
    paused_by: str | None = None
    """The scope of the pause that closes it."""


def gate_facts(gates: Sequence[str], pauses: Pauses) -> Op[dict[str, GateFacts]]:
    """Read the state of gates; gates without a row are as new."""
    names = list(gates)
    if not names:
        return {}
    rows = {row[0]: GateRow(*row) for row in (yield Query("read_gates", {"names": names}))}
    inside = {gate: (count, probes) for gate, count, probes in (yield Query("inside_gates", {"names": names}))}
    return {
        name: GateFacts(rows.get(name, GateRow(name)), *inside.get(name, (0, 0)), paused_by=pauses.of_gate(name))
        for name in names
    }


def read_sources(source: str | None, known: Sequence[str]) -> Op[list[GateFacts]]:
    """Read all gates of all sources, or of one, by name; `known` are sources that may have no gate yet."""
    pauses = yield from read_pauses()
    names = {row[0] for row in (yield Query("source_gates", {"source": source}))}
    waiting = yield from _waiting(source)
    facts = yield from gate_facts(sorted(names | set(waiting) | set(known)), pauses)
    return [
        gate._replace(waiting=count, waiting_since=since)
        for name, gate in sorted(facts.items())
        for count, since in [waiting.get(name, (0, None))]
    ]


def _waiting(source: str | None) -> Op[dict[str, tuple[int, int | None]]]:
    """How many tasks wait behind each gate of a source, and since when the first one does."""
    waiting: dict[str, tuple[int, int | None]] = {}
    for lane, count, since in (yield Query("governed_lines")):
        for gate in read_gates(gates_in(lane) or ""):
            if gate.is_source and (source is None or belongs(gate, source)):
                before, first = waiting.get(gate.name, (0, since))
                waiting[gate.name] = before + count, min(since, first or since)
    return waiting


def belongs(gate: Gate, source: str) -> bool:
    """Whether a gate is that source or one of its instances."""
    return gate.name == source or gate.name.startswith(f"{source}/")


def declare(longest_us: Mapping[str, int], now: int) -> Op[None]:
    """Shorten the refill of these sources' buckets to what their rates allow, and wake the lines behind.

    A bucket that would take longer was emptied at a rate that the code no longer has.
    """
    for source, us in sorted(longest_us.items()):
        tat = now * 1_000 + us
        emptier = [row[0] for row in (yield Query("emptier_gates", {"source": source, "tat": tat}))]
        for gate in emptier:
            yield Query("hold_gate", {"gate": gate})
            yield Query("fill_gate", {"gate": gate, "tat": tat})
        if emptier:
            yield from wake_source(source, now)


def enable(gates: Sequence[str], source: str, now: int) -> Op[None]:
    """Enable gates: their failure streaks and pauses are forgotten, and their lines looked at now."""
    yield Query("enable_gates", {"names": list(gates)})
    yield from wake_source(source, now)
    yield Query("notify")


def disable(gates: Sequence[str]) -> Op[None]:
    """Disable gates until an operator enables them."""
    yield Many("disable_gates", [(name,) for name in sorted(gates)], (0, "disabled by an operator"))
