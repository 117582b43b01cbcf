"""From stage to stage: who waits for a commit needs no slot, and who goes on waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from onceward import Config, Context, Payload, Pipeline
from onceward.authoring.child_builder import Spawner
from onceward.authoring.registry import Registry
from onceward.model.task import Advance, Commit, Finish, Release
from onceward.store.attempts.claims import NOTHING, ClaimResult
from onceward.worker.claim_ahead import LATE_MS
from onceward.worker.runner import Runner
from onceward.worker.runner_ports import Place, Ports, Share
from onceward.worker.writer import Answer, Item, Wish, Written
from tests.worker.conftest import lease

CONCURRENCY = 2


class Job(Payload, kind="job"):
    name: str = "job"


class Scene:
    """A runner with two slots, whose commits become durable when the test says so."""

    def __init__(self, threads: Any = None) -> None:
        self.undecided: list[Item] = []
        self.went_on: list[int] = []
        self.wishes: list[Callable[[], Wish]] = []
        self.now = 0
        self.may_end = asyncio.Event()
        job = Pipeline(Job)

        if threads is not None:

            @job.stage
            def blocking(ctx: Context[Job]) -> None:
                """Nothing."""

        @job.stage
        async def first(ctx: Context[Job]) -> None:
            """Nothing."""

        @job.stage
        async def second(ctx: Context[Job]) -> None:
            self.went_on.append(ctx.task.id)
            await self.may_end.wait()

        registry = Registry([job])
        self.runner = Runner(
            registry,
            Config(concurrency=CONCURRENCY),
            Ports(
                submit=self.submit,
                wish=self.wishes.append,
                read=lambda: None,
                look_up=lambda _source, _hash: None,
                setting=lambda _name: None,
                spawner=Spawner(registry, Config().bounds, None, lambda: 0),
                now=lambda: 0,
                monotonic=lambda: self.now,
            ),
            Place(threads=threads),
            Share(queues=frozenset({"default"})),
        )
        self.runner.claims.look_for_suspects = False

    def submit(self, commit: Commit, answer: Answer) -> None:
        self.undecided.append(Item(commit, answer))

    def claim(self, *tasks: int, gates: str | None = None) -> None:
        claimed = ClaimResult(1, [msgspec.structs.replace(lease(task), gates=gates) for task in tasks], {}, {})
        self.runner.delivered(Written((), (), claimed, Wish(len(tasks))))

    async def run(self) -> list[tuple[str, list[int]]]:
        """Let everything happen that can; what wants to be written then, by kind."""
        for _ in range(20):
            await asyncio.sleep(0)
        moves: dict[str, list[int]] = {}
        for item in self.undecided:
            moves.setdefault(type(item.commit.move).__name__, []).append(item.commit.lease.task)
        return sorted((kind, sorted(tasks)) for kind, tasks in moves.items())

    def write(self) -> None:
        """All that wants to be written is durable; nothing more was there to be claimed."""
        items, self.undecided = self.undecided, []
        asked = self.wishes.pop()() if self.wishes else None
        self.runner.delivered(Written(items, [True] * len(items), NOTHING, asked))


def test_who_waits_for_a_commit_holds_no_slot() -> None:
    async def played() -> None:
        scene = Scene()
        scene.claim(1, 2, 3, 4, 5)
        assert await scene.run() == [(Advance.__name__, [1, 2, 3, 4, 5])]
        scene.may_end.set()
        scene.write()
        assert await scene.run() == [(Finish.__name__, [1, 2, 3, 4, 5])]
        scene.write()
        assert scene.runner.leases.tasks == []

    asyncio.run(played())


@pytest.mark.parametrize(("took_ms", "wished"), [(20, CONCURRENCY + 22), (20_000, 0)])
def test_while_stages_are_written_others_are_claimed_if_they_are_short(took_ms: int, wished: int) -> None:
    """Nine tasks in 20 ms are 22 in 50 ms. Where they take long, who is claimed meanwhile would wait behind them."""

    async def played() -> None:
        scene = Scene()
        scene.may_end.set()
        scene.claim(*range(1, 10))
        await scene.run()
        scene.write()
        assert await scene.run() == [(Finish.__name__, [*range(1, 10)])]
        scene.now = took_ms
        scene.claim(10, 11, 12)
        assert await scene.run() == [(Advance.__name__, [10, 11, 12]), (Finish.__name__, [*range(1, 10)])]
        assert scene.wishes[-1]().count == wished

    asyncio.run(played())


@pytest.mark.parametrize(("took_ms", "ahead"), [(30, 2), (90, 1), (20_000, 0)])
def test_governed_work_is_claimed_for_slots_that_are_free_or_will_be_in_milliseconds(took_ms: int, ahead: int) -> None:
    """Nine tasks in 30 ms are three in 10 ms, but no more are claimed ahead than there are slots."""

    async def played() -> None:
        scene = Scene()
        scene.may_end.set()
        scene.claim(*range(1, 10))
        await scene.run()
        scene.write()
        await scene.run()
        scene.now = took_ms
        scene.write()
        assert scene.runner.claims.wish(0, 0).slots == CONCURRENCY + ahead
        scene.may_end.clear()
        scene.claim(10, 11, 12, 13)
        await scene.run()
        scene.write()
        await scene.run()
        scene.claim(14, gates="web")
        assert scene.runner.claims.wish(2, 2).slots == max(0, ahead - 1)

    asyncio.run(played())


@pytest.mark.parametrize(
    ("waited_ms", "given_back"), [(100, []), (101, [6, 7]), (1_000, [6, 7]), (1_001, [3, 4, 5, 6, 7])]
)
def test_who_waits_for_a_slot_longer_than_was_thought_is_given_back(waited_ms: int, given_back: list[int]) -> None:
    """Two run and take their time; two wait to go on, one to begin, and two that are governed."""

    async def played() -> None:
        scene = Scene()
        scene.claim(1, 2, 3, 4)
        await scene.run()
        scene.now = 5_000
        scene.write()
        await scene.run()
        scene.claim(5)
        scene.claim(6, gates="web")
        scene.claim(7, gates="web")
        scene.now += waited_ms
        scene.runner.tick()
        assert await scene.run() == ([(Release.__name__, given_back)] if given_back else [])
        given = [item.commit.lease.task for item in scene.undecided]
        assert given == [task for task in (6, 7, 3, 4, 5) if task in given_back], "the oldest first"

    asyncio.run(played())


def test_a_worker_that_had_to_give_back_claims_nothing_ahead_until_it_has_measured() -> None:
    async def played() -> None:
        scene = Scene()
        scene.may_end.set()
        scene.claim(*range(1, 10))
        await scene.run()
        scene.write()
        await scene.run()
        scene.now = 20
        scene.may_end.clear()
        scene.claim(10, 11, 12)
        scene.write()
        await scene.run()
        scene.write()
        await scene.run()
        assert scene.runner.claims.ahead > 0
        scene.now += 1_001
        scene.runner.tick()
        assert await scene.run() == [(Release.__name__, [12])]
        assert scene.runner.claims.ahead == 0
        wish = scene.runner.claims.wish(CONCURRENCY, CONCURRENCY)
        assert (wish.count, wish.slots) == (0, 0)
        assert scene.runner.claims.expects_more, "what was given back is in the lines again"

    asyncio.run(played())


def test_no_more_run_than_there_are_slots_and_who_has_begun_goes_first() -> None:
    async def played() -> None:
        scene = Scene()
        scene.claim(1, 2, 3)
        await scene.run()
        scene.claim(4)
        scene.write()
        await scene.run()
        assert scene.went_on == [1, 2]
        scene.may_end.set()
        await scene.run()
        assert scene.went_on == [1, 2, 3]
        assert await scene.run() == [(Advance.__name__, [4]), (Finish.__name__, [1, 2, 3])]

    asyncio.run(played())


def test_who_waits_to_go_on_is_given_back_when_the_worker_stops() -> None:
    async def played() -> None:
        scene = Scene()
        scene.claim(1, 2, 3, 4)
        await scene.run()
        scene.write()
        await scene.run()
        scene.runner.stop_claiming()
        assert await scene.run() == [(Release.__name__, [3, 4])]
        scene.may_end.set()
        assert await scene.run() == [(Finish.__name__, [1, 2]), (Release.__name__, [3, 4])]
        scene.write()
        assert scene.runner.is_drained

    asyncio.run(played())


def test_everything_is_given_back_at_once_when_asked_twice() -> None:
    async def played() -> None:
        scene = Scene()
        scene.claim(1, 2, 3, 4)
        await scene.run()
        scene.write()
        await scene.run()
        scene.runner.release_all()
        assert await scene.run() == [(Release.__name__, [1, 2, 3, 4])]
        scene.write()
        assert scene.runner.is_drained

    asyncio.run(played())


def test_who_has_lost_its_lease_while_it_waited_does_not_go_on() -> None:
    async def played() -> None:
        scene = Scene()
        scene.claim(1, 2, 3, 4)
        await scene.run()
        scene.write()
        await scene.run()
        scene.runner.lost({3})
        scene.may_end.set()
        assert await scene.run() == [(Finish.__name__, [1, 2, 4])]
        assert scene.went_on == [1, 2, 4]
        scene.write()
        assert scene.runner.leases.tasks == []

    asyncio.run(played())


def test_a_task_that_waits_too_long_for_a_thread_is_given_back() -> None:
    async def played() -> None:
        scene = Scene(threads=Busy())
        scene.runner.claims.free_threads = lambda: 0
        scene.claim(1, 2)
        assert await scene.run() == []
        scene.now = LATE_MS
        scene.runner.tick()
        assert await scene.run() == []
        scene.now += 1
        scene.runner.tick()
        assert await scene.run() == [(Release.__name__, [1, 2])]

    asyncio.run(played())


def test_where_stages_take_long_and_end_together_nothing_is_claimed_ahead() -> None:
    async def played() -> None:
        scene = Scene()
        scene.now = 1
        scene.claim(1, 2)
        await scene.run()
        scene.write()
        await scene.run()
        scene.now = 2_000
        scene.runner.tick()
        scene.runner.claims.measure()
        scene.now = 2_020
        scene.may_end.set()
        await scene.run()
        scene.write()
        assert scene.runner.claims.wish(0, 0).count == CONCURRENCY

    asyncio.run(played())


def test_more_is_claimed_ahead_where_claims_take_longer() -> None:
    async def played(answer_ms: int) -> int:
        scene = Scene()
        scene.may_end.set()
        scene.claim(*range(1, 10))
        await scene.run()
        scene.write()
        await scene.run()
        scene.wishes.append(lambda: scene.runner.claims.wish(0, 0))
        for _ in range(40):
            wish = scene.runner.claims.wish(0, 0)
            scene.now += answer_ms
            scene.runner.claims.ended = answer_ms  # a thousand in a second
            scene.runner.delivered(Written((), (), NOTHING, wish))
        return scene.runner.claims.ahead

    assert [asyncio.run(played(answer_ms)) for answer_ms in (20, 60)] == [129, 289]


class Busy:
    """Threads that never come to a stage."""

    def submit(self, function: Callable[[], object], done: Callable[..., None]) -> None:
        """Let it wait."""


def test_a_worker_that_has_lost_all_leases_begins_nothing_that_it_had_claimed_ahead() -> None:
    async def played() -> None:
        scene = Scene()
        scene.claim(1, 2, 3, 4, 5)
        scene.runner.lose_everything()
        assert await scene.run() == []
        scene.claim(6)
        assert await scene.run() == [(Release.__name__, [6])]

    asyncio.run(played())
