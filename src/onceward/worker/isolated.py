"""Stages in another process: whatever they do to it, the worker lives.

Payload, results and effects cross a socket as msgpack; functions given to `ctx.write` cross by their import name.
A process that dies without a word has crashed while its stage ran alone, which counts to the limit of lost workers.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from onceward.errors import ConfigError, LeaseLost, OncewardError
from onceward.model.budget import Bill
from onceward.model.cache import AnswerTaken
from onceward.model.decide import Fault
from onceward.model.gates import SourceReport
from onceward.model.holds import NotEnough
from onceward.model.lineage import Spawns
from onceward.model.outcome import (
    Failed,
    Filtered,
    Retryable,
    SchemaMismatch,
    Skipped,
    Verdict,
    Waiting,
    WaitingForBudget,
)
from onceward.model.source import NotYet
from onceward.model.sql_text import Sql, run_text
from onceward.model.task import NO_EFFECTS, Effects, Fill, Filled, Hold, Keep, Lease, Move, Part, Report, Take, Write
from onceward.worker.find_app import MAIN_ALIAS
from onceward.worker.stage_processes import LENGTH, StageProcess, StageProcesses

if TYPE_CHECKING:
    from onceward.authoring.worker_port import Desk
    from onceward.worker.attempt import Attempt


class StoredResult(msgspec.Struct, frozen=True):
    """A result that is already in its stored form."""

    data: bytes


class ProcessDied(Exception):
    """The process of an isolated stage ended without a word."""


class RemoteError(Exception):
    """An error that was raised in the process of an isolated stage."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


class ProcessLimits(msgspec.Struct, frozen=True):
    """What the process may take."""

    memory_mb: int | None
    cpu_s: int | None
    file_mb: int | None
    open_files: int | None


class StageStart(msgspec.Struct, frozen=True, tag="start"):
    """What the process needs to begin."""

    app: str
    lease: Lease
    stage: str
    parts: list[tuple[str, str, bytes]]
    signals: dict[str, bytes]
    limits: ProcessLimits
    is_kept: bool = False
    """Whether another run may follow in the same process: limits are then given for this run alone."""


class FarWrite(msgspec.Struct, frozen=True):
    """A function given to `ctx.write`, by name, with its arguments."""

    function: str
    arguments: bytes


class KeepRequest(msgspec.Struct, frozen=True, tag="keep"):
    """The stage wants parts committed while it goes on."""

    stage: str
    parts: list[Part]
    writes: list[FarWrite]
    spawns: Spawns | None = None
    bill: Bill | None = None


class TakeRequest(msgspec.Struct, frozen=True, tag="take"):
    """The stage wants to pass a gate once more."""

    take: Take


class HoldRequest(msgspec.Struct, frozen=True, tag="hold"):
    """The stage wants to hold an amount of a budget beyond itself."""

    hold: Hold


class FillRequest(msgspec.Struct, frozen=True, tag="fill"):
    """The stage wants to be the one who asks for an answer that the cache does not have."""

    fill: Fill


class FilledNotice(msgspec.Struct, frozen=True, tag="filled"):
    """The stage has asked for it."""

    filled: Filled


class ProgressNotice(msgspec.Struct, frozen=True, tag="report"):
    """The stage shows how writes_by_name it has come."""

    stage: str
    done: int
    total: int | None
    note: str | None


class LeaseQuery(msgspec.Struct, frozen=True, tag="alive"):
    """The stage asks whether it still holds its task."""


class StageReturned(msgspec.Struct, frozen=True, tag="returned"):
    """The stage has returned."""

    value: bytes
    writes: list[FarWrite]
    spawns: Spawns | None = None
    reports: tuple[SourceReport, ...] = ()
    bill: Bill | None = None
    sizes: bytes | None = None
    memory_mb: int = 0
    """What the process holds after the run."""


