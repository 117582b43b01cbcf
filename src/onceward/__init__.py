"""Onceward: a durable task engine for work that spawns work.

It can't loop, it can't lose work, it can't run away with your money. Everything a user needs is here; submodules are
ours.
"""

from __future__ import annotations

from onceward.alerts import Alert, Watch
from onceward.app import App
from onceward.batch import Batch, BatchStatus
from onceward.budgeting import BudgetStatus
from onceward.cache_operations import CacheStatus
from onceward.calls import CallTimeout
from onceward.config import Config
from onceward.context import Context
from onceward.enqueueing import Enqueued
from onceward.envelope import Envelope
from onceward.errors import (
    BatchNotFound,
    BudgetNotFound,
    ConfigError,
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
from onceward.governing import Pause, SourceState, SourceStatus
from onceward.hop import incoming, outgoing_headers
from onceward.importing import Imported
from onceward.lineage_view import Branch, Found, Lineage, LineageSummary, Refusal
from onceward.model.budget import Budget
from onceward.model.connection import Connection
from onceward.model.lineage import Limits, Rule
from onceward.model.outcome import Failed, Filtered, Retryable, Skipped, Waiting
from onceward.model.payload import Payload
from onceward.model.retry import Retry
from onceward.model.schedule import Cron
from onceward.model.setting import Setting, SettingValue
from onceward.model.source import Breaker, Source
from onceward.model.stats import AttemptCounts, StageDuration
from onceward.model.status import Event, Status
from onceward.model.stop_list import StopList
from onceward.pipeline import Pipeline
from onceward.scheduling import ScheduleStatus
from onceward.stage import Isolation, Stage
from onceward.stage_view import Outcome, Spawned
from onceward.stats import Stats, StuckTask
from onceward.store.migrate import Migration
from onceward.ticking import TickReport
from onceward.triggers import HttpTrigger, LambdaTrigger, NextTick, SubprocessTrigger
from onceward.view import Task
from onceward.why import Cause, Why

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
    "CacheStatus",
    "CallTimeout",
    "Cause",
    "Config",
    "ConfigError",
    "Connection",
    "Context",
    "Cron",
    "Enqueued",
    "Envelope",
    "Event",
    "Failed",
    "Filtered",
    "Found",
    "HttpTrigger",
    "IllegalTransition",
    "Imported",
    "Isolation",
    "LambdaTrigger",
    "LeaseLost",
    "Limits",
    "Lineage",
    "LineageNotFound",
    "LineageSummary",
    "Migration",
    "NextTick",
    "NoLineage",
    "OncewardError",
    "Outcome",
    "Pause",
    "Payload",
    "PayloadError",
    "Pipeline",
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
    "TaskNotFound",
    "TickReport",
    "UnknownKind",
    "Waiting",
    "Watch",
    "Why",
    "incoming",
    "outgoing_headers",
]
