"""When the time of a task is over, and what is said of it then.

Its clock runs from its first claim and begins anew with every finished stage. While the task waits for children, a
signal or an operator, and while it stands in line for a stage that has not been tried yet, the clock stands still: a
task that could not begin never fails by time.
"""

from __future__ import annotations

import msgspec

from onceward.model.decide import safe_text
from onceward.model.status import Status
from onceward.model.task import Crash, Defer, Expire, Finish, Lease, Move, Park, TryAgain
from onceward.model.times import duration_text

HOUR_MS = 3_600_000
LEAST_AT_EXPIRY_MS = HOUR_MS
"""How long what is done at expiry may take at least, with its retries, however little time its task had."""


def exceeded(allowed_ms: int, what: str | None = None) -> str:
    """Why a task fails by time: its own, or that of its batch or lineage."""
    hours, rest = divmod(allowed_ms, HOUR_MS)
    said = f"exceeded {duration_text(allowed_ms) if rest or not hours else f'{hours} h'}"
    return said if what is None else f"{what} {said}"


def limit_at_expiry(limit_ms: int) -> int:
    """How long what is done at expiry may take, if a task may take so long."""
    return max(limit_ms, LEAST_AT_EXPIRY_MS)


def in_time(move: Move, lease: Lease, limit_ms: int, now: int) -> Move:
    """A move as it is; but a task that would be back in line although its time is over has failed."""
    if not isinstance(move, TryAgain | Defer | Crash) or (isinstance(move, Crash) and move.status.is_terminal):
        return move
    over_at = lease.clock_at + limit_ms
    if now >= over_at:
        return Expire(move.stage, exceeded(limit_ms))
    return msgspec.structs.replace(move, over_at=over_at)


def after_last_stage(move: Move | None, lease: Lease, stage: str) -> Move:
    """What becomes of a task whose time was over, after what its pipeline does at expiry.

    `move` is what would follow from an error of that; None if it went well. Unless it is tried again the task has
    failed, with what is said of its time first. The task stays at the stage where it stood, so that an operator may
    have it go on there.
    """
    match move:
        case TryAgain(_, due_at, reason):
            return TryAgain(stage, due_at, reason, over_at=move.over_at)
        case Defer() | Crash(_, _, Status.PENDING):
            return msgspec.structs.replace(move, stage=stage)
        case Finish(_, _, _, str(trouble)) | Crash(_, trouble) | Park(_, _, _, trouble) | Expire(_, trouble):
            return Finish(stage, None, Status.FAILED, safe_text(f"{lease.expiry}; at its expiry: {trouble}"))
    return Finish(stage, None, Status.FAILED, lease.expiry)
