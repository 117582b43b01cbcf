"""What becomes of a task when a stage has ended: a pure function from what happened to the move that is written."""

from __future__ import annotations

import random

import msgspec

from onceward.model.fingerprints import fingerprint as fingerprint_of
from onceward.model.outcome import (
    NO_REASON,
    Failed,
    Filtered,
    Retryable,
    SchemaMismatch,
    Skipped,
    Verdict,
    Waiting,
    WaitingForBudget,
)
from onceward.model.retry import (
    LONGEST_READ,
    LONGEST_WISH_MS,
    Retry,
    backoff_ms,
    error_text,
    is_transient,
    retry_after_ms,
)
from onceward.model.status import Status
from onceward.model.task import NEVER, Crash, Defer, Finish, Lease, Move, Park, TryAgain
from onceward.support.redaction import redacted


class Fault(msgspec.Struct, frozen=True):
    """An error as far as it decides what becomes of a task; it may have been raised in another process."""

    reason: str
    is_permanent: bool
    is_transient: bool
    """Whether it is known to pass: by its class, its HTTP status, or because the pipeline names it."""
    asked_ms: int | None
    """How long a server asked us to wait."""
    trace: str | None = None
    """Where it was raised."""


_SIGNAL = "signal:"
CODE = "code:"
"""How begins what a task waits for whose stored data does not fit the code."""

_ENDS: dict[type[Verdict], Status] = {
    Filtered: Status.FILTERED,
    Skipped: Status.SKIPPED,
    Failed: Status.FAILED,
}


def after_error(
    error: BaseException, lease: Lease, stage: str, retry: Retry, fingerprint: str, now: int, dice: random.Random
) -> Move:
    """The move for a stage that raised. Verdicts say it themselves; anything else is an error of this attempt."""
    match error:
        case Filtered() | Skipped() | Failed():
            status = next(status for verdict, status in _ENDS.items() if isinstance(error, verdict))
            return Finish(stage, None, status, safe_text(error.reason))
        case WaitingForBudget():
            return Park(stage, error.waiting_for, NEVER, safe_text(error.reason))
        case Waiting():
            due_at = NEVER if error.after_ms is None else now + error.after_ms
            if error.until is None:
                return Defer(stage, due_at, safe_text(error.reason))
            return Park(stage, signal_wait(error.until), due_at, safe_text(error.reason))
        case SchemaMismatch():
            return Park(stage, code_wait(fingerprint), NEVER, safe_text(error.reason))
        case Retryable():
            return after_failure(error.reason, lease, stage, retry, error.after_ms, now, dice, is_transient=True)
    return after_fault(fault_of(error, retry, now), lease, stage, retry, now, dice)


def fault_of(error: BaseException, retry: Retry, now: int) -> Fault:
    """What decides about an error that is no verdict."""
    return Fault(error_text(error), retry.is_permanent(error), is_transient(error, retry), retry_after_ms(error, now))


def after_fault(fault: Fault, lease: Lease, stage: str, retry: Retry, now: int, dice: random.Random) -> Move:
    """The move for a stage that raised an error, here or in a process of its own."""
    reason = fault.reason
    if fault.is_permanent:
        return Finish(stage, None, Status.FAILED, safe_text(reason), fingerprint_of(reason))
    asked_ms = fault.asked_ms
    if asked_ms is not None:
        asked_ms = min(asked_ms, max(LONGEST_WISH_MS, retry.cap_ms))
    return after_failure(reason, lease, stage, retry, asked_ms, now, dice, is_transient=fault.is_transient)


