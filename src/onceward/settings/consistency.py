"""Numbers that contradict each other: each is fine by itself, together they promise what cannot be kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onceward.authoring.pipeline import Pipeline
from onceward.errors import ConfigError
from onceward.model.retry import retry_in_force
from onceward.model.source import CallLimits, Source
from onceward.model.times import duration_text
from onceward.settings.config import Config


def check(config: Config, pipelines: Iterable[Pipeline[Any]] = ()) -> None:
    """Refuse numbers that contradict each other, with the sum."""
    _refuse_calls_without_time(
        "one outside call", 1, config.call_retries, config.call_timeout_ms, config.stage_timeout_ms,
        "call_retries, call_timeout or stage_timeout",
    )  # fmt: skip
    if config.stage_timeout_ms > config.task_limit_ms:
        raise ConfigError(
            f"stage_timeout={duration_text(config.stage_timeout_ms)} is longer than "
            f"task_limit={duration_text(config.task_limit_ms)}: a stage that took its time would never be tried again"
        )
    if config.tick_lease_ms > config.tick_every_ms:
        raise ConfigError(
            f"tick_lease={duration_text(config.tick_lease_ms)} is longer than "
            f"tick_every={duration_text(config.tick_every_ms)}: "
            "what a crashed tick had claimed would not run in the next one"
        )
    if config.watch_every_ms > config.watch_window_ms:
        raise ConfigError(
            f"watch_every={duration_text(config.watch_every_ms)} is longer than "
            f"watch_window={duration_text(config.watch_window_ms)}: what happens in between would not be seen"
        )
    if config.cache and config.cache_size == 0:
        raise ConfigError("cache=true with cache_size=0 keeps nothing; to keep no answers say cache=false")
    usual = CallLimits(config.call_timeout_ms, config.call_retries)
    for pipeline in pipelines:
        try:
            retry_in_force(pipeline.retry, config.usual_retries)
        except ConfigError as error:
            raise ConfigError(
                f"pipeline {pipeline.kind!r}: {error}: change its Retry, retry_base or retry_cap"
            ) from None
        for stage in pipeline.stages:
            if stage.source is not None:
                _refuse_breaker_that_never_pauses(stage.source, config.breaker_failures)
            source, stage_ms, calls = stage.source, stage._limit_ms(config.stage_timeout_ms), stage.calls
            if (
                callable(calls)
                or source is None
                or stage_ms is None
                or (stage.declares_timeout and source.timeout_ms is None)
            ):
                continue  # who says nothing of its calls has the time that its stage has
            timeout_ms, retries = source.call_limits(usual)
            _refuse_calls_without_time(
                f"stage {pipeline.kind}.{stage.name}", calls, retries, timeout_ms, stage_ms,
                f"retries or timeout of source {source.name!r}, or calls or timeout of the stage",
            )  # fmt: skip


def _refuse_breaker_that_never_pauses(source: Source, usual: int) -> None:
    rule = source.gate.breaker
    if rule is None or rule.disable_after is None or rule.are_failures_given or rule.disable_after >= usual:
        return
    raise ConfigError(
        f"source {source.name!r}: disable_after={rule.disable_after} comes before breaker_failures={usual}: it would "
        "never pause; change disable_after, or say Breaker(failures=…)"
    )


def _refuse_calls_without_time(who: str, calls: int, retries: int, timeout_ms: int, stage_ms: int, change: str) -> None:
    needed_ms = calls * (retries + 1) * timeout_ms
    if needed_ms > stage_ms:
        times = f"{calls} calls x " if calls > 1 else ""
        raise ConfigError(
            f"{who} may take {times}({retries} retries + 1) x {duration_text(timeout_ms)} = "
            f"{duration_text(needed_ms)}, its stage has {duration_text(stage_ms)}: change {change}"
        )