class StageRaised(msgspec.Struct, frozen=True, tag="raised"):
    """The stage has raised: a verdict by its name, or an error."""

    verdict: str | None
    reason: str
    writes: list[FarWrite]
    after_ms: int | None = None
    until: str | None = None
    fault: Fault | None = None
    spawns: Spawns | None = None
    reports: tuple[SourceReport, ...] = ()
    bill: Bill | None = None
    memory_mb: int = 0


class WorkerAnswer(msgspec.Struct, frozen=True, tag="answer"):
    """What the worker answers."""

    accepted: bool
    error: str | None = None
    again_at: int | None = None
    """When a gate may be passed that cannot be now."""
    is_full: bool = False
    """Whether it is only full, so that no time is known."""
    is_taken: bool = False
    """Whether another attempt asks for the answer."""
    short: tuple[str, str | None] | None = None
    """Why a budget has not enough for a hold, and what its task waits for; None there if it fails."""


FromStage = (
    KeepRequest
    | TakeRequest
    | HoldRequest
    | FillRequest
    | FilledNotice
    | ProgressNotice
    | LeaseQuery
    | StageReturned
    | StageRaised
)
read_from_stage = msgspec.msgpack.Decoder(FromStage).decode
read_start = msgspec.msgpack.Decoder(StageStart).decode
read_answer = msgspec.msgpack.Decoder(WorkerAnswer).decode
packed = msgspec.msgpack.Encoder().encode

_VERDICTS: dict[type[Verdict], Callable[[StageRaised], Verdict]] = {
    Filtered: lambda raised: Filtered(raised.reason),
    Skipped: lambda raised: Skipped(raised.reason),
    Failed: lambda raised: Failed(raised.reason),
    SchemaMismatch: lambda raised: SchemaMismatch(raised.reason),
    Retryable: lambda raised: Retryable(raised.reason, after=_seconds(raised.after_ms)),
    WaitingForBudget: lambda raised: WaitingForBudget(raised.reason, raised.until or ""),
    Waiting: lambda raised: Waiting(after=_seconds(raised.after_ms), until=raised.until, reason=raised.reason),
}
_BY_NAME = {verdict.__name__: made for verdict, made in _VERDICTS.items()}


def verdict_name(error: BaseException) -> str | None:
    """The name under which a verdict crosses, that of ours which an application's own comes from; None for an error."""
    return next((one.__name__ for one in type(error).__mro__ if one in _VERDICTS), None)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1_000


def framed(message: msgspec.Struct) -> bytes:
    """A message with its length before it."""
    data = packed(message)
    return LENGTH.pack(len(data)) + data


def writes_by_name(writes: tuple[Write, ...]) -> list[FarWrite]:
    """Writes in the form that crosses to another process."""
    crossing = []
    for function, arguments in writes:
        if isinstance(function, Sql):
            crossing += writes_by_name(((run_text, (function.text, *arguments)),))
            continue
        called = getattr(function, "__qualname__", repr(function))
        name = f"{getattr(function, '__module__', None)}:{called}"
        if "<" in name or not _is_called(name, function):
            raise ConfigError(
                f"{called} cannot be found by name in another process; "
                "an isolated stage gives ctx.write a function that stands at the top of a module"
            )
        try:
            crossing.append(FarWrite(name, packed(arguments)))
        except Exception as error:
            raise ConfigError(f"what {called} is given cannot cross to another process: {error}") from error
    return crossing


def _is_called(name: str, function: Any) -> bool:
    """Whether a function is what will be found under its name: a method of an object is not, it would lose that."""
    try:
        return bool(_function_named(name) == function)
    except Exception:
        return False


def _function_named(function: str) -> Any:
    module, _, name = function.partition(":")
    if module == MAIN_ALIAS and module not in sys.modules:
        module = "__main__"  # the script that is the app's module runs here under its own name
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def writes_from_names(writes: list[FarWrite]) -> tuple[Write, ...]:
    """Writes as they are run here."""
    return tuple((_function_named(write.function), tuple(msgspec.msgpack.decode(write.arguments))) for write in writes)


