"""What a stage sees of its task and of the children it has asked for: values, as they were when it began."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, overload

from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.lineage import Child, Rule
from onceward.model.outcome import SchemaMismatch
from onceward.model.status import Status

T = TypeVar("T")

REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """The task that a stage runs for."""

    id: int
    kind: str
    run: int
    stage: str
    attempt: int
    """The how-manieth try of this stage this is, from 1."""
    deferrals: int
    lineage: uuid.UUID
    parent: int | None
    depth: int
    created_at: datetime
    started_at: datetime
    fence: int
    """How often the task has been claimed: another system that has seen a larger one can refuse what this one asks."""
    token: str
    """The random token of this claim, in hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """What a spawn looks like before its stage commits. Falsy if it is refused for what is known by then already."""

    rule: Rule | None = None
    reason: str | None = None
    existing: int | None = None

    def __bool__(self) -> bool:
        return self.rule is None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has become of a child, when the stage that asks began.

    `status` is that of a task, in a word, or `"refused"`; `task` is the child, or the task it was folded into.
    """

    task: int | None
    kind: str
    key: str | None
    status: str
    reason: str | None
    rule: Rule | None
    _value: bytes | None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status == REFUSED or Status[self.status.upper()].is_terminal

    @overload
    def result(self) -> Any: ...
    @overload
    def result(self, type: type[T]) -> T: ...
    def result(self, type: Any = Any) -> Any:
        """What the last stage of the child returned, if it has succeeded."""
        if self.status != Status.SUCCEEDED.word:
            raise ConfigError(f"{self.kind} has no result: it is {self.status}; look at .status first")
        return None if self._value is None else read_stored(self._value, type, f"the result of {self.kind}")


def as_outcome(child: Child) -> Outcome:
    """What has become of a child, as a stage sees it."""
    rule = None if child.rule is None else Rule(child.rule)
    status = REFUSED if rule is not None or child.status is None else Status(child.status).word
    return Outcome(child.task, child.kind, child.key, status, child.reason, rule, child.value)


def read_stored(data: bytes, expected: Any, what: str) -> Any:
    """A stored value, read as a type; what no longer fits the code parks the task."""
    try:
        return codec.decoder(expected)(data)
    except codec.UNREADABLE as error:
        raise SchemaMismatch(f"{what} is stored in a form that no longer fits: {codec.misfit(error)}") from error
