"""The response cache: asked for once, kept for a while, shared by all."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from onceward import App, Budget, Config, ConfigError, Context, Payload, Pipeline, Retry, Source, Status, Waiting
from onceward.errors import WrongTwin
from onceward.model.cache import AnswerTaken, hash_of
from onceward.model.task import Defer, Fill, Filled
from onceward.store.governance import cache
from onceward.store.governance.cache import ROW_BYTES, evict
from onceward.testing import Harness
from onceward.worker.housekeeping import Housekeeping
from tests.store.conftest import Hands
from tests.worker.conftest import Start

WEB = Source("web", breaker=None, retries=0)


class Get(Payload, kind="get"):
    number: int
    url: str = "a"


class Coin(msgspec.Struct):
    year: int


class Outside:
    """What is called, and what it answers."""

    def __init__(self, answer: Any = "hello") -> None:
        self.answer = answer
        self.urls: list[str] = []

    def get(self, url: str) -> Any:
        self.urls.append(url)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def getting(outside: Outside, source: Source = WEB, type: Any = Any, **options: Any) -> Pipeline[Get]:
    """One stage that asks for one answer; without a source of its own, so nothing but the cache governs it."""
    pipeline = Pipeline(Get, **options)

    @pipeline.stage(calls=10)
    def get(ctx: Context[Get]) -> Any:
        url = ctx.payload.url
        return ctx.cached(source, url, lambda: outside.get(url), type=type)

    return pipeline


def work(harness: Harness, *urls: str) -> list[Any]:
    """What stages get for these addresses, one after the other."""
    found = []
    for url in urls:
        task = harness.app.enqueue(Get(len(found), url), root=True)
        harness.drain()
        done = harness.task(task)
        found.append(done.results.get("get") if done.status is Status.SUCCEEDED else done.status)
    return found


def rows(app: App, text: str) -> list[Any]:
    return app.read(lambda connection: connection.execute(text).fetchall())


def counts(app: App, source: str = "web") -> tuple[int, int]:
    """Hits and misses."""
    [found] = [one for one in app.cache.list() if one.source == source]
    return found.hits, found.misses


def test_an_answer_is_asked_for_once_until_it_is_too_old(start: Start) -> None:
    outside = Outside()
    harness = start(getting(outside))
    assert work(harness, "a", "a", "b", "a") == ["hello"] * 4
    assert outside.urls == ["a", "b"]
    harness.clock.advance(3_590)
    assert work(harness, "a") == ["hello"]
    assert outside.urls == ["a", "b"]
    harness.clock.advance(20)
    assert work(harness, "a", "a") == ["hello"] * 2
    assert outside.urls == ["a", "b", "a"]
    assert counts(harness.app) == (4, 3)
    [web] = harness.app.sources.list()
    assert (web.hits, web.misses, web.calls) == (4, 3, 3)


def test_a_source_or_the_setting_says_how_long_answers_are_kept(start: Start) -> None:
    outside = Outside()
    source = Source("web", cache="10s", breaker=None)
    harness = start(getting(outside, source))
    work(harness, "a")
    harness.clock.advance(11)
    work(harness, "a")
    assert outside.urls == ["a", "a"]
    longer = start(getting(outside), config=Config(cache_ttl="2h"), after=harness)
    longer.app.cache.clear()
    work(longer, "a")
    longer.clock.advance(7_000)
    work(longer, "a")
    assert outside.urls == ["a", "a", "a"]


@pytest.mark.parametrize(
    ("source", "config"),
    [(WEB, Config(cache=False)), (Source("web", cache=None, retries=0), Config())],
    ids=["setting", "source"],
)
def test_without_a_cache_every_call_goes_out_and_nothing_is_kept(start: Start, source: Source, config: Config) -> None:
    outside = Outside((1, 2))
    harness = start(getting(outside, source), config=config)
    assert work(harness, "a", "a") == [[1, 2]] * 2
    assert outside.urls == ["a", "a"]
    assert rows(harness.app, "SELECT * FROM onceward_cache") == []
    assert harness.app.cache.list() == []


def test_nothing_is_an_answer_too(start: Start) -> None:
    outside = Outside(None)
    harness = start(getting(outside))
    assert work(harness, "a", "a") == [None, None]
    assert outside.urls == ["a"]


def test_an_answer_that_no_longer_fits_the_code_is_asked_for_anew(start: Start) -> None:
    outside = Outside({"age": 7})
    old = start(getting(outside))
    assert work(old, "a", "a") == [{"age": 7}] * 2
    outside.answer = {"year": 1913}
    new = start(getting(outside, type=Coin), after=old)
    assert [one.year if isinstance(one, Coin) else one["year"] for one in work(new, "a", "a")] == [1913] * 2
    assert outside.urls == ["a", "a"]


def test_what_a_hit_returns_is_what_the_miss_returned(start: Start) -> None:
    seen: list[Any] = []
    pipeline = Pipeline(Get)

    @pipeline.stage(calls=10)
    def get(ctx: Context[Get]) -> None:
        seen.append(ctx.cached(WEB, ("coin", 1913, "D"), lambda: {"year": 1913}, type=Coin))

    harness = start(pipeline)
    harness.app.enqueue_many([Get(1), Get(2)])
    harness.drain()
    assert seen == [Coin(1913), Coin(1913)]
    assert counts(harness.app) == (1, 1)


def test_an_answer_of_the_wrong_type_is_refused_and_not_kept(start: Start) -> None:
    harness = start(getting(Outside("no coin"), type=Coin))
    assert work(harness, "a") == [Status.FAILED]
    assert rows(harness.app, "SELECT * FROM onceward_cache") == []


def test_an_error_is_not_kept_and_keeps_no_task_waiting(start: Start) -> None:
    outside = Outside(ConnectionError("refused"))
    harness = start(getting(outside, retry=Retry(retries=2, base="1s", jitter=False)))
    task = harness.app.enqueue(Get(1))
    harness.drain(wait_for_due=False)
    assert rows(harness.app, "SELECT * FROM onceward_cache") == []
    outside.answer = "well"
    harness.drain()
    assert harness.task(task).results["get"] == "well"
    assert outside.urls == ["a", "a"]
    assert counts(harness.app) == (0, 2)


def test_hits_on_retries_are_counted_apart(start: Start) -> None:
    pipeline = Pipeline(Get, retry=Retry(retries=3, base="1s", jitter=False))

    @pipeline.stage(calls=10)
    def get(ctx: Context[Get]) -> None:
        ctx.cached(WEB, "a", lambda: 1)
        if ctx.task.attempt < 3:
            raise ConnectionError("after the call")
        ctx.cached(WEB, "b", lambda: 1)

    harness = start(pipeline)
    harness.app.enqueue(Get(1))
    harness.drain()
    [web] = harness.app.cache.list()
    assert (web.hits, web.misses, web.retry_hits, web.retry_misses) == (2, 2, 2, 1)
    assert (web.hit_rate, web.retry_hit_rate) == (0.5, 2 / 3)


def test_a_large_answer_is_stored_once_and_goes_with_its_last_entry(start: Start) -> None:
    large = "x" * 20_000
    harness = start(getting(Outside(large)))
    assert work(harness, "a", "a", "b") == [large] * 3
    assert rows(harness.app, "SELECT count(*) FROM onceward_blob")[0][0] == 1
    harness.app.cache.clear("web", "a")
    assert work(harness, "b") == [large]
    assert harness.app.cache.clear() == 1
    stages = rows(harness.app, "SELECT count(*) FROM onceward_checkpoint WHERE value_blob IS NOT NULL")[0][0]
    assert stages == 4
    assert rows(harness.app, "SELECT count(*) FROM onceward_blob")[0][0] == 1, "results of tasks still point at it"


def test_an_answer_that_is_too_large_for_the_cache_is_used_and_not_kept(start: Start) -> None:
    outside = Outside("x" * 2_000)
    harness = start(getting(outside), config=Config(cache_size=1_000))
    assert work(harness, "a", "a") == ["x" * 2_000] * 2
    assert outside.urls == ["a", "a"]
    assert rows(harness.app, "SELECT * FROM onceward_cache") == []


def test_what_was_not_used_for_longest_goes_first(start: Start) -> None:
    outside = Outside("x" * 300)
    harness = start(getting(outside))
    for url in ("a", "b", "c", "d"):
        work(harness, url)
        harness.clock.advance(100)
    work(harness, "a")
    one = ROW_BYTES + 302
    session = harness.app._store.session(patience_s=5)
    assert evict(session, 4 * one, harness.clock.now()) == 0
    assert evict(session, 2 * one, harness.clock.now()) == 2
    session.close()
    asked = len(outside.urls)
    work(harness, "a", "d")
    assert len(outside.urls) == asked, "those that were used last are still there"
    work(harness, "b", "c")
    assert outside.urls[asked:] == ["b", "c"]


def test_what_is_too_old_goes_whatever_its_size(start: Start) -> None:
    harness = start(getting(Outside("x" * 5_000)))
    work(harness, "a", "b")
    harness.app.tasks.prune(older_than="0s")
    harness.clock.advance(1_800)
    work(harness, "c")
    harness.clock.advance(1_900)
    session = harness.app._store.session(patience_s=5)
    assert evict(session, 10**9, harness.clock.now()) == 2
    session.close()
    assert [one.entries for one in harness.app.cache.list()] == [1]
    assert rows(harness.app, "SELECT count(*) FROM onceward_blob")[0][0] == 1


def test_a_hit_is_noted_at_most_once_a_minute(start: Start) -> None:
    harness = start(getting(Outside()))
    work(harness, "a")
    [(first,)] = rows(harness.app, "SELECT used_at FROM onceward_cache")
    harness.clock.advance(30)
    work(harness, "a")
    assert rows(harness.app, "SELECT used_at FROM onceward_cache")[0][0] == first
    harness.clock.advance(31)
    work(harness, "a")
    assert rows(harness.app, "SELECT used_at FROM onceward_cache")[0][0] >= first + 61_000


def test_clearing_takes_everything_a_source_or_a_key(start: Start) -> None:
    other = Source("other", breaker=None)
    outside = Outside()
    pipeline = Pipeline(Get)

    @pipeline.stage(calls=10)
    def get(ctx: Context[Get]) -> None:
        for source in (WEB, other):
            ctx.cached(source, ctx.payload.url, lambda: outside.get(ctx.payload.url))

    harness = start(pipeline)
    harness.app.enqueue_many([Get(1, "a"), Get(2, "b")])
    harness.drain()
    assert harness.app.cache.clear("web", "a") == 1
    assert harness.app.cache.clear("web", "a") == 0
    assert {one.source: one.entries for one in harness.app.cache.list()} == {"web": 1, "other": 2}
    assert harness.app.cache.clear("other") == 2
    assert harness.app.cache.clear() == 1
    with pytest.raises(ConfigError, match="a key belongs to a source"):
        harness.app.cache.clear(key="a")


def test_hits_take_no_token_and_a_miss_takes_one(start: Start) -> None:
    source = Source("web", rate="1/hour", burst=2)
    outside = Outside()
    pipeline = Pipeline(Get)

    @pipeline.stage(source=source)
    def get(ctx: Context[Get]) -> Any:
        return ctx.cached(source, ctx.payload.url, lambda: outside.get(ctx.payload.url))

    harness = start(pipeline)
    began = harness.clock.now()
    assert work(harness, *["a"] * 6) == ["hello"] * 6
    assert outside.urls == ["a"]
    assert harness.clock.now() - began < 60_000
    [web] = harness.app.sources.list()
    assert (web.tokens, web.hits, web.misses) == (1, 5, 1)
    assert web.last_success_at is not None
    assert web.streak == 0


def test_a_hit_says_nothing_of_the_health_of_a_source(start: Start) -> None:
    source = Source("web", retries=0)
    outside = Outside()
    pipeline = Pipeline(Get)

    @pipeline.stage(source=source)
    def get(ctx: Context[Get]) -> Any:
        return ctx.cached(source, ctx.payload.url, lambda: outside.get(ctx.payload.url))

    harness = start(pipeline)
    work(harness, "a")
    outside.answer = ConnectionError("broken")
    harness.app.enqueue(Get(9, "b"))
    harness.drain(wait_for_due=False)
    assert [one.streak for one in harness.app.sources.list()] == [1]
    harness.app.enqueue(Get(10, "a"))
    harness.drain(wait_for_due=False)
    assert [one.streak for one in harness.app.sources.list()] == [1]


def test_hits_spend_no_budget_of_calls(start: Start) -> None:
    calls = Budget("calls", 3, unit="calls")
    outside = Outside()
    pipeline = Pipeline(Get)

    @pipeline.stage(source=WEB, budget=calls)
    def get(ctx: Context[Get]) -> Any:
        return ctx.cached(WEB, ctx.payload.url, lambda: outside.get(ctx.payload.url))

    harness = start(pipeline)
    assert work(harness, "a", "a", "a", "b", "a") == ["hello"] * 5
    [standing] = harness.app.budgets.list()
    assert (standing.spent, standing.reserved) == (2, 0)


def test_a_stage_whose_answer_is_on_its_way_is_put_off_and_has_not_failed(start: Start) -> None:
    outside = Outside()
    pipeline = Pipeline(Get)

    @pipeline.stage(calls=10)
    async def get(ctx: Context[Get]) -> Any:
        async def ask() -> Any:
            outside.urls.append(str(ctx.payload.number))
            await gate.wait()
            return "hello"

        try:
            return await ctx.acached(WEB, "a", ask)
        except Waiting:
            gate.set()
            raise

    gate = asyncio.Event()
    harness = start(pipeline)
    first, second = harness.app.enqueue(Get(1)), harness.app.enqueue(Get(2))
    harness.drain()
    assert outside.urls == ["1"]
    assert [harness.task(one).results["get"] for one in (first, second)] == ["hello"] * 2
    put_off = harness.task(second)
    assert put_off.deferrals == 1
    assert put_off.failures == 0
    assert counts(harness.app) == (1, 1)


def test_concurrent_misses_of_one_stage_call_once(start: Start) -> None:
    outside = Outside()
    pipeline = Pipeline(Get)

    @pipeline.stage(calls=10)
    def in_threads(ctx: Context[Get]) -> list[str]:
        def one(_: int) -> str:
            return ctx.cached(WEB, "threads", lambda: outside.get("threads"))

        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(ctx.wrap(one), range(4)))

    @pipeline.stage(calls=10)
    async def awaited(ctx: Context[Get]) -> list[str]:
        async def ask() -> str:
            await asyncio.sleep(0)
            answer: str = outside.get("awaited")
            return answer

        return list(await asyncio.gather(*(ctx.acached(WEB, "awaited", ask) for _ in range(4))))

    harness = start(pipeline)
    task = harness.app.enqueue(Get(1))
    harness.drain()
    assert harness.task(task).results == {"in_threads": ["hello"] * 4, "awaited": ["hello"] * 4}
    assert outside.urls == ["threads", "awaited"]


def test_a_call_that_the_stage_breaks_off_keeps_no_task_waiting(start: Start) -> None:
    pipeline = Pipeline(Get)

    @pipeline.stage(calls=10)
    async def get(ctx: Context[Get]) -> str:
        has_begun = asyncio.Event()

        async def never() -> str:
            has_begun.set()
            await asyncio.Event().wait()
            raise AssertionError("nothing comes of it")

        async def quick() -> str:
            return "hello"

        call = asyncio.ensure_future(ctx.acached(WEB, "a", never))
        await has_begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await ctx.acached(WEB, "a", quick)

    harness = start(pipeline)
    task = harness.app.enqueue(Get(1))
    began = harness.clock.now()
    harness.drain()
    assert harness.task(task).results["get"] == "hello"
    assert harness.task(task).deferrals == 0
    assert harness.clock.now() == began


def test_a_stage_on_the_event_loop_takes_the_awaited_twin(start: Start) -> None:
    pipeline = Pipeline(Get)

    @pipeline.stage(calls=10)
    async def get(ctx: Context[Get]) -> None:
        with pytest.raises(WrongTwin, match=r"ctx\.acached"):
            ctx.cached(WEB, "a", lambda: 1)

    harness = start(pipeline)
    task = harness.app.enqueue(Get(1))
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


def test_housekeeping_keeps_the_cache_within_its_size(start: Start) -> None:
    harness = start(getting(Outside("x" * 300)))
    work(harness, "a", "b")
    session = harness.app._store.session(patience_s=5)
    duties = Housekeeping(
        session,
        Config(cache_size=ROW_BYTES + 302),
        mine=list,
        declared_dead=lambda _: None,
        suspects_found=lambda: None,
        check_presence=False,
    )
    duties.step()
    assert [one.entries for one in harness.app.cache.list()] == [1]
    duties.adopt(Config(cache_size=1))
    duties.step()
    assert [one.entries for one in harness.app.cache.list()] == [1], "not again at once"
    harness.clock.advance(10)
    duties.step()
    assert [one.entries for one in harness.app.cache.list()] == [0]
    session.close()


def filler(hands: Hands, move: Fill) -> Any:
    """What becomes of an attempt that wants to ask for an answer."""
    hands.enqueue()
    lease = hands.claim(hands.worker())[0]
    return lease, hands.commit(lease, move)


def on_its_way(hands: Hands, key: str = "a") -> bool:
    found = hands.do(lambda: cache.look_up("web", hash_of(key)))
    return found is not None and found.is_on_its_way(hands.now)


FILL = Fill("web", hash_of("a"), 60_000)


def test_one_attempt_asks_at_a_time(hands: Hands) -> None:
    first, may = filler(hands, FILL)
    assert may is True
    assert isinstance(filler(hands, FILL)[1], AnswerTaken)
    assert on_its_way(hands)
    assert hands.commit(first, Filled("web", hash_of("a"), b"1", 1_000)) is True
    assert not on_its_way(hands)
    assert isinstance(filler(hands, FILL)[1], AnswerTaken), "there is an answer"
    hands.later(1_000)
    assert filler(hands, FILL)[1] is True, "it is too old"


def test_a_stage_that_has_lost_its_task_keeps_no_task_waiting_and_stores_nothing(hands: Hands) -> None:
    first, _ = filler(hands, FILL)
    hands.commit(first, Defer("first", hands.now, "elsewhere"))
    assert not on_its_way(hands)
    second, may = filler(hands, FILL)
    assert may is True
    assert hands.commit(first, Filled("web", hash_of("a"), b"1", 1_000)) is False
    assert on_its_way(hands)
    assert hands.commit(second, Filled("web", hash_of("a"), b"2", 1_000)) is True
    found = hands.do(lambda: cache.look_up("web", hash_of("a")))
    assert found is not None
    assert found.value == b"2"


def test_one_that_takes_longer_than_its_source_allows_is_waited_for_no_more(hands: Hands) -> None:
    first, _ = filler(hands, FILL)
    hands.later(60_000)
    assert not on_its_way(hands)
    second, may = filler(hands, FILL)
    assert may is True
    assert hands.commit(first, Filled("web", hash_of("a"), b"x" * 9_000, 1_000)) is True
    assert on_its_way(hands), "its answer came too late, and the other one is waited for"
    assert hands.sql("SELECT count(*) FROM onceward_blob") == [(0,)]
    assert hands.commit(second, Filled("web", hash_of("a"))) is True
    assert hands.do(lambda: cache.look_up("web", hash_of("a"))) is None


def test_an_answer_that_is_on_its_way_when_the_cache_is_cleared_is_not_kept(hands: Hands) -> None:
    first, _ = filler(hands, FILL)
    assert cache.clear(hands.do, "web", None, hands.now) == 1
    assert hands.commit(first, Filled("web", hash_of("a"), b"1", 1_000)) is True
    assert hands.do(lambda: cache.look_up("web", hash_of("a"))) is None
