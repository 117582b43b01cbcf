"""A small shop, whose tasks fail, wait, spawn and are refused: what the pages and the API are asked about."""

from __future__ import annotations

from onceward import App, Budget, Context, Cron, Failed, Limits, Payload, Pipeline, Retry, Setting, Source, Waiting


class Order(Payload, kind="order", secret=("card",)):
    """What is worked on; `way` says how it goes."""

    name: str
    way: str = ""
    card: str = "4111"


class Report(Payload, kind="report"):
    """Something with a key of its own."""

    name: str

    def key(self) -> str:
        return self.name


usd = Budget("usd", limit=100, per="day")
bank = Source("bank", rate="1000/s")


def shop(url: str) -> App:
    """An app on a database."""
    orders = Pipeline(Order, retry=Retry(retries=0))
    reports = Pipeline(Report)

    @orders.stage(source=bank, budget=usd, estimate=1)
    def take(ctx: Context[Order]) -> dict[str, str]:
        ctx.charge(usd, "0.0125")
        if ctx.payload.way == "spawn":
            ctx.spawn(Order(f"child of {ctx.payload.name}"))
            ctx.spawn(Order(ctx.payload.name, "spawn"))  # refused: a circle
        if ctx.payload.way == "fail":
            raise Failed("no such article")
        if ctx.payload.way == "wait" and ctx.signal("approved") is None:
            raise Waiting(until="approved", reason="for a word")
        return {"taken": ctx.payload.name}

    @reports.stage
    def write(ctx: Context[Report]) -> None:
        pass

    return App(
        url,
        [orders, reports],
        schedules=[Cron("0 3 * * *", Report("nightly"), name="nightly")],
        settings=[Setting("size", 50, int, "Rows.")],
    )


def fill(app: App) -> dict[str, int]:
    """Enqueue one task of each way and let them go as far as they do; returns their numbers."""
    numbers = {way: app.enqueue(Order(way or "plain", way), limits=Limits(max_tasks=9)).id
               for way in ("", "fail", "wait", "spawn")}  # fmt: skip
    with app.batch("some") as batch:
        batch.add(Report("of a batch"))
    app.run(until_idle=True)
    numbers["later"] = app.enqueue(Order("later"), after="1h").id
    return numbers
