"""Which span is whose: ids that follow from lineage, task and stage, so that no process has to pass them on.

The trace of a task is its lineage. The span of a task has an id that follows from the number of the task, and the span
of a stage one that follows from its attempt. So a child is attached to its parent from any process, at any time, and a
request that carries a lineage finds its trace.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace.id_generator import IdGenerator


def span_of_task(lineage: bytes, task: int, run: int = 1) -> int:
    """Return the id of the span of a task; children are attached to that of its first run."""
    return _number(b"task", lineage, f"{task} {run}".encode())


def span_of_stage(lineage: bytes, task: int, fence: int, stage: str) -> int:
    """Return the id of the span of a stage in one attempt."""
    return _number(b"stage", lineage, f"{task} {fence} {stage}".encode())


def _number(*parts: bytes) -> int:
    hashed = hashlib.blake2b(b"\0".join(parts), digest_size=8).digest()
    return int.from_bytes(hashed, "big") or 1


class KnownIds(IdGenerator):
    """Gives the next span of a thread the ids that were said before."""

    def __init__(self) -> None:
        self._next = threading.local()

    @contextmanager
    def saying(self, trace: int, span: int) -> Iterator[None]:
        """While this lasts, a span that begins in this thread has this id, and a trace that begins has that one."""
        self._next.trace, self._next.span = trace, span
        yield

    def generate_trace_id(self) -> int:
        """Return the id of the trace that begins."""
        trace: int = self._next.trace
        return trace

    def generate_span_id(self) -> int:
        """Return the id of the span that begins."""
        span: int = self._next.span
        return span
