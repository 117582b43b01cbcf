"""Items of an older system, one JSON object a line, as tasks: assigned a lineage once, with what became of them.

A line is read like this. `id` is what the item is known by, so that it is imported once; without it, its key is. Its
payload is the object `payload`, or all fields of the line that the payload has. `status` is a word of that system;
what was in work when it stopped is pending here, and what has ended stays so, with `created_at`, `ended_at` and
`reason` where they are given. What it says of where it came from and of its error (`tracking_id`, `depth`, `ancestry`,
`error_details`) is kept in the log of its task: here it is the root of a lineage of its own. Other names are said by a
mapping from ours to theirs: `{"url": "job.link"}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from onceward.authoring.pipeline import Pipeline
from onceward.errors import ConfigError, OncewardError, UnknownKind
from onceward.model.arguments import shown
from onceward.model.codec import checked_name, digest128
from onceward.model.decide import safe_text
from onceward.model.payload import Payload
from onceward.model.status import Status, status_named
from onceward.model.task import NewTask
from onceward.store.operations.importing import OldTask

LINES_AT_ONCE = 500
"""How many lines go into one transaction."""
PROBLEMS_KEPT = 100
LATEST = 253_402_300_799_000
"""The end of the year 9999."""

Line = str | bytes | Mapping[str, Any]

_THEIR_WORDS = {
    Status.PENDING: (
        "pending", "queued", "new", "ready", "todo", "scheduled", "waiting", "paused", "retry", "retrying", "retryable",
        "processing", "running", "in_progress", "started", "working", "locked", "claimed", "active", "chunked",
    ),
    Status.SUCCEEDED: ("succeeded", "success", "successful", "complete", "completed", "done", "finished", "embedded"),
    Status.FILTERED: ("filtered", "rejected"),
    Status.SKIPPED: ("skipped", "duplicate", "ignored"),
    Status.FAILED: ("failed", "failure", "error", "errored", "dead", "timeout", "timed_out", "expired"),
    Status.CANCELLED: ("cancelled", "canceled", "aborted"),
}  # fmt: skip
STATUSES = {word: status for status, words in _THEIR_WORDS.items() for word in words}
"""What other systems call it, and what it is here. Large letters, spaces and hyphens make no difference."""

_NAMES = {
    "id": ("id",),
    "kind": ("kind",),
    "status": ("status",),
    "payload": ("payload",),
    "reason": ("reason", "error", "error_message"),
    "created_at": ("created_at",),
    "ended_at": ("ended_at", "completed_at", "finished_at"),
    "due_at": ("due_at",),
    "tracking_id": ("tracking_id",),
    "depth": ("depth",),
    "ancestry": ("ancestry", "ancestry_chain"),
    "error_details": ("error_details",),
}
"""Where what is not of the payload stands in a line, if nothing else is said: the first that is there."""

_FACTS = {"tracking_id": "tracking id", "depth": "depth", "ancestry": "ancestry", "error_details": "error details"}
"""What is kept in the log as it was, and how it is said there."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that could not be imported, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of an import."""

    lines: int
    created: dict[str, int]
    """How many tasks were made, by the status they have now."""
    existing: int
    """How many items were imported before, or are open work already that is unique everywhere."""
    bad: int
    """How many lines could not be imported."""
    problems: tuple[Problem, ...]
    """The first of them."""

    @property
    def total(self) -> int:
        """How many tasks were made."""
        return sum(self.created.values())

    @property
    def ok(self) -> bool:
        """Whether every line was imported, now or before."""
        return not self.bad


class _Bad(Exception):
    """A line that cannot be imported."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A line that was understood."""

    payload: Payload
    own_id: str | None
    word: str
    status: Status
    created_at: int
    ended_at: int | None
    due_at: int | None
    reason: str | None
    facts: tuple[str, ...]
    """What is known of where it came from, and of its error, for the log."""


