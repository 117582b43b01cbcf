"""What a stage reports to the breaker and the buckets of its source when it has ended.

Decision record: docs/decisions/0026-gates.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from onceward.authoring.stage import Stage
from onceward.model.budget import Bill
from onceward.model.decide import fault_of
from onceward.model.gates import BUDGET, SourceReport, read_gates
from onceward.model.outcome import Retryable, Verdict
from onceward.model.retry import Retry
from onceward.model.source import BreakerRule, GateLimits, UsualBreaker, rule_in_force
from onceward.model.task import Effects, Lease
from onceward.worker.isolated import ProcessDied, RemoteError


def report_of(
    lease: Lease, stage: Stage[Any, Any], retry: Retry, error: BaseException | None, now: Callable[[], int]
) -> SourceReport | None:
    """The report of a stage as a whole to its source; None if there is nothing to report.

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
        return SourceReport(gate, (not isinstance(error, Retryable),), breaker)
    fault = error.fault if isinstance(error, RemoteError) else fault_of(error, retry, now())
    if fault.is_transient:
        return SourceReport(gate, (False,), breaker, fault.asked_ms, fault.reason)
    return None if fault.asked_ms is None else SourceReport(gate, (), breaker, fault.asked_ms)


def report_in_force(report: SourceReport, usual: UsualBreaker) -> SourceReport:
    """The same report with the breaker rule in force. A report without failures keeps its rule: it is not used."""
    if report.breaker is None or all(report.outcomes):
        return report
    return msgspec.structs.replace(report, breaker=rule_in_force(report.breaker, usual))


@lru_cache(maxsize=4_096)
def _answered(gates: str, breaker: BreakerRule | None) -> SourceReport:
    """The report of one success. Cached, because most stages report nothing else."""
    return SourceReport(read_gates(gates)[0].name, (True,), breaker)


@lru_cache(maxsize=4_096)
def success_effects(gates: str, breaker: BreakerRule | None) -> Effects:
    """The effects of a stage that only returned: a success for its source, and its unused reservations free again.

    Cached, because most stages have no other effects.
    """
    return Effects(reports=(_answered(gates, breaker),), bill=Bill((), True) if BUDGET in gates else None)


def token_refunds(lease: Lease, limits_of: Callable[[str], GateLimits]) -> tuple[SourceReport, ...]:
    """The tokens that go back to the buckets of a stage that never began."""
    if lease.gates is None:
        return ()
    return tuple(
        SourceReport(gate.name, (), unused_us=gate.tokens * interval_us)
        for gate in read_gates(lease.gates)
        if (interval_us := limits_of(gate.name).interval_us) is not None
    )