def after_failure(
    reason: str,
    lease: Lease,
    stage: str,
    retry: Retry,
    after_ms: int | None,
    now: int,
    dice: random.Random,
    *,
    is_transient: bool,
) -> Move:
    """The move for a failed attempt of a stage: again after a while, or the end when its retries are used up.

    Whether it has failed the same way before, and gives up therefore, is decided when the move is written.
    """
    failures = lease.failures + 1
    fingerprint = fingerprint_of(reason)
    if retry.retries is not None and failures > retry.retries:
        return Finish(stage, None, Status.FAILED, exhausted(retry.retries, reason), fingerprint)
    delay_ms = backoff_ms(retry, failures, dice) if after_ms is None else after_ms
    same_errors = None if is_transient else retry.most_same_errors
    storm_brake, reason = retry.storm_brake, safe_text(reason)
    return TryAgain(stage, now + delay_ms, reason, fingerprint, same_errors, storm_brake, is_transient=is_transient)


class SameErrors(msgspec.Struct, frozen=True):
    """How often a task, and tasks like it, have failed with one error before."""

    elsewhere: int | None
    """An ended task of the same work that failed with it."""
    in_a_row: int
    """How often this task has, without another error in between."""
    in_lineage: int
    """How many tasks of the same kind and lineage have."""


def after_same_errors(move: TryAgain, kind: str, errors: SameErrors) -> TryAgain | Finish:
    """Keep a retry, or end a task that has failed the same way before: another try would only cost."""
    if errors.elsewhere is not None:
        why = f"failed the same way before (task {errors.elsewhere})"
    elif move.same_errors is not None and errors.in_a_row + 1 >= move.same_errors:
        why = f"failed the same way {errors.in_a_row + 1} times in a row"
    elif move.storm_brake is not None and errors.in_lineage >= move.storm_brake:
        why = f"{errors.in_lineage} {kind} tasks of this lineage have failed the same way"
    else:
        return move
    return Finish(move.stage, None, Status.FAILED, safe_text(f"{why}: {move.reason}"), move.fingerprint, move.trace)


def after_crash(lease: Lease, stage: str, deaths_allowed: int, how: str) -> Crash:
    """The move for a stage whose process died while it ran in it alone."""
    crashes = lease.crashes + 1
    status = Status.FAILED if crashes >= deaths_allowed else Status.PENDING
    return Crash(stage, lost_workers(crashes) if status is Status.FAILED else safe_text(how), status)


def exhausted(retries: int, reason: str) -> str:
    """The reason of a task whose retries are used up."""
    return safe_text(f"failed after {retries} {'retry' if retries == 1 else 'retries'}: {reason}")


def lost_workers(count: int) -> str:
    """The reason of a task that is quarantined."""
    return f"lost {count} worker{'' if count == 1 else 's'}"


def signal_wait(name: str) -> str:
    """What a task waits for that waits for a signal."""
    return f"{_SIGNAL}{name}"


def signal_of(waiting_for: str) -> str | None:
    """The signal that a task waits for; None if it waits for something else."""
    return waiting_for.removeprefix(_SIGNAL) if waiting_for.startswith(_SIGNAL) else None


def batch_wait(name: str) -> str:
    """What a task waits for that follows a batch."""
    return f"batch:{name}"


def code_wait(fingerprint: str) -> str:
    """What a task waits for whose stored data does not fit the code with this fingerprint."""
    return f"{CODE}{fingerprint}"


def is_code_wait(waiting_for: str) -> bool:
    """Whether a task waits for code that fits its stored data."""
    return waiting_for.startswith(CODE)


def wait_text(waiting_for: str) -> str:
    """What a task waits for, in words."""
    what, _, name = waiting_for.partition(":")
    match what:
        case "children":
            return "its children"
        case "batch":
            return f"batch {name!r} to end"
        case "signal":
            return f"the signal {name!r}"
        case "budget":
            return f"budget {name}"
        case "code":
            return "other code, which reads what is stored"
    return waiting_for


def safe_text(text: str) -> str:
    """A text that both databases hold, and that is safe to show: no NUL, no lone surrogates, no secrets, not endless;
    and not empty, because what has ended says why."""
    held = text[:LONGEST_READ].replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return redacted(held)[:2_000] or NO_REASON
