"""MODEL_QUESTION: one question to a model, within its budget. The asking task goes on if no answer comes."""

from __future__ import annotations

from typing import TypeVar

from onceward import Context, Payload, Pipeline, Retry
from onceward_apps.jobfinder import models
from onceward_apps.jobfinder.payloads import Question

P = TypeVar("P", bound=Payload)

questions = Pipeline(Question, retry=Retry(retries=2, base="5s"), deadline="24h")


@questions.stage(source=models.PROVIDER, budget=models.CALLS)
def ask(ctx: Context[Question]) -> str:
    """What the model answers; what was asked before is not asked again."""
    question = ctx.payload
    key = models.key_of(question.model, question.purpose, question.text)
    return ctx.cached(
        models.PROVIDER, key, lambda: models.ask(question.model, question.purpose, question.text), type=str
    )


def answer_to(ctx: Context[P], question: Question) -> str | None:
    """What came of a question that an earlier stage has asked; None if nothing did."""
    outcome = ctx.outcome(question)
    return outcome.result(str) if outcome.status == "succeeded" else None
