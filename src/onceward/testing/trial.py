"""One task, tried in this process: its stages run as a worker runs them, are watched, and stop at the first error.

The app is a copy: its tasks stand in a queue of their own, which no other worker serves, so that a trial on a real
database runs nothing else and nothing else runs the trial. Stages have no time limit, and no process of their own.
"""

from __future__ import annotations

import ast
import copy
import functools
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, cast

import msgspec

from onceward.app import App
from onceward.authoring.pipeline import Pipeline
from onceward.authoring.stage import Stage
from onceward.errors import ConfigError, PayloadError
from onceward.model.outcome import Verdict
from onceward.model.payload import Payload
from onceward.views.task import Task
from onceward.worker.process import WorkerProcess
from onceward.worker.worker_orders import Orders


@dataclass(slots=True)
class StageTrial:
    """What one run of a stage came to: a result, a verdict or an error."""

    kind: str
    stage: str
    seconds: float
    result: Any = None
    verdict: Verdict | None = None
    error: Exception | None = None
    trace: TracebackType | None = None
    """Where it was raised, from the frame of the stage on."""


@dataclass(slots=True)
class Trial:
    """One task, and the runs of stages in the order in which they ended."""

    app: App
    on_stage: Callable[[StageTrial], None]
    stages: list[StageTrial] = field(default_factory=list)
    _worker: WorkerProcess | None = None

    def run(self, payload: Payload) -> Task:
        """Run one task and its children to their end, or to the first error; what is then open is cancelled."""
        self.app.prepare()
        self.app._registry.check_runnable()
        task = self.app.enqueue(payload).id
        try:
            self.app._work(Orders(until_idle=True), on_start=lambda worker: setattr(self, "_worker", worker))
        finally:
            found = self.app.tasks.get(task)
            self.app.lineages.cancel(found.lineage, "its trial has ended")
        return found if self.failure is None else self.app.tasks.get(task)

    @property
    def failure(self) -> StageTrial | None:
        """The first run of a stage that has raised."""
        return next((one for one in self.stages if one.error is not None), None)

    def ended(self, one: StageTrial) -> None:
        """Note a run of a stage, and let the worker end after an error."""
        self.stages.append(one)
        if one.error is not None and self._worker is not None:
            self._worker.request_stop()
        self.on_stage(one)


def trial(app: App, url: str, on_stage: Callable[[StageTrial], None]) -> Trial:
    """A trial of an app on a database."""
    queue = f"trial-{secrets.token_hex(4)}"
    made: Trial

    def watched(stage: Stage[Any, Any]) -> Stage[Any, Any]:
        other = copy.copy(stage)
        other.function = _watched(stage, lambda one: made.ended(one))
        other.queue, other.isolation, other.declares_timeout, other.timeout_ms = queue, None, True, None
        return other

    pipelines: list[Pipeline[Any]] = [pipeline._with_stages(queue, watched) for pipeline in app._registry]
    other = App(
        url,
        pipelines,
        migrations=app._migrations,
        on_connect=app._on_connect,
        config=app._code,
        stop_list=app._stop_list,
        settings=list(app._declared.values()),
    )
    made = Trial(other, on_stage)
    return made


def _watched(stage: Stage[Any, Any], ended: Callable[[StageTrial], None]) -> Callable[..., Any]:
    function = stage.function

    def note(began: float, **how: Any) -> None:
        ended(StageTrial(stage.kind, stage.name, time.perf_counter() - began, **how))

    @functools.wraps(function)
    def call(ctx: Any) -> Any:
        began = time.perf_counter()
        try:
            result = function(ctx)
        except Verdict as verdict:
            note(began, verdict=verdict)
            raise
        except Exception as error:
            note(began, error=error, trace=error.__traceback__ and error.__traceback__.tb_next)
            raise
        note(began, result=result)
        return result

    @functools.wraps(function)
    async def call_async(ctx: Any) -> Any:
        began = time.perf_counter()
        try:
            result = await function(ctx)
        except Verdict as verdict:
            note(began, verdict=verdict)
            raise
        except Exception as error:
            note(began, error=error, trace=error.__traceback__ and error.__traceback__.tb_next)
            raise
        note(began, result=result)
        return result

    return call_async if stage.is_async else call


def payload_from(app: App, text: str) -> Payload:
    """The payload that a text means: `Order(7)`, `Order(number=7)`, or JSON like `{"kind": "order", "number": 7}`.

    No code in the text is run: arguments are numbers, strings, lists and the like.
    """
    return _from_json(app, text) if text.lstrip().startswith("{") else _from_call(app, text)


def _from_json(app: App, text: str) -> Payload:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise PayloadError(f"that is no JSON: {error}") from error
    kinds = app._registry.kinds
    kind = values.pop("kind", kinds[0] if len(kinds) == 1 else None)
    if kind is None:
        raise PayloadError(f'which kind? say {{"kind": …}}, one of {", ".join(kinds)}')
    payload: type[Payload] = app._registry[kind].payload
    return _converted(payload, values)


def _from_call(app: App, text: str) -> Payload:
    payloads: dict[str, type[Payload]] = {pipeline.payload.__name__: pipeline.payload for pipeline in app._registry}
    example = f"{next(iter(payloads), 'Order')}(…), or JSON"
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise PayloadError(f"{text!r} names no task; write {example}")
        payload = payloads.get(call.func.id)
        if payload is None:
            raise PayloadError(f"there is no payload {call.func.id!r} here; there are: {', '.join(payloads)}")
        names = [one.name for one in msgspec.structs.fields(cast("type[msgspec.Struct]", payload))]
        if len(call.args) > len(names):
            raise PayloadError(f"{call.func.id} has {len(names)} fields, and {len(call.args)} values are given")
        values = {name: ast.literal_eval(value) for name, value in zip(names, call.args, strict=False)}
        values |= {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise PayloadError(f"{text!r} cannot be read: its values are numbers, strings and lists; {example}") from error
    return _converted(payload, values)


def _converted(payload: type[Payload], values: Any) -> Payload:
    try:
        return msgspec.convert(values, payload)
    except msgspec.ValidationError as error:
        raise PayloadError(f"it is no {payload.__name__}: {error}") from error
    except ConfigError as error:
        raise PayloadError(str(error)) from error
