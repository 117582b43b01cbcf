"""The rows of the ticks: when each ran, in which place of its chain, and what it has done."""

from __future__ import annotations

from onceward.store.op import Op, Query


def begin_tick(chain: int, now: int) -> Op[int]:
    """A tick begins, after so many self-triggers; returns its number."""
    [(tick,)] = yield Query("begin_tick", {"chain": chain, "now": now})
    return int(tick)


def end_tick(tick: int, worker: int | None, tasks: int, how: str, triggered: bool, now: int) -> Op[None]:
    """A tick has ended."""
    facts = {"tick": tick, "worker": worker, "tasks": tasks, "how": how, "triggered": int(triggered), "now": now}
    yield Query("end_tick", facts)


def prune_ticks(before: int) -> Op[None]:
    """Forget the ticks that began before a time."""
    yield Query("prune_ticks", {"before": before})
