"""An app for the tests of the command line: questions that cost money."""

from __future__ import annotations

from onceward import App, Budget, Context, Payload, Pipeline

usd = Budget("model-usd", "0.05", per="day")


class Question(Payload, kind="question"):
    number: int


question = Pipeline(Question)


@question.stage(budget=usd, estimate="0.02")
def ask(ctx: Context[Question]) -> None:
    ctx.charge(usd, "0.02")


app = App("sqlite:///oracle.db", pipelines=[question])
