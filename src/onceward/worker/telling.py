"""What a source is told of a stage that has used it, when the stage has ended."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from onceward.model.budget import Bill
from onceward.model.gates import BUDGET, Told, read_gates
from onceward.model.outcome import Retryable, Verdict
from onceward.model.retry import Retry, described, retry_after_ms
from onceward.model.source import BreakerRule, GateLimits
from onceward.model.task import Effects, Lease
from onceward.stage import Stage
from onceward.worker.isolated import ProcessDied, RemoteError


def told_of(
    lease: Lease, stage: Stage[Any, Any], retry: Retry, error: BaseException | None, now: Callable[[], int]
) -> Told | None:
    """What the source of a stage hears of it as a whole.

    A failure is whatever would be tried again: a verdict, or an error that is permanent, means that it has answered.
    """
    if stage.source is None or lease.gates is None or isinstance(error, ProcessDied):
        return None
    breaker = stage.source.gate.breaker
    if error is None:
        return _answered(lease.gates, breaker)
    gate = read_gates(lease.gates)[0].name
    if isinstance(error, RemoteError):
        return Told(gate, (error.fault.is_permanent,), breaker, error.fault.asked_ms, error.fault.reason)
    if isinstance(error, Verdict):
        return Told(gate, (not isinstance(error, Retryable),), breaker)
    if retry.is_permanent(error):
        return _answered(lease.gates, breaker)
    return Told(gate, (False,), breaker, retry_after_ms(error, now()), described(error))


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
    gate = read_gates(lease.gates)[0]
    interval_us = limits_of(gate.name).interval_us
    return () if interval_us is None else (Told(gate.name, (), unused_us=gate.tokens * interval_us),)