async def run_isolated(attempt: Attempt, app: str | None, desk: Desk, processes: StageProcesses) -> StoredResult:
    """Run the stage of an attempt in another process; returns or raises what the stage did."""
    stage, lease = attempt.stage, attempt.lease
    if app is None:
        raise ConfigError(f"stage {stage.name!r} is isolated, so its app must stand in a module that can be imported")
    wanted = stage.isolation
    assert wanted is not None
    process = await processes.take(wanted)
    has_told: StageReturned | StageRaised | None = None
    try:
        parts = [(name, part, value) for (name, part), value in attempt.parts.items()]
        limits = ProcessLimits(wanted.memory_mb, wanted.cpu_s, wanted.file_mb, wanted.open_files)
        process.send(framed(StageStart(app, lease, stage.name, parts, attempt.signals, limits, wanted.runs > 1)))
        has_told = await _served(attempt, desk, process)
    finally:
        if has_told is None:
            await process.end()
        else:
            await processes.give_back(process, wanted, has_told.memory_mb)
    if isinstance(has_told, StageReturned):
        effects = Effects(
            writes_from_names(has_told.writes), has_told.spawns, has_told.reports, has_told.bill, has_told.sizes
        )
        attempt.context._adopt(effects)
        return StoredResult(has_told.value)
    effects = Effects(writes_from_names(has_told.writes), has_told.spawns, has_told.reports, has_told.bill)
    attempt.context._adopt(effects)
    raise _error_raised(has_told)


async def _served(attempt: Attempt, desk: Desk, process: StageProcess) -> StageReturned | StageRaised:
    """Do what a stage asks for from its process, until it tells how it has ended."""
    lease = attempt.lease
    while True:
        received = await process.receive()
        if received is None:
            raise ProcessDied(await process.how_it_died())
        match read_from_stage(received):
            case KeepRequest(name, kept, writes, spawns, bill):
                try:
                    effects = Effects(writes_from_names(writes), spawns, bill=bill)
                    answer = await _keep(desk, lease, Keep(name, tuple(kept)), effects)
                except Exception:
                    attempt.context._adopt(Effects(bill=bill))  # the rows are not kept, but what was spent is spent
                    raise
                if answer.accepted and bill is not None:
                    attempt.context._view_settled(bill)
                process.send(framed(answer))
            case HoldRequest(hold):
                answer = await _keep(desk, lease, hold, NO_EFFECTS)
                if answer.accepted:
                    attempt.context._held(True, hold)
                process.send(framed(answer))
            case TakeRequest(move) | FillRequest(move) | FilledNotice(move):
                process.send(framed(await _keep(desk, lease, move, NO_EFFECTS)))
            case ProgressNotice(name, done, total, note):
                desk.report(lease, Report(name, done, total, note))
            case LeaseQuery():
                process.send(framed(WorkerAnswer(desk.is_held(lease))))
            case StageReturned() | StageRaised() as told:
                return told


async def _keep(desk: Desk, lease: Lease, move: Move, effects: Effects) -> WorkerAnswer:
    try:
        return WorkerAnswer(await desk.akeep(lease, move, effects))
    except NotYet as closed:
        return WorkerAnswer(False, again_at=closed.again_at, is_full=closed.is_full)
    except NotEnough as short:
        return WorkerAnswer(False, short=(short.reason, short.waiting_for))
    except AnswerTaken:
        return WorkerAnswer(False, is_taken=True)
    except (OncewardError, LeaseLost) as error:
        return WorkerAnswer(False, str(error))


def _error_raised(message: StageRaised) -> BaseException:
    if message.fault is not None:
        return RemoteError(message.fault)
    assert message.verdict is not None, "what is no error is a verdict"
    return _BY_NAME[message.verdict](message)
