"""Onceward: a durable task engine for work that spawns work.

It can't loop, it can't lose work, it can't run away with your money. Everything a user needs is here; submodules are
ours.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onceward.app import App
    from onceward.authoring.calls import CallTimeout
    from onceward.authoring.context import Context
    from onceward.authoring.pipeline import Pipeline
    from onceward.authoring.stage import Isolation, Stage
    from onceward.authoring.stage_view import Outcome, Spawned
    from onceward.baggage import incoming, outgoing_headers
    from onceward.client.batch import Batch, BatchStatus
    from onceward.client.enqueueing import Enqueued
    from onceward.client.importing import Imported
    from onceward.errors import (
        BatchNotFound,
        BudgetNotFound,
        BulkNotFound,
        CallsExceeded,
        ConfigError,
        FilterError,
        IllegalTransition,
        LeaseLost,
        LineageNotFound,
        NoLineage,
        OncewardError,
        PayloadError,
        ScheduleNotFound,
        SourceNotFound,
        SpawnRefused,
        StageEnded,
        StoreError,
        TaskNotFound,
        UnknownKind,
    )
    from onceward.model.budget import Budget
    from onceward.model.connection import Connection
    from onceward.model.error_groups import ErrorGroup
    from onceward.model.failure import Failure
    from onceward.model.filter_completion import Completion
    from onceward.model.hour import Hour, LineageHour, Minute, PipelineHour
    from onceward.model.lineage import Limits, Rule
    from onceward.model.outcome import Failed, Filtered, Retryable, Skipped, Waiting
    from onceward.model.payload import Payload
    from onceward.model.retry import Retry
    from onceward.model.schedule import Cron
    from onceward.model.setting import Setting, SettingValue
    from onceward.model.source import Breaker, Source
    from onceward.model.sql_text import sql
    from onceward.model.stats import AttemptCounts, LineWait, Pace, StageDuration
    from onceward.model.status import Event, Status
    from onceward.model.stop_list import StopList
    from onceward.model.task_filter import TaskFilter
    from onceward.operations.budgets import BudgetStatus, HoldStatus
    from onceward.operations.bulk import BulkPreview, BulkStatus
    from onceward.operations.cache import CacheStatus
    from onceward.operations.schedules import ScheduleStatus
    from onceward.operations.searching import Counted, TaskPage
    from onceward.operations.sources import SourceState, SourceStatus
    from onceward.operations.stats import Stats, StuckTask
    from onceward.operations.ticks import TickReport
    from onceward.operations.triggers import HttpTrigger, LambdaTrigger, NextTick, SubprocessTrigger
    from onceward.operations.workers import Pause
    from onceward.settings.config import Config
    from onceward.store.drivers.migrate import Migration
    from onceward.views.alerts import Alert, Watch
    from onceward.views.envelope import Envelope
    from onceward.views.lineage import Branch, Found, Lineage, LineageSummary, Refusal
    from onceward.views.task import Task
    from onceward.views.why import Cause, Why

__all__ = [
    "Alert",
    "App",
    "AttemptCounts",
    "Batch",
    "BatchNotFound",
    "BatchStatus",
    "Branch",
    "Breaker",
    "Budget",
    "BudgetNotFound",
    "BudgetStatus",
    "BulkNotFound",
    "BulkPreview",
    "BulkStatus",
    "CacheStatus",
    "CallTimeout",
    "CallsExceeded",
    "Cause",
    "Completion",
    "Config",
    "ConfigError",
    "Connection",
    "Context",
    "Counted",
    "Cron",
    "Enqueued",
    "Envelope",
    "ErrorGroup",
    "Event",
    "Failed",
    "Failure",
    "FilterError",
    "Filtered",
    "Found",
    "HoldStatus",
    "Hour",
    "HttpTrigger",
    "IllegalTransition",
    "Imported",
    "Isolation",
    "LambdaTrigger",
    "LeaseLost",
    "Limits",
    "LineWait",
    "Lineage",
    "LineageHour",
    "LineageNotFound",
    "LineageSummary",
    "Migration",
    "Minute",
    "NextTick",
    "NoLineage",
    "OncewardError",
    "Outcome",
    "Pace",
    "Pause",
    "Payload",
    "PayloadError",
    "Pipeline",
    "PipelineHour",
    "Refusal",
    "Retry",
    "Retryable",
    "Rule",
    "ScheduleNotFound",
    "ScheduleStatus",
    "Setting",
    "SettingValue",
    "Skipped",
    "Source",
    "SourceNotFound",
    "SourceState",
    "SourceStatus",
    "SpawnRefused",
    "Spawned",
    "Stage",
    "StageDuration",
    "StageEnded",
    "Stats",
    "Status",
    "StopList",
    "StoreError",
    "StuckTask",
    "SubprocessTrigger",
    "Task",
    "TaskFilter",
    "TaskNotFound",
    "TaskPage",
    "TickReport",
    "UnknownKind",
    "Waiting",
    "Watch",
    "Why",
    "incoming",
    "outgoing_headers",
    "sql",
]

_HOMES = {
    "onceward.views.alerts": ("Alert", "Watch"),
    "onceward.app": ("App",),
    "onceward.client.batch": ("Batch", "BatchStatus"),
    "onceward.operations.budgets": ("BudgetStatus", "HoldStatus"),
    "onceward.operations.cache": ("CacheStatus",),
    "onceward.authoring.calls": ("CallTimeout",),
    "onceward.settings.config": ("Config",),
    "onceward.authoring.context": ("Context",),
    "onceward.client.enqueueing": ("Enqueued",),
    "onceward.views.envelope": ("Envelope",),
    "onceward.errors": (
        "BatchNotFound",
        "BudgetNotFound",
        "BulkNotFound",
        "CallsExceeded",
        "ConfigError",
        "FilterError",
        "IllegalTransition",
        "LeaseLost",
        "LineageNotFound",
        "NoLineage",
        "OncewardError",
        "PayloadError",
        "ScheduleNotFound",
        "SourceNotFound",
        "SpawnRefused",
        "StageEnded",
        "StoreError",
        "TaskNotFound",
        "UnknownKind",
    ),
    "onceward.operations.bulk": ("BulkPreview", "BulkStatus"),
    "onceward.operations.searching": ("Counted", "TaskPage"),
    "onceward.model.filter_completion": ("Completion",),
    "onceward.model.error_groups": ("ErrorGroup",),
    "onceward.model.hour": ("Hour", "LineageHour", "Minute", "PipelineHour"),
    "onceward.model.task_filter": ("TaskFilter",),
    "onceward.operations.sources": ("SourceState", "SourceStatus"),
    "onceward.operations.workers": ("Pause",),
    "onceward.baggage": ("incoming", "outgoing_headers"),
    "onceward.client.importing": ("Imported",),
    "onceward.views.lineage": ("Branch", "Found", "Lineage", "LineageSummary", "Refusal"),
    "onceward.model.budget": ("Budget",),
    "onceward.model.connection": ("Connection",),
    "onceward.model.failure": ("Failure",),
    "onceward.model.lineage": ("Limits", "Rule"),
    "onceward.model.outcome": ("Failed", "Filtered", "Retryable", "Skipped", "Waiting"),
    "onceward.model.payload": ("Payload",),
    "onceward.model.retry": ("Retry",),
    "onceward.model.schedule": ("Cron",),
    "onceward.model.setting": ("Setting", "SettingValue"),
    "onceward.model.source": ("Breaker", "Source"),
    "onceward.model.sql_text": ("sql",),
    "onceward.model.stats": ("AttemptCounts", "LineWait", "Pace", "StageDuration"),
    "onceward.model.status": ("Event", "Status"),
    "onceward.model.stop_list": ("StopList",),
    "onceward.authoring.pipeline": ("Pipeline",),
    "onceward.operations.schedules": ("ScheduleStatus",),
    "onceward.authoring.stage": ("Isolation", "Stage"),
    "onceward.authoring.stage_view": ("Outcome", "Spawned"),
    "onceward.operations.stats": ("Stats", "StuckTask"),
    "onceward.store.drivers.migrate": ("Migration",),
    "onceward.operations.ticks": ("TickReport",),
    "onceward.operations.triggers": ("HttpTrigger", "LambdaTrigger", "NextTick", "SubprocessTrigger"),
    "onceward.views.task": ("Task",),
    "onceward.views.why": ("Cause", "Why"),
}
"""Where each name is at home; it is imported when it is first used, and with it what it needs."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def _found(name: str) -> Any:
    """The value of a public name: of `onceward.App`, say."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("onceward")
    elif name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    setattr(sys.modules[__name__], name, value)  # found without us the next time
    return value


def __dir__() -> list[str]:
    return sorted({*vars(sys.modules[__name__]), *__all__})


if TYPE_CHECKING:
    __version__: str
else:  # type checkers know the names from the imports above, and no others
    __getattr__ = _found