class ItemReader:
    """Understands lines: which pipeline they belong to, where what stands in them, and what their words mean."""

    def __init__(
        self,
        pipelines: Iterable[Pipeline[Any]],
        kind: str | None,
        fields: Mapping[str, str] | None,
        statuses: Mapping[str, Status | str] | None,
    ) -> None:
        self._pipelines = {pipeline.kind: pipeline for pipeline in pipelines}
        if not self._pipelines:
            raise ConfigError("an import needs the pipelines, which know what a payload looks like; give it the app")
        if kind is not None and kind not in self._pipelines:
            raise UnknownKind(kind, list(self._pipelines))
        self._kind = kind
        self._fields = dict(fields or {})
        self._own = {one: _fields_of(pipeline) for one, pipeline in self._pipelines.items()}
        known = {*_NAMES, *(self._own[kind] if kind is not None else (f for own in self._own.values() for f in own))}
        if unknown := sorted(set(self._fields) - known):
            raise ConfigError(f"nothing is called {', '.join(unknown)} here; there are {', '.join(sorted(known))}")
        self._statuses = dict(STATUSES)
        for word, meant in (statuses or {}).items():
            status = status_named(meant) if isinstance(meant, str) else meant
            if status is not Status.PENDING and not status.is_terminal:
                raise ConfigError(f"{word!r} cannot be {status.word}: an item is imported as pending, or it has ended")
            self._statuses[_folded(word)] = status

    def read(self, line: Line, now: int) -> _Item:
        """One line; `_Bad` if it cannot be understood."""
        found = _parsed(line)
        kind = self._kind if self._kind is not None else self._find(found, "kind")
        if not isinstance(kind, str) or kind not in self._pipelines:
            raise _Bad(f"kind is {kind!r}; this app knows: {', '.join(sorted(self._pipelines))}")
        given = self._find(found, "status")
        word = "pending" if given is None else str(given)
        status = self._statuses.get(_folded(word))
        if status is None:
            raise _Bad(f"status {word!r} is not known here; say what it means")
        created_at = min(now, _instant(self._find(found, "created_at"), "created_at", now))
        due_at = self._find(found, "due_at")
        reason = self._find(found, "reason")
        ended_at = None
        if status.is_terminal:
            # Where it is not known when it ended it is as old as it can be: it never looks fresher than it is.
            said = _instant(self._find(found, "ended_at"), "ended_at", created_at)
            ended_at = max(created_at, min(now, said))
        return _Item(
            payload=self._payload(found, kind),
            own_id=_own_id(self._find(found, "id")),
            word=word,
            status=status,
            created_at=created_at,
            ended_at=ended_at,
            due_at=None if due_at is None else _instant(due_at, "due_at", now),
            reason=None if reason is None or reason == "" else _as_text(reason),
            facts=tuple(self._facts(found, kind)),
        )

    def _facts(self, found: Mapping[str, Any], kind: str) -> Iterator[str]:
        for name, said in _FACTS.items():
            if name in self._own[kind] and name not in self._fields:
                continue  # that is a field of the payload
            value = self._find(found, name)
            if value is not None and value not in ("", [], {}):
                yield f"{said} {_as_text(value)}"

    def _payload(self, found: Mapping[str, Any], kind: str) -> Payload:
        own = self._own[kind]
        whole = self._find(found, "payload") if "payload" not in own else None
        if whole is not None and not isinstance(whole, Mapping):
            raise _Bad(f"payload is not an object, but {_as_json(whole)[:80]}")
        source = found if whole is None else whole
        values = {name: source[name] for name in own if name in source}
        for name in own:
            if name in self._fields and (value := _at(found, self._fields[name])) is not None:
                values[name] = value
        payload_type: type[Payload] = self._pipelines[kind].payload
        try:
            return msgspec.convert(values, payload_type)
        except msgspec.ValidationError as error:
            raise _Bad(f"it is no {payload_type.__name__}: {error}") from error

    def _find(self, found: Mapping[str, Any], name: str) -> Any:
        if name in self._fields:
            return _at(found, self._fields[name])
        return next((found[one] for one in _NAMES[name] if found.get(one) is not None), None)


