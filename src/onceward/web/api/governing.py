"""What the API answers and takes of what governs work, and of figures and records."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from onceward.web.api.schemas import Amount, Id, LineageId, Name


class SourceShown(Struct):
    """An outside service, or one instance of it."""

    name: str
    state: str
    enabled: bool
    streak: int
    calls: int
    failures: int
    opened: int
    last_success_at: datetime | None
    last_failure_at: datetime | None
    last_error: str | None
    paused_until: datetime | None
    why: str | None
    tokens: int | None
    burst: int | None
    inside: int
    concurrency: int | None
    hits: int
    misses: int
    waiting: int
    waiting_since: datetime | None
    is_known: bool


class BudgetShown(Struct):
    """A budget in its present window, for one of those whom it is for."""

    name: str
    scope: str
    unit: str
    per: str
    limit: Amount
    spent: Amount
    reserved: Amount
    held: Amount
    left: Amount
    window_at: datetime | None
    resets_at: datetime | None
    waiting: int
    is_closed: bool


class HoldShown(Struct):
    """An amount of a budget that a task holds beyond its stages."""

    task: Id
    kind: str | None
    name: str
    budget: str
    scope: str
    amount: Amount
    state: str
    since: datetime


class LimitAsked(Struct, forbid_unknown_fields=True):
    """Another limit of a budget, from its present window on."""

    limit: Amount
    scope: Name | None = None


class ScheduleShown(Struct):
    """Work at set times."""

    name: str
    kind: str
    expression: str
    tz: str
    missed: str
    next_at: datetime
    last_at: datetime | None
    last_task: Id | None
    fired: int
    paused: bool
    is_known: bool


class SettingShown(Struct):
    """A setting as it is in force. The value of a secret one is not shown."""

    name: str
    value: Any
    default: Any
    type: str
    about: str
    where: str
    changed_at: datetime | None
    changed_by: str | None
    why_fixed: str | None
    is_secret: bool


class SettingAsked(Struct, forbid_unknown_fields=True):
    """Another value of a setting, as text or of its own type."""

    value: Any


class AlertShown(Struct):
    """Trouble that a rule has found."""

    id: Id
    rule: str
    subject: str
    lineage: LineageId | None
    key: str | None
    count: float
    threshold: float
    tasks: list[Id]
    sentence: str
    advice: str
    raised_at: datetime
    seen_at: datetime
    resolved_at: datetime | None


class WorkerShown(Struct):
    """A living worker, and how many tasks it holds."""

    id: Id
    name: str
    host: str
    pid: int
    kinds: list[str]
    queues: list[str]
    holds: int
    running: int | None
    threads: int | None
    lease_ms: int
    started_at: datetime
    heartbeat_at: datetime
    is_silent: bool
    is_dead: bool


class PauseShown(Struct):
    """Something that an operator has paused."""

    scope: str
    at: datetime
    author: str


class PauseAsked(Struct, forbid_unknown_fields=True):
    """What is paused or resumed: one of these, or everything if none is named."""

    pipeline: Name | None = None
    source: Name | None = None
    queue: Name | None = None


class ScopeShown(Struct):
    """What was paused or resumed."""

    scope: str


class NamesChanged(Struct):
    """What an action has changed, by name."""

    names: list[str]


class AuditShown(Struct):
    """One thing that a caller has changed, or was not allowed to."""

    id: Id
    at: datetime
    author: str
    role: str
    action: str
    target: str
    count: int
    outcome: str
    note: str


class LineShown(Struct):
    """Tasks of one line that could run now."""

    queue: str
    kind: str
    priority: int
    tasks: int
    since: datetime


class BacklogShown(Struct):
    """What could run now, and what may run later."""

    ready: int
    later: int
    parked: int
    oldest_ready_ms: int | None
    lines: list[LineShown]


class CronTimes(Struct):
    """When an expression of cron fires next."""

    expression: str
    tz: str
    times: list[datetime]
