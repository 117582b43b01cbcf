"""Spans follow a lineage across tasks, processes and HTTP hops, as a real receiver of OTLP sees them."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from onceward import App, Context, Payload, Pipeline, Status, tracing
from onceward.baggage import incoming, outgoing_headers
from tests.tracing import traced_app
from tests.tracing.conftest import Receiver

APP = Path(traced_app.__file__)


def test_the_spans_of_a_lineage_are_one_tree(url: str, receiver: Receiver, traced: tracing.Tracing) -> None:
    with traced_app.app.on(url) as app:
        root = app.enqueue(traced_app.Shop("corner"))
        app.run(until_idle=True)
        traced.flush()
        task = app.tasks.get(root)
        assert task.status is Status.SUCCEEDED

    shop = receiver.one("task shop")
    assert shop.parent == ""
    assert {one.trace for one in receiver.spans} == {task.lineage.hex}
    stages = [receiver.one(f"stage shop.{name}") for name in ("threaded", "awaited")]
    assert [one.parent for one in stages] == [shop.id] * 2
    assert [one.attributes["onceward.status"] for one in stages] == ["handed over", "succeeded"]
    items = receiver.named("task item")
    assert [one.parent for one in items] == [shop.id] * 3
    assert {one.attributes["onceward.status"] for one in items} == {"succeeded", "failed", "filtered"}
    looks = receiver.named("stage item.look")
    assert len(looks) == 4, "one was tried again"
    assert {one.parent for one in looks} == {one.id for one in items}
    assert all(one.began_ns <= one.ended_ns for one in receiver.spans)
    assert all(shop.began_ns <= one.began_ns for one in stages)

    assert task.results["awaited"] == [stages[1].trace, stages[1].id], "what a stage makes is in its span"
    assert stages[1].attributes["onceward.cost_usd"] == 0.25
    described = {name: value for name, value in shop.attributes.items() if name.startswith("onceward.")}
    assert described == {
        "onceward.task": task.id, "onceward.kind": "shop", "onceward.lineage": str(task.lineage), "onceward.depth": 0,
        "onceward.queue": "default", "onceward.attempt": described["onceward.attempt"], "onceward.failures": 0,
        "onceward.status": "succeeded",
    }  # fmt: skip


def test_an_error_is_recorded_without_secrets(url: str, receiver: Receiver, traced: tracing.Tracing) -> None:
    with traced_app.app.on(url) as app:
        app.enqueue(traced_app.Item("lamp", "flaky"))
        app.run(until_idle=True)
        traced.flush()

    first, second = receiver.named("stage item.look")
    assert (first.attributes["onceward.status"], second.attributes["onceward.status"]) == ("retryable", "failed")
    assert (first.attributes["onceward.failures"], second.attributes["onceward.failures"]) == (0, 1)
    for one in (first, second):
        assert one.is_error
        assert one.events["exception"]["exception.type"] == "ValueError"
        assert "raise ValueError" in one.events["exception"]["exception.stacktrace"]
        assert "hunter2" not in str(one)
    task = receiver.one("task item")
    assert task.is_error
    assert "no luck" in task.message


def test_a_worker_under_a_supervisor_is_traced_by_the_variables_of_opentelemetry(
    url: str, receiver: Receiver, tmp_path: Path
) -> None:
    with traced_app.app.on(url) as app:
        root, apart = app.enqueue(traced_app.Shop("corner")), app.enqueue(traced_app.Apart("corner"))
        variables = {
            "TRACED_DB": url, "TRACED": "1", "OTEL_SERVICE_NAME": "corner-shop",
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.base,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "onceward", "run", f"{APP}:app", "--until-idle", "--processes", "1"],
            env={**os.environ, **variables}, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        receiver.wait_for(13)
        results = app.tasks.get(root).results | app.tasks.get(apart).results

    assert {one.service for one in receiver.spans} == {"corner-shop"}
    threaded, by_hand = receiver.one("stage shop.threaded"), receiver.one("by hand")
    assert by_hand.parent == threaded.id
    assert results["threaded"] == [by_hand.trace, by_hand.id]
    alone = receiver.one("stage apart.alone")
    assert results["alone"] == [alone.trace, alone.id], "its process knows its span without being told"


class Ask(Payload, kind="ask"):
    url: str


class Asked(Payload, kind="asked"):
    name: str


def test_a_trace_crosses_an_http_hop_with_its_lineage(
    url: str, receiver: Receiver, traced: tracing.Tracing, provider: TracerProvider
) -> None:
    ask, asked = Pipeline(Ask), Pipeline(Asked)
    sent: list[Mapping[str, str]] = []

    @ask.stage
    def post(ctx: Context[Ask]) -> None:
        headers = outgoing_headers({"X-Mine": "1"})
        sent.append(headers)
        urllib.request.urlopen(urllib.request.Request(ctx.payload.url, b"lamp", headers), timeout=10).close()

    @asked.stage
    async def take(ctx: Context[Asked]) -> None:
        pass

    app = App(url, [ask, asked])

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            name = self.rfile.read(int(self.headers["Content-Length"])).decode()
            with incoming(self.headers), provider.get_tracer("service").start_as_current_span("serve"):
                app.enqueue(Asked(name))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        root = app.enqueue(Ask(f"http://127.0.0.1:{server.server_port}/"))
        app.run(until_idle=True)
        traced.flush()
        lineage = app.tasks.get(root).lineage.hex
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        app.close()

    [headers] = sent
    stage = receiver.one("stage ask.post")
    assert headers["traceparent"].split("-")[1:3] == [lineage, stage.id]
    assert headers["X-Mine"] == "1"
    assert receiver.one("serve").parent == stage.id
    assert receiver.one("task asked").parent == receiver.one("task ask").id
    assert {one.trace for one in receiver.spans} == {lineage}
    assert not trace.get_current_span().get_span_context().is_valid


def test_headers_that_a_caller_has_set_are_kept(traced: tracing.Tracing, provider: TracerProvider) -> None:
    with provider.get_tracer("mine").start_as_current_span("mine"):
        assert "traceparent" in outgoing_headers()
        assert outgoing_headers({"Traceparent": "theirs"}) == {"Traceparent": "theirs"}
        mine = trace.get_current_span()
        with incoming({"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}):
            assert trace.get_current_span() is mine, "a server that is traced already knows better"
    with incoming({"HTTP_TRACEPARENT": f"00-{'1' * 32}-{'2' * 16}-01"}):
        assert f"{trace.get_current_span().get_span_context().trace_id:x}" == "1" * 32
    with incoming({"traceparent": "nonsense"}):
        assert not trace.get_current_span().get_span_context().is_valid


class Broken(SpanProcessor):
    """Trips over every span."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("no room")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("no room")


