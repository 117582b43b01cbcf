"""Where a worker tells an observer of the stages that it runs. While there is none, nothing is told or paid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from onceward.store.attempts.commit_results import CommitResult

if TYPE_CHECKING:
    from onceward.authoring.stage import Stage
    from onceward.model.task import Lease, Move
    from onceward.worker.attempt import Attempt


class Observer(Protocol):
    """Is told of every stage: that it begins, that it has ended, and what has become of that. It must not raise."""

    def begins(self, attempt: Attempt) -> None:
        """A stage begins here, in the thread or the asyncio task that runs it: context variables reach its code."""

    def begins_apart(self, lease: Lease, stage: Stage[Any, Any]) -> None:
        """A stage begins in this process of its own; its worker is told of the rest."""

    def ended(self, attempt: Attempt) -> None:
        """A stage has returned or raised. Nothing of it is durable yet."""

    def committed(self, attempt: Attempt, move: Move, verdict: CommitResult) -> None:
        """What has come of a stage was written, or refused."""

    def flush(self) -> None:
        """The process ends: hand over what was kept."""


observer: Observer | None = None
"""The observer of this process."""
