"""Ticks: one bounded run of a worker that then ends, for cron, timers and serverless.

A tick sweeps first, claims like any worker under a lease of its own, and ends by itself. While work is ready and its
chain allows, it triggers the next one; what is left then is for the schedule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from onceward.authoring.current_stage import current, refuse_while_importing
from onceward.authoring.registry import Registry
from onceward.client.client import Client
from onceward.errors import ConfigError, StoreError
from onceward.model.retry import error_text
from onceward.model.times import Duration, duration_text, milliseconds
from onceward.support.lazily import modules
from onceward.support.logs import EngineLog
from onceward.worker import find_app
from onceward.worker.event_loop import refuse_running_loop
from onceward.worker.worker_orders import Orders, Summary, Tick

if TYPE_CHECKING:  # a program that asks for work does not do any
    from onceward.operations import triggers
    from onceward.operations.triggers import NextTick, Trigger
    from onceward.store.lines import idle
    from onceward.store.operations import ticks
else:
    (triggers,) = modules("onceward.operations.triggers")
    idle, ticks = modules("onceward.store.lines.idle", "onceward.store.operations.ticks")

logger = EngineLog("onceward.tick")


@dataclass(frozen=True, slots=True)
class TickReport:
    """What a tick has done."""

    id: int
    chain: int
    """How many self-triggers came before it since the scheduled tick, which has 0."""
    chain_left: int
    """How many self-triggers its chain had left when it began."""
    tasks: int
    """How many attempts have ended in it, those that were given back not counted."""
    outcomes: dict[str, int]
    """How they ended: succeeded, failed, retryable, deferred, …"""
    released: int
    """How many it gave back unfinished."""
    reclaimed: int
    """How many it took back from dead workers before and while it worked."""
    expired: int
    """How many have failed in its sweeps because their time was over."""
    seconds: float
    ended: str
    """Why it ended: `idle`, `max tasks`, `time limit` or `stopped`."""
    work_left: bool
    """Whether anything was ready then."""
    triggered: bool
    why_not: str | None
    """Why it has not triggered the next one, if it has not."""


def run_tick(
    client: Client,
    work: Callable[[Orders], Summary],
    *,
    max_tasks: int | None = None,
    time_limit: Duration | None = None,
    chain: int | None = None,
    chain_left: int | None = None,
    trigger: Trigger | None = None,
    concurrency: int | None = None,
    queues: Sequence[str] | None = None,
) -> TickReport:
    """Run one tick of a worker; `work` carries out orders in this process. `App.tick` says what the arguments mean."""
    refuse_while_importing("app.tick()")
    if current.get() is not None:
        raise ConfigError("a tick is a worker; it cannot be started by a stage that another worker runs")
    refuse_running_loop("tick")
    client._look_at_settings(at_once=True)
    client._registry.check_runnable()
    client._in_force.check()
    client._registry.lanes(queues)
    config = client.config
    bounds = Tick(
        _checked("max_tasks", config.tick_tasks if max_tasks is None else max_tasks, 1),
        config.tick_limit_ms if time_limit is None else milliseconds(time_limit),
    )
    allowed = _checked("chain", config.chain if chain is None else chain, 0)
    left = _checked("chain_left", allowed if chain_left is None else chain_left, 0)
    if left > allowed:
        raise ConfigError(f"chain_left={left} is more than chain={allowed}")
    refuse_long_stages(client._registry, bounds.limit_ms)
    path = find_app.location_of(client)
    pinned: dict[str, Any] = {} if concurrency is None else {"concurrency": concurrency}
    client._in_force.pin(**pinned, lease=config.tick_lease, heartbeat=None, check=None)
    try:
        number = client._transact(partial(ticks.begin_tick, allowed - left, client._store.clock.now()))
        started = time.monotonic()
        summary = _worked(
            client, work, number, Orders(None if queues is None else list(queues), app_path=path, tick=bounds)
        )
    finally:
        client._in_force.pin()
    work_left = _is_work_ready(client, queues)
    only = None if queues is None else tuple(queues)
    following = triggers.NextTick(path, bounds.max_tasks, bounds.limit_ms / 1_000, allowed, left - 1, only, concurrency)
    why_not = _why_not(summary, work_left, left) or _trigger(trigger or triggers.SubprocessTrigger(), following)
    released = summary.outcomes.pop("released", 0)
    tasks = summary.outcomes.total()
    _end_tick(client, number, summary.worker, tasks, summary.ended, triggered=why_not is None)
    return TickReport(
        number, allowed - left, left, tasks, dict(sorted(summary.outcomes.items())), released,
        summary.swept.reclaimed, summary.swept.expired, round(time.monotonic() - started, 3), summary.ended,
        work_left, why_not is None, why_not,
    )  # fmt: skip


def _worked(client: Client, work: Callable[[Orders], Summary], number: int, orders: Orders) -> Summary:
    try:
        return work(orders)
    except BaseException as error:
        with suppress(StoreError):  # a row that never says how it ended is counted as an error too
            _end_tick(client, number, None, 0, f"error: {error_text(error)}", triggered=False)
        raise


def _is_work_ready(client: Client, queues: Sequence[str] | None) -> bool:
    lanes = client._registry.lanes(queues) + client._registry.lanes(queues, suspect=True)
    return client._ask(lambda: idle.ready_now(lanes, client._store.clock.now()))


def _end_tick(client: Client, number: int, worker: int | None, tasks: int, how: str, *, triggered: bool) -> None:
    client._transact(lambda: ticks.end_tick(number, worker, tasks, how, triggered, client._store.clock.now()))


def refuse_long_stages(registry: Registry, limit_ms: int) -> None:
    """Refuse a stage that declares a longer timeout than a tick has: it would never begin."""
    if limit_ms < 1:
        raise ConfigError("a tick without time does nothing; give it a longer time_limit")
    for pipeline in registry:
        for stage in pipeline._every_stage:
            if stage.timeout_ms is not None and stage.timeout_ms > limit_ms:
                raise ConfigError(
                    f"stage {pipeline.kind}.{stage.name} may take {duration_text(stage.timeout_ms)}, longer than a "
                    f"tick of {duration_text(limit_ms)}: it would never begin; declare a shorter timeout, or none"
                )


def _checked(name: str, value: int, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}={value!r}: it is a whole number from {least}")
    return value


def _why_not(summary: Summary, work_left: bool, chain_left: int) -> str | None:
    if summary.ended == "stopped":
        return "it was stopped"
    if not work_left:
        return "no work is ready"
    return "its chain is at its end" if chain_left == 0 else None


def _trigger(trigger: Trigger, following: NextTick) -> str | None:
    """Start the next tick; why that could not be done, if it could not."""
    try:
        trigger(following)
    except Exception as error:  # whatever it is: the next tick of the schedule goes on
        logger.warning("the next tick could not be triggered", error=error_text(error))
        return f"the trigger failed: {error_text(error)}"
    return None
