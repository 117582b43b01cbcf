"""What a source is told of a stage that has used it, when the stage has ended."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from onceward.authoring.stage import Stage
from onceward.model.budget import Bill
from onceward.model.decide import fault_of
from onceward.model.gates import BUDGET, Told, read_gates
from onceward.model.outcome import Retryable, Verdict
from onceward.model.retry import Retry
from onceward.model.source import BreakerRule, GateLimits, UsualBreaker, rule_in_force
from onceward.model.task import Effects, Lease
from onceward.worker.isolated import ProcessDied, RemoteError


def told_of(
    lease: Lease, stage: Stage[Any, Any], retry: Retry, error: BaseException | None, now: Callable[[], int]
) -> Told | None:
    """What the source of a stage hears of it as a whole; None if nothing.

    A failure is a transient error, a timeout, or `Retryable`. A result and any other verdict are a success. An error
    that is permanent or unclassified says nothing: it may be a mistake in the stage.
    """
    if stage.source is None or lease.gates is None or isinstance(error, ProcessDied):
        return None
    breaker = stage.source.gate.breaker
    if error is None:
        return _answered(lease.gates, breaker)
    gate = read_gates(lease.gates)[0].name
    if isinstance(error, Verdict):
        return Told(gate, (not isinstance(error, Retryable),), breaker)
    fault = error.fault if isinstance(error, RemoteError) else fault_of(error, retry, now())
    if fault.is_transient:
        return Told(gate, (False,), breaker, fault.asked_ms, fault.reason)
    return None if fault.asked_ms is None else Told(gate, (), breaker, fault.asked_ms)


def heard_in_force(told: Told, usual: UsualBreaker) -> Told:
    """The same, by the breaker that is in force; one that hears of no failure is not asked."""
    if told.breaker is None or all(told.outcomes):
        return told
    return msgspec.structs.replace(told, breaker=rule_in_force(told.breaker, usual))


@lru_cache(maxsize=4_096)
def _answered(gates: str, breaker: BreakerRule | None) -> Told:
    """That a source has answered. The same for all stages that say so: most have nothing else to say."""
    return Told(read_gates(gates)[0].name, (True,), breaker)


@lru_cache(maxsize=4_096)
def only_answered(gates: str, breaker: BreakerRule | None) -> Effects:
    """What is committed of a stage that has only returned: that its source has answered, and what was set aside for it
    is free. The same for all of them."""
    return Effects(told=(_answered(gates, breaker),), bill=Bill((), True) if BUDGET in gates else None)


def unused(lease: Lease, limits_of: Callable[[str], GateLimits]) -> tuple[Told, ...]:
    """What the source of a stage that never began gets back."""
    if lease.gates is None:
        return ()
    return tuple(
        Told(gate.name, (), unused_us=gate.tokens * interval_us)
        for gate in read_gates(lease.gates)
        if (interval_us := limits_of(gate.name).interval_us) is not None
    )
