"""An app that is traced: stages of every sort, children, errors, money, and a process of its own."""

from __future__ import annotations

import os

from opentelemetry import trace

from onceward import App, Budget, Context, Filtered, Payload, Pipeline, Retry, tracing

usd = Budget("model-usd", limit=1, per="total")


class Shop(Payload, kind="shop"):
    name: str


class Item(Payload, kind="item"):
    name: str
    fate: str = "fine"


class Apart(Payload, kind="apart"):
    name: str


shop, apart, item = Pipeline(Shop), Pipeline(Apart), Pipeline(Item, retry=Retry(retries=1, base="1ms"))


def here() -> list[str]:
    """The trace and the span in which this code runs."""
    context = trace.get_current_span().get_span_context()
    return [f"{context.trace_id:032x}", f"{context.span_id:016x}"]


@shop.stage
def threaded(ctx: Context[Shop]) -> list[str]:
    with trace.get_tracer("mine").start_as_current_span("by hand"):
        return here()


@shop.stage(budget=usd, estimate=0.5)
async def awaited(ctx: Context[Shop]) -> list[str]:
    ctx.charge(usd, "0.25")
    for fate in ("fine", "flaky", "unwanted"):
        ctx.spawn(Item(ctx.payload.name, fate))
    return here()


@apart.stage(isolate="process")
def alone(ctx: Context[Apart]) -> list[str]:
    return here()


@item.stage
async def look(ctx: Context[Item]) -> list[str]:
    match ctx.payload.fate:
        case "flaky":
            raise ValueError("no luck with password=hunter2hunter2")
        case "unwanted":
            raise Filtered("sold out")
    return here()


app = App(os.environ.get("TRACED_DB", "sqlite:///traced.db"), pipelines=[shop, apart, item])

if os.environ.get("TRACED"):
    tracing.install()
