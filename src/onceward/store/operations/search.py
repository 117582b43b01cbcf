"""Filtered lists of tasks, newest first, in portions.

A source names tasks in the order of their ids: an index, where a filter says something that one knows, else stretches
of ids. What a source does not answer the scan does, and what the databases would compare differently is compared here.
No index holds the status of a task (R13), so the rare statuses come from where they leave a trace: in the log, in the
lines, with the claims.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from onceward.model.payload import identity
from onceward.model.status import CLAIMABLE, Status
from onceward.model.task_filter import IS, TaskFilter, Term
from onceward.model.task_match import LARGEST, LARGEST_PAYLOAD, Check, Facts, Known, Matcher, is_exact_key
from onceward.model.times import NEVER
from onceward.store.op import Op, Query
from onceward.store.rows import as_uuid

FEW = 10_000
"""How many tasks a source may name that is not in the order of ids: it is read whole."""
FIRST_STRETCH, STRETCH = 1_250, 10_000
"""How many ids a portion of a scan goes back: more with every portion."""
SMALLEST, LARGEST_PORTION = 250, 2_000
MOST_LOOKED_AT = 200_000
"""How many tasks a list looks at before it says how far it has come."""
CLOCKS_DIFFER_MS = 600_000
"""By how much the times of tasks may be out of the order of their ids."""

LOGGED = frozenset({Status.FILTERED, Status.SKIPPED, Status.FAILED, Status.CANCELLED})
"""What the log has an index of."""


class Portion(NamedTuple):
    """Some tasks of a source, newest first."""

    ids: list[int]
    floor: int
    """Down to which id it is complete; 0 if there are no more."""


Source = Callable[[int, int], Op[Portion]]
"""Names so many tasks below an id."""


def known_names(wanted: TaskFilter) -> Op[Known]:
    """Read what the names in a filter stand for."""
    names = sorted({value for term in wanted.terms if term.field == "batch" for value in term.values})
    numbers = sorted(
        {int(one) for term in wanted.terms if term.field == "lineage" for one in term.values if one.isdigit()}
    )
    batches = (yield Query("batches_named", {"names": names})) if names else ()
    lineages = (yield Query("lineages_of", {"ids": numbers})) if numbers else ()
    return Known({row[0]: row[1] for row in batches}, {str(number): as_uuid(lineage) for number, lineage in lineages})


def made_at(number: int) -> Op[int | None]:
    """When the first task from a number on was made."""
    rows = yield Query("made_at", {"id": number})
    return rows[0][0] if rows else None


class Search:
    """A filtered walk from the newest task to the oldest. Every step goes on where the one before it has ended."""

    def __init__(self, matcher: Matcher, before: int = NEVER, kinds: Iterable[str] = ()) -> None:
        self._matcher = matcher
        self._kinds = sorted(kinds)
        self._sources: list[Source] | None = None
        self._checks: list[Check] = []
        self._size = SMALLEST
        self._stretch = FIRST_STRETCH
        self.before = before
        """Everything from this id on was looked at."""
        self.looked_at = 0
        self.is_over = before <= 0 or not matcher.scan.statuses

    @property
    def reads_tasks(self) -> bool:
        """Whether SQL is not enough, and tasks are looked at one by one."""
        return bool(self._checks)

    def step(self, most: int) -> Op[list[int]]:
        """Look at the next tasks; returns those that match, newest first, and `most` of them at most."""
        if self._sources is None:
            self._sources, self._checks = yield from self._begin()
        if self.is_over:
            return []
        return (yield from (self._next_of_sources(most) if self._sources else self._next_stretch(most)))

    def _begin(self) -> Op[tuple[list[Source], list[Check]]]:
        """Choose where tasks come from; without a source the whole table is scanned."""
        best: tuple[int, Term] | None = None
        for term, _ in self._matcher.checks:
            rank = self._rank(term)
            if rank is not None and (best is None or rank < best[0]):
                best = rank, term
        if best is not None:
            term = best[1]
            if term.field == "key":
                self._kinds = yield from self._kinds_of_keys()
            found = self._sources_of(term)
            if not found:
                self.is_over = True
            return found, self._matcher.without(term)
        return (yield from self._sources_of_statuses()), [check for _, check in self._matcher.checks]

    def _rank(self, term: Term) -> int | None:
        """Which term is the best source: the one that names the fewest tasks."""
        if term.negated or term.operator != IS or len(term.values) > 100:
            return None
        order = {"id": 0, "key": 1, "parent": 2, "lineage": 3, "batch": 4}
        if term.field == "key" and not all(map(is_exact_key, term.values)):
            return None
        return order.get(term.field)

    def _sources_of(self, term: Term) -> list[Source]:
        matcher = self._matcher
        match term.field:
            case "id":
                return [_these(map(int, term.values))]
            case "parent":
                return [_indexed("search_children", {"parent": int(value)}) for value in term.values]
            case "lineage":
                return [_indexed("search_in_lineage", {"lineage": one}) for one in matcher.lineage_ids(term)]
            case "batch":
                return [_indexed("search_in_batch", {"batch": one}) for one in matcher.batch_ids(term)]
            case _:
                sought = {identity(kind, key) for kind in self._kinds for key in term.values}
                return [_indexed("search_identity", {"identity": one}) for one in sorted(sought)]

    def _kinds_of_keys(self) -> Op[list[str]]:
        """The kinds with which a key makes an identity: those that are asked for, or all that any worker knows."""
        asked = [kind for kind in self._matcher.scan.kinds if kind is not None]
        if asked or not self._matcher.scan.kinds:
            return asked
        return sorted({*self._kinds, *(yield from known_kinds())})

    def _sources_of_statuses(self) -> Op[list[Source]]:
        """Sources of all statuses that are asked for; none if one of them is too common for that."""
        statuses = self._matcher.scan.statuses
        if Status.SUCCEEDED in statuses:
            return []
        found: list[Source] = [
            _indexed("search_ended", {"status": int(status)}) for status in sorted(statuses & LOGGED)
        ]
        wanted: list[str] = []
        if statuses & CLAIMABLE:
            wanted += ["search_ready", "search_due", "search_paused"]
        if Status.RUNNING in statuses:
            wanted.append("search_running")
        if Status.WAITING in statuses:
            wanted.append("search_waiting")
        named: set[int] = set()
        for name in wanted:
            rows = yield Query(name, {"count": FEW + 1})
            if len(rows) > FEW:
                return []
            named.update(row[0] for row in rows)
        return [*found, _these(named)] if wanted else found

    def _next_of_sources(self, most: int) -> Op[list[int]]:
        ids: set[int] = set()
        floor = 0
        for source in self._sources or ():
            portion = yield from source(self.before, self._size)
            ids.update(portion.ids)
            floor = max(floor, portion.floor)
        self._size = min(4 * self._size, LARGEST_PORTION)
        candidates = sorted((one for one in ids if one >= floor), reverse=True)[:LARGEST_PORTION]
        if len(candidates) == LARGEST_PORTION:
            floor = max(floor, candidates[-1])
        self.looked_at += len(candidates)
        rows = (yield Query("search_among", {"ids": candidates, **self._matcher.scan.params})) if candidates else ()
        matching = yield from self._checked([row[0] for row in rows])
        return self._come_to(matching, most, floor)

    def _next_stretch(self, most: int) -> Op[list[int]]:
        rows = yield Query("search_stretch", {"before": self.before, "rows": self._stretch})
        top, created_at, oldest = rows[0]
        if top is None:
            return self._come_to([], most, 0)
        floor = top - self._stretch + 1
        if floor <= oldest:
            floor = 0
        count = max(most, LARGEST_PORTION) if self._checks else min(most, self._stretch)
        asked = {"before": self.before, "floor": floor, "count": count, **self._matcher.scan.params}
        found = [row[0] for row in (yield Query("search_range", asked))]
        if len(found) == count:
            floor = found[-1]
        matching = yield from self._checked(found)
        self.looked_at += self._stretch
        self._stretch = min(4 * self._stretch, STRETCH)
        least = self._matcher.scan.created.least
        if least > -LARGEST and created_at < least - CLOCKS_DIFFER_MS and len(found) < count:
            floor = 0  # older ones were made earlier still
        return self._come_to(matching, most, floor)

    def _come_to(self, matching: list[int], most: int, floor: int) -> list[int]:
        if len(matching) > most:
            matching = matching[:most]
            floor = matching[-1]
        self.before = floor
        self.is_over = floor == 0
        return matching

    def _checked(self, ids: Sequence[int]) -> Op[list[int]]:
        """Those of some tasks that pass what SQL has not looked at."""
        if not self._checks or not ids:
            return list(ids)
        return [one.id for one in (yield from self.facts(ids)) if all(check(one) for check in self._checks)]

    def still_matching(self, ids: Sequence[int], statuses: frozenset[Status]) -> Op[list[int]]:
        """Those of some tasks that match as they stand now, and are in one of some statuses."""
        scan = {**self._matcher.scan.params, "statuses": sorted(map(int, self._matcher.scan.statuses & statuses))}
        rows = yield Query("search_among", {"ids": list(ids), **scan})
        self._checks = [check for _, check in self._matcher.checks]
        return (yield from self._checked([row[0] for row in rows]))

    def facts(self, ids: Sequence[int]) -> Op[list[Facts]]:
        """What a filter asks about some tasks, newest first."""
        return (yield from read_facts(ids, with_payload=self._matcher.reads_payloads))


def known_kinds() -> Op[list[str]]:
    """Every kind that a worker has known, and those of the newest and the oldest tasks: no index has them all."""
    rows = yield Query("kinds_of_workers")
    tasks = yield Query("kinds_of_tasks")
    return sorted({kind for row in rows for kind in row[0].split(",") if kind} | {row[0] for row in tasks})


def read_facts(ids: Sequence[int], *, with_payload: bool = False) -> Op[list[Facts]]:
    """What a filter asks about some tasks, newest first."""
    found: list[Facts] = []
    for start in range(0, len(ids), LARGEST_PORTION):
        some = list(ids[start : start + LARGEST_PORTION])
        rows = yield Query("search_facts", {"ids": some, "with_payload": int(with_payload), "largest": LARGEST_PAYLOAD})
        for (number, kind, key, status, stage, queue, lineage, parent, batch, depth, attempts, cost, created_at,
             ended_at, reason, waiting_for, paused, payload) in rows:  # fmt: skip
            found.append(
                Facts(
                    number, kind, key, Status(status), stage, queue, as_uuid(lineage), parent, batch, depth, attempts,
                    cost, created_at, ended_at, reason, waiting_for, bool(paused),
                    None if payload is None else bytes(payload),
                )
            )  # fmt: skip
    return found


def _these(numbers: Iterable[int]) -> Source:
    """A source of tasks that are known whole."""
    every = sorted(set(numbers), reverse=True)

    def source(before: int, count: int) -> Op[Portion]:
        some = [number for number in every if number < before][:count]
        yield from ()
        return Portion(some, some[-1] if len(some) == count else 0)

    return source


def _indexed(name: str, params: dict[str, int | bytes | uuid.UUID]) -> Source:
    """A source by an index, in the order of ids."""

    def source(before: int, count: int) -> Op[Portion]:
        rows = yield Query(name, {**params, "before": before, "count": count})
        ids = [row[0] for row in rows]
        return Portion(ids, ids[-1] if len(ids) == count else 0)

    return source