class Importer:
    """Imports lines, some hundred in a transaction; whatever is imported twice is there once.

    `make` turns a payload into a task, `stopped` says why it is not wanted, `write` makes tasks durable.
    """

    def __init__(
        self,
        name: str,
        reader: ItemReader,
        make: Callable[[Payload, int], NewTask],
        stopped: Callable[[NewTask, Payload], str | None],
        write: Callable[[bytes, list[OldTask], int], list[tuple[int, bool]]],
        now: Callable[[], int],
        on_problem: Callable[[Problem], None] | None,
    ) -> None:
        self._scope = digest128(b"import", checked_name(name, "an import").encode())
        self._reader = reader
        self._make = make
        self._stopped = stopped
        self._write = write
        self._now = now
        self._on_problem = on_problem
        self._problems: list[Problem] = []
        self._bad = 0

    def run(self, lines: Iterable[Line]) -> Imported:
        """Import every line that can be; the others are told of, one by one, and kept in the report."""
        numbered = enumerate(lines, 1)
        created: Counter[str] = Counter()
        read = existing = 0
        while chunk := list(islice(numbered, LINES_AT_ONCE)):
            read += len(chunk)
            now = self._now()
            old = list(self._understood(chunk, now))
            if not old:
                continue
            for one, (_, is_new) in zip(old, self._write(self._scope, old, now), strict=True):
                created[one.status.word] += is_new
                existing += not is_new
        told = {status.word: created[status.word] for status in Status if created[status.word]}
        return Imported(read, told, existing, self._bad, tuple(self._problems))

    def _understood(self, chunk: list[tuple[int, Line]], now: int) -> Iterator[OldTask]:
        for number, line in chunk:
            if isinstance(line, str | bytes) and not line.strip():
                continue
            try:
                yield self._old_task(self._reader.read(line, now), now)
            except (_Bad, OncewardError) as error:
                self._tell(Problem(number, " ".join(str(error).split())))

    def _old_task(self, item: _Item, now: int) -> OldTask:
        task = self._make(item.payload, now)
        due_at = now if item.due_at is None else max(now, item.due_at)
        task = msgspec.structs.replace(task, created_at=item.created_at, due_at=due_at)
        kind = task.kind.encode()
        mark = digest128(b"key", task.identity) if item.own_id is None else digest128(b"id", kind, item.own_id.encode())
        was = f"was {item.word}" + (f": {item.reason}" if item.reason else "")
        note = safe_text("; ".join([was, *item.facts]))
        if not item.status.is_terminal:
            stopped = self._stopped(task, item.payload)
            if stopped is not None:
                return OldTask(task, mark, Status.SKIPPED, now, safe_text(stopped), note)
            return OldTask(task, mark, Status.PENDING, None, None, note)
        reason = item.reason
        if reason is None and item.status is not Status.SUCCEEDED:
            reason = f"{item.status.word} before it was imported"
        return OldTask(task, mark, item.status, item.ended_at, None if reason is None else safe_text(reason), note)

    def _tell(self, problem: Problem) -> None:
        self._bad += 1
        if len(self._problems) < PROBLEMS_KEPT:
            self._problems.append(problem)
        if self._on_problem is not None:
            self._on_problem(problem)


def _fields_of(pipeline: Pipeline[Any]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(pipeline.payload)]


def _folded(word: str) -> str:
    return word.strip().lower().replace(" ", "_").replace("-", "_")


def _parsed(line: Line) -> Mapping[str, Any]:
    if isinstance(line, Mapping):
        return line
    if not isinstance(line, str | bytes):
        raise _Bad(f"it is {shown(line)}, neither a text nor an object")
    data = line.encode("utf-8", "replace") if isinstance(line, str) else line
    try:
        found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Bad(f"it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise _Bad("it is not an object")
    return found


def _at(found: Any, path: str) -> Any:
    """The value at a path such as `job.link`; None if there is none."""
    if isinstance(found, Mapping) and path in found:
        return found[path]
    for name in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def _own_id(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _Bad(f"id is {_as_json(value)[:80]}; it is a text or a number")
    try:
        str(value).encode()
    except UnicodeEncodeError as error:
        raise _Bad("id holds a lone surrogate, which is not text") from error
    return str(value)


def _instant(value: Any, name: str, default: int) -> int:
    """A time in milliseconds: ISO 8601 (UTC if it names no zone), or seconds or milliseconds since 1970."""
    if value is None or value == "":
        return default
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError  # noqa: TRY004 - told as any other time that is none
        else:
            at = value if abs(value) >= 100_000_000_000 else value * 1_000
        if not 0 <= at <= LATEST:
            raise ValueError
    except (ValueError, OverflowError):
        raise _Bad(f"{name} is {_as_json(value)[:80]}; it is a time in ISO 8601, or a number since 1970") from None
    return round(at)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _as_json(value)


def _as_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):  # a mapping may hold what JSON does not know
        return shown(value)
