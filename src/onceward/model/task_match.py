"""What a filter of tasks means: a scan that a database can do, and a look at each task for the rest. Pure.

Both databases do the same comparisons of numbers and of whole texts. Parts of texts, errors and payloads are compared
here, so that upper case or a collation never makes two answers of one question.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from onceward.model import codec
from onceward.model.arguments import LARGEST_ID
from onceward.model.error_shapes import shape_of
from onceward.model.status import TERMINAL, Status
from onceward.model.task_filter import (
    AT_LEAST,
    AT_MOST,
    COMPARISONS,
    IS,
    LESS,
    LIKE,
    MORE,
    OPPOSITE,
    PAYLOAD,
    STATUS_GROUPS,
    TaskFilter,
    Term,
)
from onceward.model.times import milliseconds

LARGEST = 2**62
BILLION = 10**9
LARGEST_PAYLOAD = 65_536
"""Payloads of more bytes are not looked into: no field of theirs is known."""
ANYTHING: list[str | None] = [None]
"""A list of which SQL does not know whether a value is in it: no condition."""


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What a filter asks about a task."""

    id: int
    kind: str
    key: str | None
    status: Status
    stage: str | None
    queue: str
    lineage: uuid.UUID
    parent: int | None
    batch: int | None
    depth: int
    attempts: int
    cost: int
    created_at: int
    ended_at: int | None
    reason: str | None
    waiting_for: str | None
    is_paused: bool
    payload: bytes | None = None
    """None if nobody has asked for it, or if it is too large to be looked into."""


@dataclass(slots=True)
class Range:
    """Numbers from one to another, both included."""

    least: int
    most: int = LARGEST

    def meet(self, operator: str, number: int) -> None:
        """Leave only what compares so."""
        match operator:
            case "<":
                self.most = min(self.most, number - 1)
            case "<=":
                self.most = min(self.most, number)
            case ">":
                self.least = max(self.least, min(number + 1, LARGEST_ID))
            case ">=":
                self.least = max(self.least, number)
            case _:
                self.least, self.most = max(self.least, number), min(self.most, number)


@dataclass(slots=True)
class Scan:
    """Conditions that both databases compare alike."""

    statuses: frozenset[Status] = frozenset(Status)
    kinds: list[str | None] = field(default_factory=lambda: ANYTHING)
    not_kinds: list[str] = field(default_factory=list)
    queues: list[str | None] = field(default_factory=lambda: ANYTHING)
    not_queues: list[str] = field(default_factory=list)
    stages: list[str | None] = field(default_factory=lambda: ANYTHING)
    not_stages: list[str] = field(default_factory=list)
    depth: Range = field(default_factory=lambda: Range(0))
    attempts: Range = field(default_factory=lambda: Range(0))
    cost: Range = field(default_factory=lambda: Range(-LARGEST))
    created: Range = field(default_factory=lambda: Range(-LARGEST))
    ended: Range = field(default_factory=lambda: Range(-LARGEST))
    paused: Range = field(default_factory=lambda: Range(0, 1))

    @property
    def params(self) -> dict[str, Any]:
        """As the parameters of a query."""
        ranges = {
            f"{name}_{end}": getattr(getattr(self, name), end)
            for name in ("depth", "attempts", "cost", "created", "ended", "paused")
            for end in ("least", "most")
        }
        lists = {
            name: getattr(self, name) for name in ("kinds", "not_kinds", "queues", "not_queues", "stages", "not_stages")
        }
        return {"statuses": sorted(map(int, self.statuses)), **lists, **ranges}


@dataclass(frozen=True, slots=True)
class Known:
    """Names in a filter, as the database knows them."""

    batches: Mapping[str, int] = field(default_factory=dict)
    lineages: Mapping[str, uuid.UUID] = field(default_factory=dict)
    """The lineages of tasks that are named by their numbers."""


Check = Callable[[Facts], bool]
_IMPLIED = {
    "error": frozenset({Status.FAILED, Status.RETRYABLE}),
    "waiting": frozenset({Status.WAITING}),
    "ended": TERMINAL,
}
"""In which statuses alone a term can hold."""


