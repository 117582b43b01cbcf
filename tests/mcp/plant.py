"""An app for the tests of the server for assistants: work that a source, a budget, an approval or old code holds up."""

from __future__ import annotations

import os

from onceward import App, Budget, Context, Failed, Payload, Pipeline, Retry, Source, Waiting

print("a module prints what it likes while it is imported")

usd = Budget("model-usd", limit=0.05, per="total")
web = Source("web")


class Page(Payload, kind="page"):
    url: str


class Question(Payload, kind="question"):
    text: str


class Doc(Payload, kind="doc"):
    url: str
    pages: int


class Order(Payload, kind="order"):
    item: str
    fate: str = "fine"


class Login(Payload, kind="login", secret=("password",)):
    name: str
    password: str


page, question, doc, login = Pipeline(Page), Pipeline(Question), Pipeline(Doc), Pipeline(Login)
order = Pipeline(Order, retry=Retry(retries=0))


@page.stage(source=web)
async def fetch(ctx: Context[Page]) -> int:
    return len(ctx.payload.url)


@question.stage(budget=usd, estimate=0.04)
async def ask(ctx: Context[Question]) -> str:
    ctx.charge(usd, 0.03)
    return ctx.payload.text.upper()


@doc.stage
async def read(ctx: Context[Doc]) -> int:
    return ctx.payload.pages


@login.stage
async def sign_in(ctx: Context[Login]) -> None:
    pass


@order.stage
async def check(ctx: Context[Order]) -> str:
    match ctx.payload.fate:
        case "broken":
            raise Failed(f"no such item {ctx.payload.item}")
        case "held" if ctx.signal("approved") is None:
            raise Waiting(until="approved")
        case "large":
            for number in range(120):
                ctx.spawn(Order(f"{ctx.payload.item}/{number}"))
    return f"checked {ctx.payload.item}"


app = App(os.environ.get("PLANT_DB", "sqlite:///plant.db"), pipelines=[page, question, doc, order, login])
