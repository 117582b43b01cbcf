"""An app for the tests of the command line: orders that end in every way a task can end."""

from __future__ import annotations

import os
import time

from onceward import App, Context, Failed, Filtered, Migration, Payload, Pipeline, Retry, Setting, Waiting


class Order(Payload, kind="order"):
    item: str
    fate: str = "fine"

    def key(self) -> str:
        return f"item/{self.item}"


order = Pipeline(Order, retry=Retry(retries=1, base="1ms"))


@order.stage
def check(ctx: Context[Order]) -> str:
    print("a stage prints what it likes")
    match ctx.payload.fate:
        case "unwanted":
            raise Filtered("sold out")
        case "broken":
            raise Failed("no such [bold]item[/bold]")
        case "flaky":
            raise ValueError("no\nluck")
        case "slow":
            time.sleep(60)
        case "held" if ctx.signal("approved") is None:
            raise Waiting(until="approved")
    return f"checked {ctx.payload.item}"


@order.stage
async def ship(ctx: Context[Order]) -> dict[str, str]:
    ctx.progress(1, 2, "packed")
    await ctx.acheckpoint("packed")
    return {"parcel": ctx.result(check).upper()}


FATES = ("fine", "unwanted", "broken", "flaky", "held")

app = App(
    os.environ.get("SHOP_DB", "sqlite:///shop.db"),
    pipelines=[order],
    migrations=[Migration("001 parcels", "CREATE TABLE parcel (item text)")],
    settings=[Setting("gift_wrap", None, "json", "How parcels are wrapped.")],
)
