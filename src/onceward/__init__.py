"""Onceward: a durable task engine for work that spawns work.

It can't loop, it can't lose work, it can't run away with your money. Everything a user needs is here; submodules are
ours.
"""

from __future__ import annotations

from onceward.app import App
from onceward.batch import Batch, BatchStatus
from onceward.config import Config
from onceward.context import Context, Outcome, Spawned
from onceward.enqueueing import Enqueued
from onceward.envelope import Envelope
from onceward.errors import (
    BatchNotFound,
    ConfigError,
    IllegalTransition,
    LeaseLost,
    LineageNotFound,
    NoLineage,
    NotInThisVersion,
    OncewardError,
    PayloadError,
    SpawnRefused,
    StageEnded,
    StoreError,
    TaskNotFound,
    UnknownKind,
)
from onceward.hop import incoming, outgoing_headers
from onceward.importing import Imported
from onceward.lineage_view import Branch, Found, Lineage, LineageSummary, Refusal
from onceward.model.connection import Connection
from onceward.model.lineage import Limits, Rule
from onceward.model.outcome import Failed, Filtered, Retryable, Skipped, Waiting
from onceward.model.payload import Payload
from onceward.model.retry import Retry
from onceward.model.status import Event, Status
from onceward.model.stop_list import StopList
from onceward.pipeline import Pipeline
from onceward.stage import Isolation, Stage
from onceward.store.migrate import Migration
from onceward.view import Task
from onceward.why import Cause, Why

__all__ = [
    "App",
    "Batch",
    "BatchNotFound",
    "BatchStatus",
    "Branch",
    "Cause",
    "Config",
    "ConfigError",
    "Connection",
    "Context",
    "Enqueued",
    "Envelope",
    "Event",
    "Failed",
    "Filtered",
    "Found",
    "IllegalTransition",
    "Imported",
    "Isolation",
    "LeaseLost",
    "Limits",
    "Lineage",
    "LineageNotFound",
    "LineageSummary",
    "Migration",
    "NoLineage",
    "NotInThisVersion",
    "OncewardError",
    "Outcome",
    "Payload",
    "PayloadError",
    "Pipeline",
    "Refusal",
    "Retry",
    "Retryable",
    "Rule",
    "Skipped",
    "SpawnRefused",
    "Spawned",
    "Stage",
    "StageEnded",
    "Status",
    "StopList",
    "StoreError",
    "Task",
    "TaskNotFound",
    "UnknownKind",
    "Waiting",
    "Why",
    "incoming",
    "outgoing_headers",
]
