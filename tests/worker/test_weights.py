"""Sources whose rates count weights beside calls: tokens a minute, as stages declare and use them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceward import Cause, ConfigError, Context, Payload, Pipeline, Retryable, Source
from onceward.model.gates import rounded_up
from onceward.testing import Harness, run_stage
from tests.worker.conftest import Start
from tests.worker.test_governing import working


class Prompt(Payload, kind="prompt"):
    number: int
    tokens: int = 1_000
    used: int | None = None
    ending: str = "fine"


def model() -> Source:
    """A provider that allows 60,000 tokens a minute, 1,000 at once, and hardly counts calls."""
    return Source("model", rate="6000/min", burst=1_000, weights={"tokens": "60000/min"})


def asking(weight: int | Callable[[Prompt], int], began: list[float]) -> Pipeline[Prompt]:
    """A pipeline that notes when each of its stages began, in seconds."""
    pipeline = Pipeline(Prompt)

    @pipeline.stage(source=model(), weights={"tokens": weight})
    def ask(ctx: Context[Prompt]) -> None:
        began.append(clock())
        if ctx.payload.used is not None:
            ctx.used(tokens=ctx.payload.used)
        if ctx.payload.ending == "error" and ctx.task.attempt == 1:
            raise Retryable("again", after="1ms")

    return pipeline


clock: Callable[[], float] = float


def run(harness: Harness, prompts: list[Prompt]) -> None:
    """Let some prompts run until nothing is left, on a clock that begins at zero."""
    global clock
    first = harness.clock.now()
    clock = lambda: (harness.clock.now() - first) / 1_000  # noqa: E731
    harness.app.enqueue_many(prompts)
    harness.drain()


def test_no_more_tokens_pass_than_the_rate_allows(start: Start) -> None:
    began: list[float] = []
    harness = start(asking(500, began))
    run(harness, [Prompt(number) for number in range(10)])
    assert began == pytest.approx([0, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4], abs=0.01)


def test_a_weight_may_depend_on_the_payload(start: Start) -> None:
    began: list[float] = []
    harness = start(asking(lambda prompt: prompt.tokens, began))
    run(harness, [Prompt(1, 512), Prompt(2, 4_096), Prompt(3, 256)])
    assert began == pytest.approx([0, 0, 0.768], abs=0.01)  # the large one waits for a full bucket, and leaves a debt
    harness.enqueue(Prompt(4, 512))
    harness.drain()
    assert began[3] == pytest.approx(0.768 + 4.096 - 0.488, abs=0.01)


@pytest.mark.parametrize(("used", "gap_s"), [(100, 0.1), (500, 0.5), (1_500, 1.5), (None, 0.5)])
def test_what_was_really_used_is_what_counts(start: Start, used: int | None, gap_s: float) -> None:
    began: list[float] = []
    harness = start(asking(500, began))
    run(harness, [Prompt(number, used=used) for number in range(30)])
    assert (began[-1] - began[9]) / 20 == pytest.approx(gap_s, rel=0.1)


def test_what_a_failed_attempt_has_used_counts(start: Start) -> None:
    began: list[float] = []
    harness = start(asking(1_000, began))
    run(harness, [Prompt(1, used=3_000, ending="error")])
    assert began == pytest.approx([0, 3], abs=0.1)


def test_why_names_the_weight_that_is_missing(start: Start) -> None:
    harness = start(asking(1_000, []))
    tasks = harness.app.enqueue_many([Prompt(1), Prompt(2)])
    harness.drain(wait_for_due=False)
    working(harness)
    why = harness.app.why(tasks[1].id)
    assert (why.cause, why.gate) == (Cause.SOURCE, "~tokens:model")
    assert why.sentence == "source model has not the 1,000 tokens left that it takes; it has in 1s"
    assert [one.name for one in harness.app.sources.list()] == ["model"]
    harness.drain()


def test_a_stage_says_how_much_it_needs_of_each_weight_of_its_source() -> None:
    pipeline = Pipeline(Prompt)

    def ask(ctx: Context[Prompt]) -> None:
        ctx.used(tokens=ctx.payload.tokens, **({"words": 1} if ctx.payload.number else {}))

    for weights in (None, {}, {"tokens": 1, "words": 2}):
        with pytest.raises(ConfigError, match="its source has: tokens, and the stage names each"):
            pipeline.stage(source=model(), weights=weights)(ask)
    with pytest.raises(ConfigError, match=r"weights=.'tokens'.; its source has: none"):
        pipeline.stage(weights={"tokens": 1})(ask)
    with pytest.raises(ConfigError, match="what it needs of 'tokens'"):
        pipeline.stage(source=model(), weights={"tokens": 0})(ask)
    with pytest.raises(ConfigError, match="is no name for a weight"):
        Source("model", weights={"to kens": "1/s"})
    stage = pipeline.stage(source=model(), weights={"tokens": 1})(ask)
    run_stage(stage, Prompt(0))
    with pytest.raises(ConfigError, match="has no weight words; it has: tokens"):
        run_stage(stage, Prompt(1))
    with pytest.raises(ConfigError, match="has used of 'tokens'"):
        run_stage(stage, Prompt(0, tokens=-1))


def test_sizes_are_few_and_never_smaller_than_the_weight() -> None:
    sizes = {rounded_up(weight) for weight in range(1, 100_001)}
    assert len(sizes) < 70
    assert all(weight <= rounded_up(weight) <= weight * 1.25 for weight in range(1, 100_001))