def test_no_stage_is_disturbed_by_its_tracing(url: str, caplog: pytest.LogCaptureFixture) -> None:
    provider = TracerProvider()
    provider.add_span_processor(Broken())
    installed = tracing.install(provider)
    try:
        with traced_app.app.on(url) as app:
            task = app.enqueue(traced_app.Item("lamp"))
            app.run(until_idle=True)
            assert app.tasks.get(task).status is Status.SUCCEEDED
    finally:
        installed.close()
        provider.shutdown()
    assert "tracing has failed" in caplog.text


def test_a_lineage_is_sampled_as_a_whole(url: str, receiver: Receiver, provider: TracerProvider) -> None:
    provider.sampler = TraceIdRatioBased(0.5)
    installed = tracing.install(provider)
    try:
        with traced_app.app.on(url) as app:
            tasks = app.enqueue_many([traced_app.Item(f"lamp {number}") for number in range(30)])
            app.run(until_idle=True)
            lineages = {app.tasks.get(one).lineage.hex for one in tasks}
        installed.flush()
    finally:
        installed.close()
    there = {one.trace for one in receiver.spans}
    assert there < lineages
    assert there == {one.trace for one in receiver.named("task item")}
    assert there == {one.trace for one in receiver.named("stage item.look")}


def test_tracing_is_installed_once_and_switched_off(provider: TracerProvider) -> None:
    first = tracing.install(provider)
    assert tracing.install() is first
    first.close()
    second = tracing.install(provider)
    assert second is not first
    second.close()


def test_nothing_of_it_is_imported_unless_it_is_switched_on(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from onceward import App, Context, Payload, Pipeline, tracing\n"
        "class Job(Payload, kind='job'): number: int\n"
        "job = Pipeline(Job)\n"
        "@job.stage\n"
        "def run(ctx: Context[Job]) -> None: pass\n"
        "app = App('sqlite:///off.db', [job])\n"
        "app.enqueue(Job(1)); app.run(until_idle=True)\n"
        "print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_the_extra_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; from onceward import tracing; tracing.install()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'onceward[otel]'" in done.stderr
