"""A running stage and its gates: pass one more, leave all, and report what the sources did.

A task that leaves a gate frees its slot for the tasks that wait; its outcomes are reported to the breaker of its source
(decisions 26 and 35).
"""

from __future__ import annotations

from collections.abc import Sequence

from onceward.model.gates import SourceReport
from onceward.model.retry import LONGEST_WISH_MS
from onceward.model.source import GateLimits, GateState, NotYet, after_outcomes, after_taking, allowance
from onceward.model.task import NEVER, Commit, Lease
from onceward.store.governance.gate_claim import correct_gate_clock
from onceward.store.lines.pause_scopes import read_pauses
from onceward.store.op import Many, Op, Query

ASKED_US = "it asked us to wait"
REPORT_EVERY_MS = 1_000
"""How often a success is reported to a healthy source."""


def close_gate(gate: str, pause_ms: int, now: int) -> Op[NotYet]:
    """Close a gate for the time that its source has asked for; a longer pause stays as it is."""
    until = now + min(pause_ms, LONGEST_WISH_MS)
    while not (yield Query("close_gate", {"gate": gate, "until": until, "why": ASKED_US})):
        yield Many("insert_gates", [(gate,)])
    return NotYet(gate, until)


def take_tokens(lease: Lease, gate: str, limits: GateLimits, tokens: int, now: int) -> Op[NotYet | None]:
    """Let a running task pass a gate for one outside call; else return when it may.

    Without tokens only check that the gate is still open: the task has passed it already.
    """
    if (yield from read_pauses()).of_gate(gate) is not None:
        return NotYet(gate, NEVER)
    while not (held := (yield Query("hold_gate", {"gate": gate}))):
        yield Many("insert_gates", [(gate,)])  # no task has passed it yet, or it was pruned
    [(_, *row)] = held
    state = yield from correct_gate_clock(gate, GateState.stored(*row), now)
    if not tokens:
        is_open = state.enabled and state.paused_until <= now
        return None if is_open else NotYet(gate, state.paused_until if state.enabled else NEVER)
    inside = probes = 0
    if limits.has_slots or state.is_probing(now):
        if rows := (yield Query("inside_gates", {"names": [gate]})):
            [(_, inside, probes)] = rows
        if (yield Query("is_inside", {"gate": gate, "task": lease.task, "token": lease.token})):
            inside, probes = inside - 1, 0  # its own place is not in its way
    allowed = allowance(limits, state, inside, probes, tokens, now)
    if not allowed.count:
        return NotYet(gate, allowed.again_at, is_full=allowed.is_full)
    yield Many("take_from_gates", [(gate, after_taking(limits, state.tat, tokens, now), tokens)], (now,))
    if limits.has_slots or state.is_probing(now):
        yield Many("insert_slots", [(gate, lease.task, lease.token, int(state.is_probing(now)), now)])
    return None


def leave_gates(ended: Sequence[Commit], reports: Sequence[SourceReport], now: int) -> Op[None]:
    """Free the slots of stages that have ended, and report to their gates how their sources served them.

    Most reports are equal; `reports` has each once. Several gates with different reports are locked first, in order,
    together with those whose cache lookups are counted afterwards (decision 46).
    """
    inside = sorted([commit.lease.task for commit in ended if commit.lease.is_inside])
    if inside:
        freed = sorted({row[0] for row in (yield Query("leave_gates", {"ids": inside}))})
        if freed:
            yield Query("wake_turns", {"gates": freed, "now": now})
    gates = {report.gate for report in reports if report.says_something}
    others = {report.gate for report in reports if report.says_something and not report.is_plain_success}
    healthy = gates - others
    counted = {report.gate for report in reports if report.hits or report.misses}
    if (others or counted) and len(gates | counted) > 1:
        yield Query("hold_gates", {"names": sorted(gates | counted)})
    if healthy:
        yield Query("report_success", {"gates": sorted(healthy), "now": now, "before": now - REPORT_EVERY_MS})
    for gate in sorted(others):
        mine = [report for commit in ended for report in commit.reports if report.gate == gate]
        yield from _report_to_gate(gate, [report for report in mine if report.says_something], now)


def _report_to_gate(gate: str, reports: Sequence[SourceReport], now: int) -> Op[None]:
    """Write the outcomes of calls through one gate: breaker, pause asked for, unused tokens."""
    rows = yield Query("hold_gate", {"gate": gate})
    if not rows:
        return
    state = GateState.stored(*rows[0][1:]).as_of(now)
    outcomes = [outcome for report in reports for outcome in report.outcomes]
    breaker = next((report.breaker for report in reports if False in report.outcomes), None)
    after = after_outcomes(breaker, state, outcomes, now)
    asked_ms = [min(report.pause_ms, LONGEST_WISH_MS) for report in reports if report.pause_ms is not None]
    asked_until = now + max(asked_ms) if asked_ms else 0
    failures = outcomes.count(False)
    error = next((report.error for report in reversed(reports) if report.error is not None), None)
    unused_us = sum(report.unused_us for report in reports)
    if unused_us:  # tasks that wait for tokens may pass earlier
        yield Query("wake_turns", {"gates": [gate], "now": now})
    opened = after.opened > state.opened
    why = None
    if not after.enabled:
        why = f"disabled after {_in_a_row(after.streak)}"
    elif opened:
        why = f"paused after {_in_a_row(after.streak)}"
    elif asked_until > after.paused_until:
        why = ASKED_US
    yield Query(
        "change_gate",
        {
            "gate": gate,
            "tat": state.tat - unused_us,
            "taken_at": state.taken_at,
            "enabled": int(after.enabled),
            "streak": after.streak,
            "paused_until": max(after.paused_until, asked_until),
            "is_half_open": int(after.is_half_open),
            "opened": after.opened,
            "why": why,
            "failures": failures,
            "last_success_at": now if True in outcomes else None,
            "last_failure_at": now if failures else None,
            "last_error": error,
        },
    )


def _in_a_row(streak: int) -> str:
    return f"{streak} failures in a row" if streak != 1 else "a failure"