class Matcher:
    """A filter, made ready for one moment."""

    def __init__(self, wanted: TaskFilter, now: int, known: Known) -> None:
        self.filter = wanted
        self.scan = Scan()
        self.checks: list[tuple[Term, Check]] = []
        """What the scan does not cover, with the terms that say so."""
        self._now = now
        self._known = known
        for term in wanted.terms:
            if not self._scans(term):
                check = self._check_of(term)
                self.checks.append((term, _negated(check) if term.negated else check))
            if not term.negated:
                self.scan.statuses &= _IMPLIED.get(term.field, frozenset(Status))

    def without(self, term: Term) -> list[Check]:
        """The checks of the other terms: a source has answered this one."""
        return [check for one, check in self.checks if one is not term]

    @property
    def reads_payloads(self) -> bool:
        """Whether a payload must be looked into. A key may be all of its payload."""
        return any(_path(term) or term.field == "key" for term, _ in self.checks)

    def lineage_ids(self, term: Term) -> list[uuid.UUID]:
        """The lineages that a term names; those of tasks that are not there are left out."""
        named = (self._known.lineages.get(value) if value.isdigit() else uuid.UUID(value) for value in term.values)
        return [one for one in named if one is not None]

    def batch_ids(self, term: Term) -> list[int]:
        """The batches that a term names; those that are not there are left out."""
        return [self._known.batches[name] for name in term.values if name in self._known.batches]

    def _scans(self, term: Term) -> bool:
        """Add a term to the scan, if the databases can compare it whole."""
        values = list(term.values)
        match term.field:
            case "status":
                named = frozenset(one for value in values for one in statuses_named(value))
                self.scan.statuses &= frozenset(Status) - named if term.negated else named
            case "kind" | "queue" | "stage":
                self._scan_words(f"{term.field}s", values, negated=term.negated)
            case "depth" | "attempts" | "cost" if len(values) == 1:
                return self._scan_number(term, _scaled(term.field, values[0]))
            case "created" | "ended":
                return self._scan_age(term)
            case "paused" if len(values) == 1:
                yes = (values[0] == "yes") != term.negated
                self.scan.paused.meet(IS, int(yes))
            case _:
                return False
        return True

    def _scan_words(self, name: str, values: list[str], *, negated: bool) -> None:
        if negated:
            setattr(self.scan, f"not_{name}", [*getattr(self.scan, f"not_{name}"), *values])
            return
        before = getattr(self.scan, name)
        both = values if before is ANYTHING else [value for value in before if value in values]
        setattr(self.scan, name, both)

    def _scan_number(self, term: Term, number: int) -> bool:
        operator = OPPOSITE.get(term.operator, "") if term.negated else term.operator
        if not operator:
            return False
        getattr(self.scan, term.field).meet(operator, number)
        return True

    def _scan_age(self, term: Term) -> bool:
        """`created<2h` is younger than two hours: later than two hours ago."""
        at = self._now - milliseconds(term.values[0])
        if term.negated and term.field == "ended":
            return False  # an open task has not ended within the last hours either
        younger = (term.operator == LESS) != term.negated
        getattr(self.scan, term.field).meet(AT_LEAST if younger else LESS, at)
        if term.field == "ended":
            self.scan.ended.meet(AT_LEAST, 0)
        return True

    def _check_of(self, term: Term) -> Check:
        if (path := _path(term)) is not None:
            return _payload_check(path, term)
        values = term.values
        match term.field:
            case "id":
                return _one_of(frozenset(map(int, values)), lambda facts: facts.id)
            case "parent":
                return _one_of(frozenset(map(int, values)), lambda facts: facts.parent)
            case "lineage":
                return _one_of(frozenset(self.lineage_ids(term)), lambda facts: facts.lineage)
            case "batch":
                return _one_of(frozenset(self.batch_ids(term)), lambda facts: facts.batch)
            case "depth" | "attempts" | "cost":
                name, numbers = term.field, frozenset(_scaled(term.field, value) for value in values)
                return _one_of(numbers, lambda facts: getattr(facts, name))
            case "paused":
                return _one_of(frozenset(value == "yes" for value in values), lambda facts: facts.is_paused)
            case "ended":
                at = self._now - milliseconds(values[0])
                return (
                    (lambda facts: facts.ended_at is not None and facts.ended_at >= at)
                    if term.operator == LESS
                    else (lambda facts: facts.ended_at is not None and facts.ended_at < at)
                )
            case "error":
                return _error_check(values)
            case "key":
                return _text_check(term, key_of, _is_key)
            case "waiting":
                return _text_check(term, lambda facts: facts.waiting_for, _is_wait)
            case _:
                return _text_check(term, lambda facts: facts.reason, lambda text, value: text == value)


