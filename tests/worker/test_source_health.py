"""What counts against a source: an error that is known to pass, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from urllib.error import URLError

import pytest

from onceward import Breaker, Context, Payload, Pipeline, Retry, Retryable, Source, SourceState, Status
from onceward.model.decide import fault_of
from onceward.model.gates import SourceReport
from onceward.worker.isolated import RemoteError
from onceward.worker.source_reports import report_of
from tests.unit.values import NOW, lease
from tests.worker.conftest import Start

Raises = Callable[[], BaseException]


class Fetch(Payload, kind="fetch"):
    number: int


class NotFound(Exception):
    status_code = 404


class Busy(Exception):
    status_code = 503


def fetching(source: Source, raises: Raises, way: str) -> Pipeline[Fetch]:
    """Fetches that fail, in one of the ways in which a stage may go outside."""
    pipeline = Pipeline(Fetch, retry=Retry(retries=0, permanent=(LookupError,)))

    def fail() -> None:
        raise raises()

    async def afail() -> None:
        raise raises()

    if way == "acall":

        @pipeline.stage(source=source)
        async def fetch(ctx: Context[Fetch]) -> None:
            await ctx.acall(source, afail)

    else:

        @pipeline.stage(source=source)
        def fetch_in_thread(ctx: Context[Fetch]) -> None:
            ctx.call(source, fail) if way == "call" else fail()

    return pipeline


WAYS = ("stage", "call", "acall")
SAY_NOTHING = (lambda: ValueError("my parser"), lambda: KeyError("declared permanent"), lambda: NotFound("404"))
FAILURES = (lambda: ConnectionError("refused"), lambda: TimeoutError("slow"), lambda: Busy("503"),
            lambda: URLError(TimeoutError("slow")))  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_an_error_that_is_not_known_to_pass_neither_pauses_nor_disables_its_source(start: Start, way: str) -> None:
    web = Source("web", retries=0, concurrency=1, breaker=Breaker(failures=2, disable_after=3))
    errors = iter(SAY_NOTHING * 4)
    harness = start(fetching(web, lambda: next(errors)(), way))
    tasks = harness.app.enqueue_many([Fetch(number) for number in range(12)])
    harness.drain()
    [found] = harness.app.sources.list()
    assert (found.state, found.streak, found.failures, found.last_failure_at) == (SourceState.OPEN, 0, 0, None)
    assert {harness.task(task).status for task in tasks} == {Status.FAILED}


@pytest.mark.parametrize("way", WAYS)
def test_an_error_that_is_known_to_pass_does(start: Start, way: str) -> None:
    web = Source("web", retries=0, concurrency=1, breaker=Breaker(failures=4, disable_after=4))
    errors = iter(FAILURES)
    harness = start(fetching(web, lambda: next(errors)(), way))
    harness.app.enqueue_many([Fetch(number) for number in range(6)])
    harness.drain(wait_for_due=False)
    [found] = harness.app.sources.list()
    assert (found.state, found.streak, found.failures) == (SourceState.DISABLED, 4, 4)
    assert list(errors) == [], "four were made, and no more"


@pytest.mark.parametrize("way", WAYS)
def test_an_error_that_says_nothing_neither_ends_nor_lengthens_a_streak(start: Start, way: str) -> None:
    web = Source("web", retries=0, concurrency=1, breaker=Breaker(failures=3, pause="5m"))
    errors = [TimeoutError(), ValueError(), ConnectionError(), ValueError(), TimeoutError(), ValueError(), ValueError()]
    raises = iter(errors)
    harness = start(fetching(web, lambda: next(raises), way))
    harness.app.enqueue_many([Fetch(number) for number in range(len(errors))])
    harness.drain(wait_for_due=False)
    [found] = harness.app.sources.list()
    assert (found.state, found.streak) == (SourceState.PAUSED, 3)
    harness.clock.advance(300)
    harness.drain(wait_for_due=False)
    [found] = harness.app.sources.list()
    assert (found.state, found.streak) == (SourceState.HALF_OPEN, 3), "two probes have said nothing: the next decides"
    assert next(raises, None) is None


@pytest.mark.parametrize(
    ("error", "outcomes"),
    [(TimeoutError(), (False,)), (Busy(), (False,)), (Retryable("busy"), (False,)), (ValueError(), None),
     (NotFound(), None), (LookupError(), None)],
)  # fmt: skip
def test_an_isolated_stage_tells_the_same(error: BaseException, outcomes: tuple[bool, ...] | None) -> None:
    retry = Retry(permanent=(LookupError,))
    pipeline = fetching(Source("web"), TimeoutError, "stage")
    far = error if isinstance(error, Retryable) else RemoteError(fault_of(error, retry, NOW))
    held = lease(gates="web")
    told = [report_of(held, pipeline.stages[0], retry, one, lambda: NOW) for one in (error, far)]
    assert [one and one.outcomes for one in told] == [outcomes, outcomes]


class GoAway(LookupError):
    retry_after = 30


def test_a_wish_to_be_left_alone_is_heard_whatever_the_error_means() -> None:
    pipeline = fetching(Source("web"), TimeoutError, "stage")
    told = report_of(
        lease(gates="web"), pipeline.stages[0], Retry(permanent=(LookupError,)), GoAway("declared permanent"),
        lambda: NOW,
    )  # fmt: skip
    assert isinstance(told, SourceReport)
    assert (told.outcomes, told.pause_ms) == ((), 30_000)


class Patience(Exception):
    """A server that asks for some time."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("too many requests")
        self.retry_after = retry_after


