"""Filtered lists of tasks, how many there are, and errors that are alike: bounded, and saying how far they have looked.

A portion is one short read; between two of them other calls of the app have their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from onceward.client.client import Client
from onceward.errors import ConfigError
from onceward.model import arguments
from onceward.model.error_groups import ErrorGroup, ErrorGroups
from onceward.model.filter_completion import Completion, complete
from onceward.model.task_filter import TaskFilter, Term, parse_filter
from onceward.model.task_match import Known, Matcher
from onceward.model.times import NEVER, moment
from onceward.store.operations import search
from onceward.store.operations.search import MOST_LOOKED_AT, Search
from onceward.store.reports import tasks as reports
from onceward.views import task as view
from onceward.views.task import Task

QUICK_MS, COUNT_MS, LONG_MS = 80, 150, 400
"""How long is looked: for a page and for a count by what the databases compare; by what is read task by task."""
MOST_AT_ONCE = 2_000
MOST_GROUPED = 20_000
MOST_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Tasks that match a filter, newest first, and how to go on."""

    tasks: tuple[Task, ...]
    next: str | None
    """The cursor of what is older; None if everything was looked at."""
    searched_back_to: datetime | None
    """How far back the look-back went, where it ended before the page was full: with `next` it goes on there."""
    is_whole: bool
    """Whether the page is full, or holds all there is."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How many tasks match a filter."""

    n: int
    is_exact: bool
    """Whether all tasks were looked at; otherwise there are at least so many."""

    def __str__(self) -> str:
        return f"{self.n:,}" if self.is_exact else f"at least {self.n:,}"


class Searching:
    """Searches of one app."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def page(self, wanted: TaskFilter, cursor: str | None, limit: int) -> TaskPage:
        """The next tasks that match."""
        most = min(limit, MOST_PAGE)
        walk = self._walk(wanted, before_of(cursor))
        found = self._first(walk, most)
        rows = self._client._ask(lambda: reports.read_tasks(found))
        is_whole = walk.is_over or len(found) >= most
        back_to = None if is_whole else self._client._ask(lambda: search.made_at(walk.before))
        return TaskPage(
            tuple(view.as_task(row, self._client._registry) for row in rows),
            None if walk.is_over else str(walk.before),
            None if back_to is None else moment(back_to),
            is_whole,
        )

    def _first(self, walk: Search, most: int) -> list[int]:
        found: list[int] = []

        def wanted() -> int:
            return most - len(found)

        for some in self._portions(walk, wanted):
            found += some
            if not wanted():
                break
        return found

    def count(self, wanted: TaskFilter) -> Counted:
        """How many match."""
        walk = self._walk(wanted, NEVER)
        n = sum(len(some) for some in self._portions(walk, lambda: search.STRETCH, COUNT_MS))
        return Counted(n, walk.is_over)

    def groups(self, wanted: TaskFilter) -> list[ErrorGroup]:
        """The errors of the tasks that match; of those that have failed, if the filter names no status."""
        if not any(term.field == "status" for term in wanted.terms):
            wanted = TaskFilter((*wanted.terms, Term("status", ":", ("failed",))))
        walk = self._walk(wanted, NEVER)
        groups, looked_at = ErrorGroups(), 0
        for some in self._portions(walk, lambda: MOST_AT_ONCE, LONG_MS):
            groups.add(self._client._ask(lambda some=some: search.read_facts(some)))  # type: ignore[misc]
            looked_at += len(some)
            if looked_at >= MOST_GROUPED:
                break
        return groups.groups(self._client._store.clock.now(), is_whole=walk.is_over)

    def _walk(self, wanted: TaskFilter, before: int) -> Search:
        known: Known = self._client._ask(lambda: search.known_names(wanted))
        return Search(Matcher(wanted, self._client._store.clock.now(), known), before, self._client._registry.kinds)

    def _portions(self, walk: Search, most: Callable[[], int], limit_ms: int = QUICK_MS) -> Iterable[Sequence[int]]:
        clock = self._client._store.clock
        began = clock.monotonic()
        while not walk.is_over:
            yield self._client._ask(lambda: walk.step(most()))
            allowed_ms = LONG_MS if walk.reads_tasks else limit_ms
            if walk.looked_at >= MOST_LOOKED_AT or clock.monotonic() - began >= allowed_ms:
                return


def parsed(wanted: str | TaskFilter) -> TaskFilter:
    """A filter, given as such or as a text."""
    if isinstance(wanted, TaskFilter):
        return wanted
    if not isinstance(wanted, str):
        raise ConfigError(f"{arguments.shown(wanted)} is no filter, which is a text like 'status:failed kind:page'")
    return parse_filter(wanted)


def before_of(cursor: str | None) -> int:
    """Where a list goes on."""
    if cursor is None:
        return NEVER
    if not (isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and len(cursor) < 20):
        raise ConfigError(f"{arguments.shown(cursor)} is no cursor; take it from the `next` of the page before")
    return min(int(cursor), NEVER)


def completions(client: Client, text: str, position: int) -> list[Completion]:
    """What may stand at a position of a filter."""
    registry = client._registry
    kinds = set(registry.kinds)
    if not kinds:
        kinds = set(client._ask(search.known_kinds))
    known = {
        "kind": sorted(kinds),
        "queue": sorted(registry.queues),
        "stage": sorted({stage.name for pipeline in registry for stage in pipeline.stages}),
        "waiting": ["children", "signal", "signal:approved", "budget", "batch", "code"],
    }
    return complete(text, position, known)
