"""Onceward: a durable task engine for work that spawns work.

It can't loop, it can't lose work, it can't run away with your money. Everything a user needs is here; submodules are
ours.
"""

from __future__ import annotations

from onceward.app import App, Enqueued
from onceward.config import Config
from onceward.context import Context
from onceward.errors import (
    ConfigError,
    IllegalTransition,
    LeaseLost,
    NotInThisVersion,
    OncewardError,
    PayloadError,
    StageEnded,
    StoreError,
    TaskNotFound,
    UnknownKind,
)
from onceward.model.connection import Connection
from onceward.model.outcome import Failed, Filtered, Retryable, Skipped, Waiting
from onceward.model.payload import Payload
from onceward.model.retry import Retry
from onceward.model.status import Event, Status
from onceward.pipeline import Pipeline
from onceward.stage import Isolation, Stage
from onceward.store.migrate import Migration
from onceward.view import Task

__all__ = [
    "App",
    "Config",
    "ConfigError",
    "Connection",
    "Context",
    "Enqueued",
    "Event",
    "Failed",
    "Filtered",
    "IllegalTransition",
    "Isolation",
    "LeaseLost",
    "Migration",
    "NotInThisVersion",
    "OncewardError",
    "Payload",
    "PayloadError",
    "Pipeline",
    "Retry",
    "Retryable",
    "Skipped",
    "Stage",
    "StageEnded",
    "Status",
    "StoreError",
    "Task",
    "TaskNotFound",
    "UnknownKind",
    "Waiting",
]