def statuses_named(word: str) -> frozenset[Status]:
    """The statuses that a word of a filter means."""
    return STATUS_GROUPS[word] if word in STATUS_GROUPS else frozenset({Status[word.upper()]})


def key_of(facts: Facts) -> str | None:
    """What a task is about; one without a key of its own is about all of its payload."""
    if facts.key is not None:
        return facts.key
    return None if facts.payload is None else facts.payload.decode(errors="replace")


def is_exact_key(value: str) -> bool:
    """Whether a value of a filter is a whole key, and of a task that has one of its own: an index knows those."""
    return not value.endswith("*") and value[:1] not in ("{", "[")


def error_of(facts: Facts) -> str | None:
    """The last error of a task that has failed, or is tried again."""
    return facts.reason if facts.status in (Status.FAILED, Status.RETRYABLE) else None


def _path(term: Term) -> tuple[str, ...] | None:
    first, *rest = term.field.split(".")
    return tuple(rest) if first == PAYLOAD else None


def _scaled(name: str, value: str) -> int:
    return int(Decimal(value) * BILLION) if name == "cost" else int(value)


def _negated(check: Check) -> Check:
    return lambda facts: not check(facts)


def _one_of(allowed: frozenset[Any], read: Callable[[Facts], Any]) -> Check:
    return lambda facts: read(facts) in allowed


def _is_key(text: str, value: str) -> bool:
    return text.startswith(value[:-1]) if value.endswith("*") else text == value


def _is_wait(text: str, value: str) -> bool:
    return text == value or text.startswith(f"{value}:")


def _text_check(term: Term, read: Callable[[Facts], str | None], is_it: Callable[[str, str], bool]) -> Check:
    values = term.values
    if term.operator == LIKE:
        parts = [value.casefold() for value in values]

        def says(facts: Facts) -> bool:
            text = read(facts)
            return text is not None and any(part in text.casefold() for part in parts)

        return says

    def equals(facts: Facts) -> bool:
        text = read(facts)
        return text is not None and any(is_it(text, value) for value in values)

    return equals


def _error_check(values: tuple[str, ...]) -> Check:
    alike = {value[1:] for value in values if value.startswith("#")}
    parts = [value.casefold() for value in values if not value.startswith("#")]

    def fits(facts: Facts) -> bool:
        error = error_of(facts)
        if error is None:
            return False
        return any(part in error.casefold() for part in parts) or (bool(alike) and shape_of(error).fingerprint in alike)

    return fits


def _payload_check(path: tuple[str, ...], term: Term) -> Check:
    test = _value_test(term)

    def fits(facts: Facts) -> bool:
        if facts.payload is None:
            return False
        try:
            value = codec.decoder(Any)(facts.payload)
        except codec.UNREADABLE:
            return False
        for name in path:
            if not isinstance(value, dict) or name not in value:
                return False
            value = value[name]
        return any(map(test, value)) if isinstance(value, list) else test(value)

    return fits


def _value_test(term: Term) -> Callable[[Any], bool]:
    if term.operator in COMPARISONS:
        limit, operator = Decimal(term.values[0]), term.operator
        return lambda value: _compares(value, operator, limit)
    if term.operator == LIKE:
        parts = [value.casefold() for value in term.values]
        return lambda value: any(part in _as_text(value).casefold() for part in parts)
    wanted = frozenset(term.values)
    return lambda value: _as_text(value) in wanted


def _compares(value: Any, operator: str, limit: Decimal) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        number = Decimal(str(value))
    except (InvalidOperation, ValueError):  # a text that is no number, or a number of too many digits
        return False
    if number.is_nan():
        return False
    return {
        LESS: number < limit, AT_MOST: number <= limit, MORE: number > limit, AT_LEAST: number >= limit
    }[operator]  # fmt: skip


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, ValueError, OverflowError):
        return ""
