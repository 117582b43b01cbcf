"""A receiver of OTLP on loopback, and workers whose spans it is sent."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from onceward import tracing


@dataclass(frozen=True, slots=True)
class Span:
    """A span as a collector is sent it."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    is_error: bool
    message: str
    events: dict[str, dict[str, Any]]
    began_ns: int
    ended_ns: int
    service: str


class Receiver:
    """A collector that keeps every span it is sent."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    data = gzip.decompress(data)
                receiver.take(ExportTraceServiceRequest.FromString(data))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.base = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, request: Any) -> None:
        """Keep what was sent."""
        found: list[Span] = []
        for resource in request.resource_spans:
            service = _values(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                found += [
                        Span(
                            one.name, one.trace_id.hex(), one.span_id.hex(), one.parent_span_id.hex(),
                            _values(one.attributes), one.status.code == 2, one.status.message,
                            {event.name: _values(event.attributes) for event in one.events},
                            one.start_time_unix_nano, one.end_time_unix_nano, service,
                        )
                    for one in scope.spans
                    ]  # fmt: skip
        with self.changed:
            self.spans += found
            self.changed.notify_all()

    def named(self, name: str) -> list[Span]:
        """The spans of that name, in the order of their beginnings."""
        return sorted((one for one in self.spans if one.name == name), key=lambda one: one.began_ns)

    def one(self, name: str) -> Span:
        """The only span of that name."""
        [found] = self.named(name)
        return found

    def wait_for(self, count: int) -> None:
        """Wait until so many spans have come."""
        ends_at = time.monotonic() + 20
        with self.changed:
            while len(self.spans) < count:
                assert self.changed.wait(ends_at - time.monotonic()), [one.name for one in self.spans]

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A collector on loopback."""
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def provider(receiver: Receiver) -> Iterator[TracerProvider]:
    """A provider that exports to it."""
    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{receiver.base}/v1/traces")))
    yield made
    made.shutdown()


@pytest.fixture
def traced(provider: TracerProvider) -> Iterator[tracing.Tracing]:
    """Tracing that is switched on for a test."""
    installed = tracing.install(provider)
    yield installed
    installed.close()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A database with the engine's tables, once of each kind."""
    found: str = request.getfixturevalue(f"migrated_{request.param}_url")
    return found