@pytest.mark.parametrize("way", ["call", "acall"])
@pytest.mark.parametrize("seconds", [0.2, 2, 30])
def test_a_source_that_asks_to_be_left_alone_is_closed_at_once_and_for_that_long(
    start: Start, way: str, seconds: float
) -> None:
    web = Source("web", retries=1, concurrency=3, breaker=None)
    pipeline = Pipeline(Fetch, retry=Retry(retries=2, base="1ms"))
    began: list[int] = []
    heard: list[int] = []

    def answer() -> None:
        began.append(harness.clock.now())
        if len(began) == 3:
            heard.append(harness.clock.now())
            raise Patience(seconds)

    if way == "acall":

        @pipeline.stage(source=web, calls=2)
        async def fetch(ctx: Context[Fetch]) -> None:
            async def aanswer() -> None:
                answer()

            for _ in range(2):
                await ctx.acall(web, aanswer)

    else:

        @pipeline.stage(source=web, calls=2)
        def fetch_in_thread(ctx: Context[Fetch]) -> None:
            for _ in range(2):
                ctx.call(web, answer)

    harness = start(pipeline)
    tasks = harness.app.enqueue_many([Fetch(number) for number in range(6)])
    harness.drain()
    over_at = heard[0] + round(seconds * 1_000)
    assert [at - heard[0] for at in began[3:] if at < over_at] == [], "a call began although the source was closed"
    assert {harness.task(task).status for task in tasks} == {Status.SUCCEEDED}
    closed_until = harness.app.read(
        lambda connection: connection.execute("SELECT paused_until FROM onceward_gate").fetchall()
    )
    assert closed_until[0][0] == over_at, "the pause is served once"


def test_a_token_from_the_claim_is_of_no_use_once_the_source_has_closed(start: Start) -> None:
    web = Source("web", rate="1000/s", burst=100)
    pipeline = Pipeline(Fetch)
    began: list[int] = []

    @pipeline.stage(source=web, calls=2)
    def fetch(ctx: Context[Fetch]) -> None:
        if ctx.task.deferrals == 0:
            harness.app.sources.disable("web")  # as another process may
            harness.clock.advance(0.1)
        ctx.call(web, lambda: began.append(ctx.task.deferrals))

    harness = start(pipeline)
    task = harness.enqueue(Fetch(1))
    harness.drain(wait_for_due=False)
    assert (began, harness.task(task).status) == ([], Status.PENDING)
    harness.app.sources.enable("web")
    harness.drain()
    assert (began, harness.task(task).failures) == ([1], 0)
