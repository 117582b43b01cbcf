"""Rows of ticks: the times of each, its place in its chain, and what it has done."""

from __future__ import annotations

from onceward.store.op import Op, Query


def begin_tick(chain: int, now: int) -> Op[int]:
    """Store the begin of a tick, after so many self-triggers; returns its number."""
    [(tick,)] = yield Query("begin_tick", {"chain": chain, "now": now})
    return int(tick)


def end_tick(tick: int, worker: int | None, tasks: int, how: str, triggered: bool, now: int) -> Op[None]:
    """Store the end of a tick."""
    facts = {"tick": tick, "worker": worker, "tasks": tasks, "how": how, "triggered": int(triggered), "now": now}
    yield Query("end_tick", facts)


def prune_ticks(before: int) -> Op[None]:
    """Delete the ticks that began before a time."""
    yield Query("prune_ticks", {"before": before})
