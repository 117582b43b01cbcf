"""Actions on all tasks that match a filter: `app.bulk`. Any worker carries them on, and so does the dashboard."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from onceward.client.awaited import awaited
from onceward.client.namespace import Namespace
from onceward.errors import BulkNotFound, ConfigError
from onceward.model import arguments
from onceward.model.times import moment
from onceward.operations.searching import Counted, Searching, parsed
from onceward.operations.settings import checked_author
from onceward.store.drivers.session import Session
from onceward.store.operations import bulk as store
from onceward.store.operations.bulk import ACTIONS, Action, BulkRow, BulkState, Carrying
from onceward.worker.bulk_carrier import BulkCarrier

if TYPE_CHECKING:
    from onceward.model.task_filter import TaskFilter


@dataclass(frozen=True, slots=True)
class BulkStatus:
    """An action on all tasks that match a filter, and how far it has come."""

    id: int
    action: str
    filter: str
    """With what the action is for, where the filter said nothing of it: `status:failed` of a retry."""
    reason: str
    """What a cancellation leaves with its tasks."""
    author: str
    state: str
    """`open`, `done`, or `stopped`."""
    done: int
    """To how many tasks it was done."""
    left_alone: int
    """How many had changed by then, or could not be moved."""
    expected: Counted
    """How many matched when it began."""
    progress: float
    """From 0 to 1."""
    note: str
    """Why one of those was left alone."""
    created_at: datetime
    ended_at: datetime | None

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self.state == BulkState.OPEN.word


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """What an action would be about."""

    action: str
    filter: str
    count: Counted


class Bulk(Namespace):
    """`app.bulk`: retry, cancel or approve all tasks that match a filter, in portions, until done or stopped."""

    def preview(self, action: Action, filter: str | TaskFilter) -> BulkPreview:
        """How many tasks an action would be about now, and by which filter. Nothing is changed."""
        wanted = store.meant(checked_action(action), parsed(filter))
        return BulkPreview(action, str(wanted), Searching(self._client).count(wanted))

    apreview = awaited(preview)

    def start(
        self,
        action: Action,
        filter: str | TaskFilter,
        *,
        author: str | None = None,
        reason: str = "cancelled by an operator",
    ) -> BulkStatus:
        """Begin an action on all tasks that match now: `retry`, `cancel` or `approve`. Any worker carries it on.

        Where the filter says nothing of it, a retry is for failed tasks, a cancellation for open ones, and an approval
        for those that wait for it. `author` is who does this, by default the user of this process.
        """
        wanted = store.meant(checked_action(action), parsed(filter))
        why, by = arguments.reason_of(reason), checked_author(author)
        expected = Searching(self._client).count(wanted)
        number = self._client._transact(
            lambda: store.begin(
                action,
                wanted,
                reason=why if action == "cancel" else "",
                author=by,
                expected=expected.n,
                is_exact=expected.is_exact,
                now=self._client._store.clock.now(),
            )
        )
        return self.get(number)

    astart = awaited(start)

    def get(self, id: int) -> BulkStatus:
        """An action as it stands now."""
        return as_status(self._row(arguments.task_number(id)))

    aget = awaited(get)

    def list(self, limit: int = 20) -> builtins.list[BulkStatus]:
        """The newest actions."""
        most = arguments.most_of(limit)
        return [as_status(row) for row in self._client._ask(lambda: store.newest(most))]

    alist = awaited(list)

    def stop(self, id: int) -> BulkStatus:
        """Stop an action. What it has done stays done; one that has ended stays as it is."""
        number = arguments.task_number(id)
        self._row(number)
        self._client._transact(lambda: store.stop(number, self._client._store.clock.now()))
        return self.get(number)

    astop = awaited(stop)

    def carry_on(self, id: int, on_progress: Callable[[BulkStatus], object] | None = None) -> BulkStatus:
        """Carry an action on in this thread until it has ended, or another process has it; `on_progress` is called
        after every portion."""
        number = arguments.task_number(id)
        self._row(number)
        session = self._client._store.session(patience_s=self._client._wait_s())
        try:
            carrying = Carrying(session, number, self._client._registry.kinds)
            try:
                while (row := carrying.portion()) is not None:
                    if on_progress is not None:
                        on_progress(as_status(row))
                    if row.state is not BulkState.OPEN:
                        break
            except BaseException:
                carrying.leave()
                raise
        finally:
            session.close()
        return self.get(number)

    acarry_on = awaited(carry_on)

    def attend(self) -> BulkCarrier:
        """Carry on open actions in a thread of this process, until its `stop()` is called: what the dashboard does."""
        carrier = BulkCarrier(self._prepared_session, self._client._registry.kinds)
        carrier.start()
        return carrier

    def _prepared_session(self) -> Session:
        self._client.prepare()
        return self._client._store.session(patience_s=self._client._wait_s())

    def _row(self, number: int) -> BulkRow:
        row = self._client._ask(lambda: store.read(number))
        if row is None:
            raise BulkNotFound(number)
        return row


def checked_action(action: str) -> Action:
    """An action that can be done to many tasks."""
    for known in ACTIONS:
        if action == known:
            return known
    raise ConfigError(f"{arguments.shown(action)} cannot be done to many tasks; there are: {', '.join(ACTIONS)}")


def as_status(row: BulkRow) -> BulkStatus:
    """An action, from its row."""
    gone = row.done + row.left_alone
    if row.state is BulkState.DONE:
        progress = 1.0
    elif row.is_exact and row.expected:
        progress = min(1.0, gone / row.expected)
    else:
        progress = (row.upto - row.cursor) / max(1, row.upto)
    return BulkStatus(
        id=row.id,
        action=row.action,
        filter=row.filter,
        reason=row.reason,
        author=row.author,
        state=row.state.word,
        done=row.done,
        left_alone=row.left_alone,
        expected=Counted(row.expected, row.is_exact),
        progress=progress,
        note=row.note,
        created_at=moment(row.created_at),
        ended_at=None if row.ended_at is None else moment(row.ended_at),
    )
