"""Sources: the claim takes only what they can serve, and hears how they fare."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from onceward import (
    App,
    Breaker,
    ConfigError,
    Context,
    Payload,
    Pipeline,
    Retry,
    Retryable,
    Source,
    SourceState,
    Status,
)
from onceward.store.op import Query
from onceward.testing import Harness
from tests.worker.conftest import Start, statuses


class Fetch(Payload, kind="fetch"):
    url: str

    def key(self) -> str:
        return self.url


class Other(Payload, kind="other"):
    number: int


def host(key: str) -> str:
    return key.partition("/")[0]


class Server:
    """What a stage talks to: notes when it was called, and fails when told to."""

    def __init__(self) -> None:
        self.called: list[tuple[int, str]] = []
        self.is_down = False
        self.error: Callable[[], Exception] = lambda: ConnectionError("refused")

    def get(self, now: int, url: str) -> str:
        self.called.append((now, url))
        if self.is_down:
            raise self.error()
        return url


def fetching(source: Source, server: Server, clock: Callable[[], int], **options: Any) -> Pipeline[Fetch]:
    pipeline = Pipeline(Fetch, **options)

    @pipeline.stage(source=source)
    def fetch(ctx: Context[Fetch]) -> str:
        return server.get(clock(), ctx.payload.url)

    return pipeline


def ms(harness: Harness) -> Callable[[], int]:
    return harness.app._store.clock.now


def gate(app: App, name: str) -> dict[str, Any]:
    names = ("enabled", "streak", "paused_until", "is_half_open", "opened", "calls", "failures")
    rows = app.read(
        lambda connection: connection.execute(
            f"SELECT {', '.join(names)} FROM onceward_gate WHERE name = '{name}'"
        ).fetchall()
    )
    return dict(zip(names, rows[0], strict=True)) if rows else {}


def test_a_source_is_asked_no_more_often_than_it_allows(start: Start) -> None:
    server = Server()
    clock: list[Callable[[], int]] = []
    harness = start(fetching(Source("web", rate="60/min", burst=2), server, lambda: clock[0]()))
    clock.append(ms(harness))
    began = ms(harness)()
    harness.app.enqueue_many([Fetch(f"a/{number}") for number in range(6)])
    harness.drain()
    assert [round((at - began) / 1_000) for at, _ in server.called] == [0, 0, 1, 2, 3, 4]
    assert [url for _, url in server.called] == [f"a/{number}" for number in range(6)]
    assert all(task.status is Status.SUCCEEDED and not task.deferrals for task in harness.app.tasks.list())


def test_each_instance_has_limits_of_its_own(start: Start) -> None:
    server = Server()
    clock: list[Callable[[], int]] = []
    harness = start(fetching(Source("web", per=host, rate="60/min", burst=1), server, lambda: clock[0]()))
    clock.append(ms(harness))
    began = ms(harness)()
    harness.app.enqueue_many([Fetch(f"{name}/{number}") for number in range(3) for name in ("a", "b", "c")])
    harness.drain()
    by_time: dict[int, set[str]] = {}
    for at, url in server.called:
        by_time.setdefault(round((at - began) / 1_000), set()).add(url)
    assert by_time == {second: {f"{name}/{second}" for name in "abc"} for second in range(3)}


@pytest.mark.parametrize("writes", [False, True])
def test_failures_between_successes_open_no_breaker(start: Start, writes: bool) -> None:
    """Many end in one transaction, each kind of end in a statement of its own: the source still hears them in order."""
    pipeline = Pipeline(Fetch, retry=Retry(retries=0))

    @pipeline.stage(source=Source("web", breaker=Breaker(failures=3)))
    async def fetch(ctx: Context[Fetch]) -> None:
        if ctx.payload.url.endswith("0"):
            raise ConnectionError("refused")
        if writes:
            ctx.write(lambda connection: connection.execute("SELECT 1"))

    harness = start(pipeline)
    harness.app.enqueue_many([Fetch(f"a/{number}") for number in range(100)])
    harness.drain()
    assert gate(harness.app, "web")["failures"] == 10
    assert gate(harness.app, "web")["opened"] == 0


def test_a_breaker_opens_after_failures_in_a_row_and_one_probe_closes_it(start: Start) -> None:
    server = Server()
    server.is_down = True
    clock: list[Callable[[], int]] = []
    source = Source("web", breaker=Breaker(failures=3, pause="5m"))
    harness = start(fetching(source, server, lambda: clock[0](), retry=Retry(retries=50, base="1s", jitter=False)))
    clock.append(ms(harness))
    harness.app.enqueue_many([Fetch(f"a/{number}") for number in range(20)])
    began = ms(harness)()
    harness.drain(wait_for_due=False)
    open_gate = gate(harness.app, "web")
    assert open_gate["streak"] >= 3
    assert open_gate["is_half_open"] == 1
    calls = len(server.called)
    harness.clock.advance(200)
    harness.drain(wait_for_due=False)
    assert len(server.called) == calls, "nobody knocks at a closed door"
    harness.clock.advance(100)
    harness.drain(wait_for_due=False)
    assert len(server.called) == calls + 1, "one probe"
    server.is_down = False
    harness.clock.advance(300)
    harness.drain()
    assert {task.status for task in harness.app.tasks.list(limit=50)} == {Status.SUCCEEDED}
    assert gate(harness.app, "web")["streak"] == 0
    assert began


def test_a_source_is_disabled_until_an_operator_enables_it(start: Start) -> None:
    server = Server()
    server.is_down = True
    clock: list[Callable[[], int]] = []
    source = Source("web", breaker=Breaker(failures=2, pause="1s", disable_after=4))
    harness = start(fetching(source, server, lambda: clock[0](), retry=Retry(retries=50, base="1s", jitter=False)))
    clock.append(ms(harness))
    harness.app.enqueue(Fetch("a/1"))
    harness.drain()
    assert len(server.called) == 4
    assert gate(harness.app, "web")["enabled"] == 0
    harness.clock.advance(86_400)
    harness.drain()
    assert len(server.called) == 4


def test_what_a_source_asks_for_moves_the_source_and_not_only_the_task(start: Start) -> None:
    class TooMany(Exception):
        retry_after = 60.0

    server = Server()
    server.error = TooMany
    server.is_down = True
    clock: list[Callable[[], int]] = []
    harness = start(fetching(Source("web", concurrency=1), server, lambda: clock[0]()))
    clock.append(ms(harness))
    harness.app.enqueue_many([Fetch(f"a/{number}") for number in range(5)])
    began = ms(harness)()
    harness.drain(wait_for_due=False)
    assert len(server.called) == 1
    server.is_down = False
    harness.drain()
    assert all(at - began >= 60_000 for at, _ in server.called[1:])
    assert len(server.called) == 6, "the others have burned none"


def test_a_source_that_asks_for_absurdly_much_is_left_alone_for_a_day(start: Start) -> None:
    class TooMany(Exception):
        retry_after = 1e306

    server = Server()
    server.error = TooMany
    server.is_down = True
    clock: list[Callable[[], int]] = []
    harness = start(fetching(Source("web", concurrency=1), server, lambda: clock[0]()))
    clock.append(ms(harness))
    _, other = harness.app.enqueue_many([Fetch(f"a/{number}") for number in range(2)])
    began = ms(harness)()
    harness.drain(wait_for_due=False)
    assert gate(harness.app, "web")["paused_until"] - began == 86_400_000
    server.is_down = False
    harness.drain()
    assert harness.task(other).status is Status.SUCCEEDED
    assert [at - began for at, _ in server.called] == [0, 86_400_000]


def test_a_dead_source_costs_the_others_nothing(start: Start) -> None:
    dead = Server()
    dead.is_down = True
    clock: list[Callable[[], int]] = []
    ours = Pipeline(Fetch, retry=Retry(retries=100, base="1s", jitter=False))
    theirs = Pipeline(Other)

    @ours.stage(source=Source("dead", breaker=Breaker(failures=2)))
    def knock(ctx: Context[Fetch]) -> str:
        return dead.get(clock[0](), ctx.payload.url)

    @theirs.stage
    def work(ctx: Context[Other]) -> int:
        return ctx.payload.number

    harness = start(ours, theirs)
    clock.append(ms(harness))
    harness.app.enqueue_many([Fetch(f"a/{number}") for number in range(50)])
    harness.app.enqueue_many([Other(number) for number in range(50)])
    harness.drain(wait_for_due=False)
    assert harness.app.stats.counts()[Status.SUCCEEDED] == 50
    running_at_once = 50  # all of them were let in before the first had failed
    assert len(dead.called) <= running_at_once


def test_only_so_many_of_a_pipeline_run_at_once(start: Start) -> None:
    inside, most = [0], [0]
    pipeline = Pipeline(Other, concurrency=3)

    @pipeline.stage
    async def work(ctx: Context[Other]) -> int:
        import asyncio

        inside[0] += 1
        most[0] = max(most[0], inside[0])
        await asyncio.sleep(0.001)
        inside[0] -= 1
        return ctx.payload.number

    harness = start(pipeline)
    harness.app.enqueue_many([Other(number) for number in range(20)])
    harness.drain()
    assert harness.app.stats.counts()[Status.SUCCEEDED] == 20
    assert most[0] == 3


def test_only_so_many_with_one_key_run_at_once(start: Start) -> None:
    inside: dict[str, int] = {}
    most: dict[str, int] = {}
    pipeline = Pipeline(Fetch, key_concurrency=1, unique="no")

    @pipeline.stage
    async def work(ctx: Context[Fetch]) -> str:
        import asyncio

        key = ctx.payload.url
        inside[key] = inside.get(key, 0) + 1
        most[key] = max(most.get(key, 0), inside[key])
        await asyncio.sleep(0.001)
        inside[key] -= 1
        return key

    harness = start(pipeline)
    harness.app.enqueue_many([Fetch(f"k{number % 3}") for number in range(12)])
    harness.drain()
    assert harness.app.stats.counts()[Status.SUCCEEDED] == 12
    assert most == {"k0": 1, "k1": 1, "k2": 1}


def test_the_second_stage_may_be_the_governed_one(start: Start) -> None:
    seen: list[str] = []
    web = Source("web", rate="60/min", burst=1)
    pipeline = Pipeline(Fetch)

    @pipeline.stage
    def prepare(ctx: Context[Fetch]) -> str:
        return ctx.payload.url.upper()

    @pipeline.stage(source=web)
    def fetch(ctx: Context[Fetch]) -> str:
        seen.append(ctx.result(prepare))
        return ctx.result(prepare)

    @pipeline.stage
    def save(ctx: Context[Fetch]) -> str:
        return ctx.result(fetch)

    harness = start(pipeline)
    harness.app.enqueue_many([Fetch("a/1"), Fetch("a/2")])
    began = ms(harness)()
    harness.drain()
    assert seen == ["A/1", "A/2"]
    assert ms(harness)() - began >= 1_000
    assert harness.app.stats.counts()[Status.SUCCEEDED] == 2


def test_who_was_paused_and_resumed_in_line_passes_no_closed_source_later(start: Start) -> None:
    fetch: Pipeline[Fetch] = Pipeline(Fetch)
    asked: list[str] = []

    @fetch.stage
    def prepare(ctx: Context[Fetch]) -> None: ...

    @fetch.stage(source=Source("web"))
    def scrape(ctx: Context[Fetch]) -> None:
        asked.append(ctx.payload.url)

    harness = start(fetch)
    harness.app.sources.disable("web")
    first = harness.enqueue(Fetch("first"))
    harness.app.lineages.pause(first.id)
    for number in range(1_000):  # so many that it comes to its second place in line after its first stage
        harness.enqueue(Fetch(str(number)))
    harness.app.lineages.resume(first.id)
    harness.drain()
    assert asked == []
    harness.app.sources.enable("web")
    harness.drain()
    assert len(asked) == len(set(asked)) == 1_001


def test_a_call_is_tried_again_within_its_stage_and_each_try_is_told(start: Start) -> None:
    server = Server()
    failures = [3]
    web = Source("web", retries=6, breaker=Breaker(failures=10))
    pipeline = Pipeline(Fetch)

    def once() -> str:
        if failures[0]:
            failures[0] -= 1
            raise ConnectionError("refused")
        return "ok"

    @pipeline.stage(source=web)
    def fetch(ctx: Context[Fetch]) -> str:
        server.called.append((0, ctx.payload.url))
        return ctx.call(web, once)

    harness = start(pipeline)
    task = harness.app.enqueue(Fetch("a/1")).id
    harness.drain()
    assert harness.app.tasks.get(task).status is Status.SUCCEEDED
    assert len(server.called) == 1, "the stage ran once"
    assert gate(harness.app, "web")["failures"] == 3
    assert gate(harness.app, "web")["calls"] == 4


def test_a_call_that_never_succeeds_raises_a_transient_error(start: Start) -> None:
    tries = [0]
    web = Source("web", retries=2, breaker=None)
    pipeline = Pipeline(Fetch, retry=Retry(retries=0))

    def once() -> str:
        tries[0] += 1
        raise TimeoutError("slow")

    @pipeline.stage(source=web)
    async def fetch(ctx: Context[Fetch]) -> str:
        async def answer() -> str:
            return once()

        return await ctx.acall(web, answer)

    harness = start(pipeline)
    task = harness.app.enqueue(Fetch("a/1")).id
    harness.drain()
    assert tries == [3]
    assert harness.app.tasks.get(task).reason == "failed after 0 retries: TimeoutError: slow"


def test_a_call_to_a_closed_source_puts_its_stage_off_and_costs_no_attempt(start: Start) -> None:
    other = Source("other", rate="1/min", burst=1)
    pipeline = Pipeline(Other)
    ran: list[int] = []

    @pipeline.stage(calls=10)
    def work(ctx: Context[Other]) -> int:
        return ctx.call(other, lambda: ran.append(ctx.payload.number) or ctx.payload.number)  # type: ignore[func-returns-value]

    harness = start(pipeline)
    harness.app.enqueue_many([Other(1), Other(2)])
    began = ms(harness)()
    harness.drain()
    assert sorted(ran) == [1, 2]
    assert ms(harness)() - began >= 60_000
    assert all(task.failures == 0 for task in harness.app.tasks.list())


def test_calls_that_were_not_made_give_their_tokens_back(start: Start) -> None:
    web = Source("web", rate="60/min", burst=5, retries=2)
    pipeline = Pipeline(Other)

    @pipeline.stage(source=web, calls=5)
    def work(ctx: Context[Other]) -> int:
        return ctx.call(web, lambda: ctx.payload.number)

    harness = start(pipeline)
    began = ms(harness)()
    harness.app.enqueue_many([Other(number) for number in range(3)])
    harness.drain()
    assert ms(harness)() - began < 5_000, "with five tokens each it would take ten seconds"


def test_code_that_gives_a_stage_a_source_finds_the_tasks_that_stood_without(start: Start) -> None:
    plain = Pipeline(Fetch)

    @plain.stage
    def fetch(ctx: Context[Fetch]) -> str:
        return "plain"

    harness = start(plain)
    harness.app.enqueue_many([Fetch("a/1"), Fetch("a/2")])
    server = Server()
    clock: list[Callable[[], int]] = []
    governed = fetching(Source("web", rate="60/min", burst=1), server, lambda: clock[0]())
    later = start(governed, after=harness)
    clock.append(ms(later))
    later.drain()
    assert len(server.called) == 2
    assert server.called[1][0] - server.called[0][0] >= 1_000


def test_two_sources_of_one_name_must_say_the_same() -> None:
    one, two = Pipeline(Fetch), Pipeline(Other)
    one.stage(source=Source("web", rate="1/s"))(lambda_stage("a"))
    two.stage(source=Source("web", rate="2/s"))(lambda_stage("b"))
    with pytest.raises(ConfigError, match="different limits"):
        App("sqlite://", [one, two])


def lambda_stage(name: str) -> Callable[[Context[Any]], None]:
    def stage(ctx: Context[Any]) -> None: ...

    stage.__name__ = name
    return stage


def test_a_verdict_is_no_failure_of_the_source_and_a_wish_to_retry_is(start: Start) -> None:
    pipeline = Pipeline(Other, retry=Retry(retries=0))

    @pipeline.stage(source=Source("web"))
    def work(ctx: Context[Other]) -> None:
        if ctx.payload.number == 1:
            raise Retryable("busy")

    harness = start(pipeline)
    harness.app.enqueue(Other(1))
    harness.drain()
    assert gate(harness.app, "web")["streak"] == 1
    harness.app.enqueue(Other(2))
    harness.drain()
    assert gate(harness.app, "web")["streak"] == 0


def test_turns_do_not_pile_up(start: Start) -> None:
    server = Server()
    clock: list[Callable[[], int]] = []
    harness = start(fetching(Source("web", rate="60/min", burst=1), server, lambda: clock[0]()))
    clock.append(ms(harness))
    for number in range(30):
        harness.app.enqueue(Fetch(f"a/{number}"))
    harness.drain(wait_for_due=False)
    turns = harness.app._ask(lambda: _turns())
    assert turns == 1
    harness.drain()
    assert harness.app._ask(lambda: _turns()) == 0
    assert len(server.called) == 30


def _turns() -> Any:
    rows = yield Query("next_turn", {"lines": ["default:fetch"]})
    return 0 if rows[0][0] is None else 1


def test_a_call_leaves_its_place_when_its_stage_ends(start: Start) -> None:
    mail = Source("mail", concurrency=1)
    pipeline = Pipeline(Fetch)
    harnesses: list[Harness] = []
    inside: list[int] = []

    def places() -> int:
        query = "SELECT count(*) FROM onceward_slot"
        return int(harnesses[0].app.read(lambda connection: connection.execute(query).fetchall())[0][0])

    @pipeline.stage(calls=10)
    def send(ctx: Context[Fetch]) -> None:
        inside.append(ctx.call(mail, places))

    harnesses.append(start(pipeline))
    harnesses[0].app.enqueue(Fetch("a/1"))
    harnesses[0].drain()
    assert (inside, places()) == ([1], 0)


def test_stages_that_wait_for_a_place_of_each_other_give_way(start: Start) -> None:
    left, right = Source("left", concurrency=1), Source("right", concurrency=1)
    fetching, others = Pipeline(Fetch), Pipeline(Other)
    both_inside = asyncio.Barrier(2)
    begun: list[str] = []

    async def answer() -> str:
        return "here"

    async def call(ctx: Context[Any], source: Source) -> str:
        begun.append(source.name)
        if len(begun) <= 2:
            await both_inside.wait()
        return await ctx.acall(source, answer)

    @fetching.stage(source=left)
    async def fetch(ctx: Context[Fetch]) -> str:
        return await call(ctx, right)

    @others.stage(source=right)
    async def work(ctx: Context[Other]) -> str:
        return await call(ctx, left)

    harness = start(fetching, others)
    tasks = [harness.enqueue(Fetch("a/1")), harness.enqueue(Other(1))]
    harness.drain()
    assert statuses(harness, tasks) == ["succeeded", "succeeded"]
    assert len(begun) > 2
    assert [harness.task(task).failures for task in tasks] == [0, 0]


def test_a_probe_that_is_put_off_by_another_source_decides_nothing(start: Start) -> None:
    own, other = Source("own", breaker=Breaker(failures=1, pause="1m")), Source("other")
    pipeline, others = Pipeline(Fetch), Pipeline(Other)
    is_down = [True]

    @pipeline.stage(source=own)
    def fetch(ctx: Context[Fetch]) -> str:
        if is_down[0]:
            raise ConnectionError("refused")
        return ctx.call(other, lambda: "here")

    @others.stage(source=other)
    def work(ctx: Context[Other]) -> None: ...

    harness = start(pipeline, others)
    task = harness.enqueue(Fetch("a/1"))
    harness.drain(wait_for_due=False)
    harness.app.sources.disable("other")
    is_down[0] = False
    harness.clock.advance(60)
    harness.drain(wait_for_due=False)
    assert "source other lets no call pass" in str(harness.task(task).reason)
    [status] = harness.app.sources.get("own")
    assert (status.state, status.streak, status.last_success_at) == (SourceState.HALF_OPEN, 1, None)
    harness.app.sources.enable("other")
    harness.drain()
    [status] = harness.app.sources.get("own")
    assert (harness.task(task).status, status.state) == (Status.SUCCEEDED, SourceState.OPEN)


@pytest.mark.parametrize("faster", [{"rate": "60/min", "burst": 5}, {}])
@pytest.mark.parametrize("per", [None, host])
def test_a_rate_that_the_code_has_raised_holds_at_once(start: Start, faster: dict[str, Any], per: Any) -> None:
    server = Server()
    old = start(fetching(Source("web", per=per, rate="10/day", burst=10), server, lambda: ms(old)()))
    old.app.enqueue_many([Fetch(f"a/{number}") for number in range(12)])
    old.drain(wait_for_due=False)
    assert len(server.called) == 10
    harness = start(fetching(Source("web", per=per, **faster), server, lambda: ms(harness)()), after=old)
    harness.drain()
    began = ms(old)()
    assert [at - began for at, _ in server.called[10:]] == ([1_000, 2_000] if faster else [0, 0])


def test_a_rate_that_has_not_changed_is_not_begun_anew_by_another_worker(start: Start) -> None:
    server = Server()
    pipeline = Pipeline(Fetch)
    web = Source("web", rate="60/min", burst=2, retries=2)

    @pipeline.stage(source=web, calls=5)
    def fetch(ctx: Context[Fetch]) -> str:
        return server.get(ms(first)(), ctx.payload.url)

    first = start(pipeline)
    first.app.enqueue_many([Fetch("a/1"), Fetch("a/2")])
    first.drain(wait_for_due=False)
    first.drain()
    [one, two] = [at for at, _ in server.called]
    assert two - one == 5_000


def test_code_that_takes_the_last_source_away_finds_the_tasks_that_stand_behind_it(start: Start) -> None:
    server = Server()
    old = start(fetching(Source("web", rate="1/min"), server, lambda: ms(old)()))
    tasks = old.app.enqueue_many([Fetch(f"a/{number}") for number in range(3)])
    old.drain(wait_for_due=False)
    assert statuses(old, tasks) == ["succeeded", "pending", "pending"]
    pipeline = Pipeline(Fetch)

    @pipeline.stage
    def fetch(ctx: Context[Fetch]) -> str:
        return ctx.payload.url

    harness = start(pipeline, after=old)
    harness.drain()
    assert statuses(harness, tasks) == ["succeeded", "succeeded", "succeeded"]
    harness.enqueue(Fetch("a/3"))
    harness.drain()
    assert harness.app.stats.counts()[Status.SUCCEEDED] == 4
