"""How a stage says what should become of its task: it returns, or it raises one of these.

They are no `Exception`s, so that a helper's `except Exception` cannot swallow a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator

from onceward.errors import ConfigError
from onceward.model.codec import checked_name
from onceward.model.retry import error_text
from onceward.model.times import Duration, milliseconds

NO_REASON = "no reason was given"


class Verdict(BaseException):
    """What a stage raises to end or to move its task."""

    reason: str = NO_REASON


class Filtered(Verdict):
    """A rule rejects this work. The task ends `filtered`, with the effects of the stage."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = _in_words(reason)


class Skipped(Verdict):
    """The work is not worth doing. The task ends `skipped`, with the effects of the stage."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = _in_words(reason)


class Failed(Verdict):
    """The work has failed for good; no retry. The task ends `failed`, with the effects of the stage."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = _in_words(reason)


class Retryable(Verdict):
    """This attempt has failed; try the stage again, after a stated time if there is one. Its effects are dropped."""

    def __init__(self, reason: str = "asked to be retried", *, after: Duration | None = None) -> None:
        super().__init__(reason)
        self.reason = _in_words(reason)
        self.after_ms = None if after is None else milliseconds(after)


class Waiting(Verdict):
    """Not yet: run this stage again after a time, or when a signal has come. Costs no attempt.

    `Waiting(after="30s")` polls again, `Waiting(until="approved")` waits for `app.tasks.signal(id, "approved")`, and
    with both the time ends the wait if no signal has come: then `ctx.timed_out("approved")` is true. The effects of
    the stage are kept.
    """

    def __init__(self, *, after: Duration | None = None, until: str | None = None, reason: str | None = None) -> None:
        if after is None and until is None:
            raise ConfigError("Waiting needs after= (a duration), until= (the name of a signal), or both")
        self.after_ms = None if after is None else milliseconds(after)
        self.until = None if until is None else checked_name(until, "a signal")
        otherwise = f"waiting for the signal {until!r}" if until else "asked to be polled again"
        self.reason = _in_words(reason) if reason else otherwise
        super().__init__(self.reason)


class WaitingForBudget(Waiting):
    """A budget has not enough left for what the stage wants to hold: its task waits until there is."""

    def __init__(self, reason: str, waiting_for: str) -> None:
        super().__init__(until="budget", reason=reason)
        self.waiting_for = waiting_for


class SchemaMismatch(Verdict):
    """Stored data no longer fits the code. The engine raises it; the task is parked until the code fits again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = _in_words(reason)


def _in_words(reason: object) -> str:
    """A reason as text, whatever was given: `Failed(error)` is easily written where the text of the error is meant."""
    if isinstance(reason, BaseException):
        return error_text(reason)
    return NO_REASON if reason is None else str(reason) or NO_REASON


def unwrapped(error: BaseException) -> BaseException:
    """What an exception group means: its verdict if that is the only thing in it, otherwise the group itself."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = list(_leaves(error))
    return leaves[0] if len(leaves) == 1 else error


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
