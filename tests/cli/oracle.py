"""An app for the tests of the command line: questions that cost money."""

from __future__ import annotations

from onceward import App, Budget, Context, Payload, Pipeline, Waiting

usd = Budget("model-usd", "0.05", per="day")


class Question(Payload, kind="question"):
    number: int


question = Pipeline(Question)


@question.stage(budget=usd, estimate="0.02")
def ask(ctx: Context[Question]) -> None:
    ctx.charge(usd, "0.02")


class Night(Payload, kind="night"):
    """A batch that is submitted and never collected."""

    number: int


night = Pipeline(Night)
savings = Budget("savings", 5)


@night.stage(holds=savings)
def submit(ctx: Context[Night]) -> None:
    ctx.hold(savings, 3, name="batch")
    raise Waiting(until="done")


app = App("sqlite:///oracle.db", pipelines=[question, night])
