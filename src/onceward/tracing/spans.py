"""The spans of the tasks and stages that the workers of this process run.

    task shop                          from its enqueue to its end
    ├── stage fetch                    one for each run of a stage, with its attempt, status and cost
    ├── stage fetch                    tried again
    └── task page                      spawned by one of them
        └── stage parse

A span of a stage begins and ends with its code, and is exported once its outcome is committed. Whatever the tracing
itself trips over is a line of the log and disturbs no stage.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, ParamSpec

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from onceward import baggage
from onceward.authoring.stage import Stage
from onceward.model.budget import read_amount
from onceward.model.status import Status as TaskStatus
from onceward.model.task import Advance, Crash, Finish, Lease, Move, TryAgain
from onceward.store.attempts.commit_results import CommitResult, GivenUp
from onceward.support.logs import EngineLog
from onceward.tracing.identities import KnownIds, span_of_stage, span_of_task
from onceward.worker import observing
from onceward.worker.attempt import Attempt
from onceward.worker.outcomes import outcome

NAME = "onceward"
FLUSH_MS = 5_000
"""How long the end of a worker waits for its last spans to be exported."""
BAD = frozenset({"failed", "retryable", "crashed", "expired", "lost"})
"""What makes the span of a stage one of an error."""
LONGEST_REASON = 1_000

A = ParamSpec("A")
logger = EngineLog("onceward.tracing")


def never_raising(method: Callable[A, None]) -> Callable[A, None]:
    """The same method, whose errors are lines of the log: tracing disturbs no stage."""

    @wraps(method)
    def calm(*arguments: A.args, **named: A.kwargs) -> None:
        try:
            method(*arguments, **named)
        except Exception as error:
            logger.warning("tracing has failed", error=repr(error), exc_info=error)

    return calm


class Spans:
    """Traces what the workers of this process do; what `install` has put in place."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._given = provider
        self._tracer: Any = None
        self._lock = threading.Lock()
        self._ids = KnownIds()
        self._carrier = TraceContextTextMapPropagator()

    @property
    def provider(self) -> TracerProvider:
        """Where spans go; made at first use, so that a process that runs no stage starts no exporter."""
        with self._lock:  # stages begin in several threads
            if self._given is None:
                self._given = _provider_of_process()
        return self._given

    def _begun(self, name: str, lease: Lease, parent: int | None, span: int, began_ns: int, **attributes: Any) -> Any:
        if self._tracer is None:
            tracer: Any = self.provider.get_tracer(NAME)
            tracer.id_generator = self._ids  # of this tracer alone: other spans have ids of their own
            self._tracer = tracer
        whole = int.from_bytes(lease.lineage_bytes, "big")
        around = contexts.Context() if parent is None else _around(self._context(whole, parent))
        with self._ids.saying(whole, span):
            return self._tracer.start_span(
                name,
                around,
                kind=SpanKind.CONSUMER if parent is None else SpanKind.INTERNAL,
                attributes=_described(lease) | attributes,
                start_time=began_ns,
            )

    def _context(self, whole: int, span: int) -> SpanContext:
        """A span that another process, or another moment, exports; sampled if its lineage is."""
        decision = self.provider.sampler.should_sample(None, whole, NAME).decision
        flags = TraceFlags.SAMPLED if decision is Decision.RECORD_AND_SAMPLE else TraceFlags.DEFAULT
        return SpanContext(whole, span, True, TraceFlags(flags))

    # What an observer is told

    @never_raising
    def begins(self, attempt: Attempt) -> None:
        """Begin the span of a stage, and have its code run in it."""
        lease, name = attempt.lease, attempt.stage.name
        span = self._begun(
            f"stage {lease.kind}.{name}",
            lease,
            span_of_task(lease.lineage_bytes, lease.task, lease.run),
            span_of_stage(lease.lineage_bytes, lease.task, lease.fence, name),
            time.time_ns(),
            **{"onceward.stage": name},
        )
        attempt.observed = [span, 0]
        contexts.attach(trace.set_span_in_context(span))

    @never_raising
    def begins_apart(self, lease: Lease, stage: Stage[Any, Any]) -> None:
        """Have the code of an isolated stage run in the span that its worker has begun."""
        span = span_of_stage(lease.lineage_bytes, lease.task, lease.fence, stage.name)
        contexts.attach(_around(self._context(int.from_bytes(lease.lineage_bytes, "big"), span)))

    @never_raising
    def ended(self, attempt: Attempt) -> None:
        """Note when a stage has ended; one that has lost its task ends its span, too."""
        if attempt.observed is not None:
            attempt.observed[1] = time.time_ns()
            if attempt.lost:
                self._close(attempt, "lost", "its lease was lost, and nothing of it was written", None)

    @never_raising
    def committed(self, attempt: Attempt, move: Move, verdict: CommitResult) -> None:
        """End the span of a stage with what has become of it, and that of a task that has ended."""
        if isinstance(verdict, Exception):
            return  # another move follows, which says so
        if not verdict:
            self._close(attempt, "lost", "its lease was lost, and nothing of it was written", None)
            return
        word = "committed" if isinstance(move, Advance) else outcome(move)
        reason = getattr(move, "reason", None)
        self._close(attempt, word, reason, getattr(move, "trace", None))
        if (end := _end_of(move, verdict)) is not None:
            self._task(attempt.lease, *end)

    def flush(self) -> None:
        """Export what was kept, if any was."""
        if self._tracer is not None:
            self.provider.force_flush(FLUSH_MS)

    def close(self) -> None:
        """Export what was kept and switch tracing off."""
        self.flush()
        if observing.observer is self:
            observing.observer = baggage.tracing = None

    # What carries a trace over a hop

    def outgoing(self) -> Mapping[str, str]:
        """Return the headers that carry the current span."""
        headers: dict[str, str] = {}
        self._carrier.inject(headers)
        return headers

    def incoming(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """While this lasts, spans that begin here belong to the trace of a request, unless they are in one already."""
        if not headers or trace.get_current_span().get_span_context().is_valid:
            return nullcontext()
        return _Attached(self._carrier.extract(headers))

    # Spans that are complete

    def _close(self, attempt: Attempt, word: str, reason: str | None, trace_text: str | None) -> None:
        if attempt.observed is None:
            return
        (span, ended_ns), attempt.observed = attempt.observed, None
        span.set_attribute("onceward.status", word)
        if attempt.bill is not None:
            span.set_attribute("onceward.cost_usd", float(read_amount(attempt.bill.usd)))
        _say_reason(span, reason, trace_text, is_bad=word in BAD)
        span.end(ended_ns or time.time_ns())

    def _task(self, lease: Lease, status: TaskStatus, reason: str | None) -> None:
        parent = None if lease.parent is None else span_of_task(lease.lineage_bytes, lease.parent)
        if lease.run > 1:
            parent = span_of_task(lease.lineage_bytes, lease.task)
        span = span_of_task(lease.lineage_bytes, lease.task, lease.run)
        begun = self._begun(f"task {lease.kind}", lease, parent, span, lease.created_at * 1_000_000)
        begun.set_attribute("onceward.status", status.word)
        _say_reason(begun, reason, None, is_bad=status is TaskStatus.FAILED)
        begun.end(max(time.time_ns(), lease.created_at * 1_000_000))


class _Attached:
    """A context of OpenTelemetry that is in force for a while."""

    def __init__(self, context: contexts.Context) -> None:
        self._context = context
        self._token: Any = None

    def __enter__(self) -> None:
        self._token = contexts.attach(self._context)

    def __exit__(self, *_: object) -> None:
        contexts.detach(self._token)


def _around(context: SpanContext) -> contexts.Context:
    return trace.set_span_in_context(NonRecordingSpan(context), contexts.Context())


def _described(lease: Lease) -> dict[str, Any]:
    return {
        "onceward.task": lease.task,
        "onceward.kind": lease.kind,
        "onceward.lineage": str(lease.lineage),
        "onceward.depth": lease.depth,
        "onceward.queue": lease.queue,
        "onceward.attempt": lease.fence,
        "onceward.failures": lease.failures,
    }


def _say_reason(span: Any, reason: str | None, trace_text: str | None, *, is_bad: bool) -> None:
    """Say why, in texts that the engine has stored: bounded, and without secrets."""
    if reason:
        span.set_attribute("onceward.reason", reason[:LONGEST_REASON])
    if is_bad:
        last_line = reason or "" if trace_text is None else trace_text.rstrip().rpartition("\n")[2]
        kind, _, message = last_line.partition(": ")
        values = {"exception.type": kind, "exception.message": message or kind}
        span.add_event("exception", values | ({} if trace_text is None else {"exception.stacktrace": trace_text}))
        span.set_status(Status(StatusCode.ERROR, (reason or "")[:LONGEST_REASON]))


def _end_of(move: Move, verdict: CommitResult) -> tuple[TaskStatus, str | None] | None:
    """How a committed move has ended its task; None if the task goes on."""
    match move:
        case Finish():
            return move.status, move.reason
        case TryAgain() if isinstance(verdict, GivenUp):
            return TaskStatus.FAILED, verdict.reason
        case Crash() if move.status.is_terminal:
            return move.status, move.reason
        case _:
            return None


def _provider_of_process() -> TracerProvider:
    """The provider of this process, or a new one that exports by OTLP and becomes that."""
    there = trace.get_tracer_provider()
    if isinstance(there, TracerProvider):
        return there
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    name = os.environ.get("OTEL_SERVICE_NAME", NAME)
    made = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(made)
    return made


def install(provider: TracerProvider | None) -> Spans:
    """Put tracing in place, once in a process."""
    if isinstance(observing.observer, Spans):
        return observing.observer
    spans = Spans(provider)
    observing.observer = baggage.tracing = spans
    return spans
