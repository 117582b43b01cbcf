"""When a runner asks for work: news that come while a claim is under way are not lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from onceward import Config, Context, Payload, Pipeline
from onceward.authoring.child_builder import Spawner
from onceward.authoring.registry import Registry
from onceward.model.source import GateLimits
from onceward.model.task import Commit, Move, Release, band_of, lane_of
from onceward.store.attempts.claims import NOTHING, ClaimResult
from onceward.store.lines.lines import notified_line
from onceward.store.lines.memory import LineMemory
from onceward.worker.claim_ahead import ClaimAhead
from onceward.worker.runner import Runner
from onceward.worker.runner_ports import Place, Ports, Share
from onceward.worker.writer import Answer, Item, Wish, Writer, Written
from tests.worker.conftest import Clockwork, lease


class Job(Payload, kind="job"):
    name: str = "job"


def runner_that_wishes(
    wishes: list[Wish], commits: list[Commit] | None = None, answered: list[Item] | None = None
) -> Runner:
    """A runner whose wishes nobody fulfils unless the test does, and whose commits are only noted: with whom to tell
    what has become of them, if the test does that."""

    def note(commit: Commit, answer: Answer) -> None:
        if commits is not None:
            commits.append(commit)
        if answered is not None:
            answered.append(Item(commit, answer))

    job = Pipeline(Job)

    @job.stage
    def work(ctx: Context[Job]) -> None:
        """Nothing."""

    runner = Runner(
        Registry([job]),
        Config(),
        Ports(
            submit=note,
            wish=lambda make: wishes.append(make()),
            read=lambda: None,
            look_up=lambda _source, _hash: None,
            setting=lambda _name: None,
            spawner=Spawner(Registry([job]), Config().bounds, None, lambda: 0),
            now=lambda: 0,
            monotonic=lambda: 0,
        ),
        Place(threads=None),
        Share(queues=frozenset({"default"})),
    )
    runner.claims.look_for_suspects = False
    return runner


def test_news_that_come_while_a_claim_is_under_way_lead_to_another_one() -> None:
    async def scene() -> list[int]:
        wishes: list[Wish] = []
        runner = runner_that_wishes(wishes)
        counts = []
        runner.look_again()
        runner.look_again()  # the claim may have looked at the lines already
        counts.append(len(wishes))
        runner.delivered(Written((), (), NOTHING, wishes[-1]))
        counts.append(len(wishes))
        runner.delivered(Written((), (), NOTHING, wishes[-1]))
        counts.append(len(wishes))
        assert runner.claims.wants_more
        return counts

    assert asyncio.run(scene()) == [1, 2, 2]


def test_what_is_claimed_while_the_worker_stops_is_given_back_and_never_begins() -> None:
    async def scene() -> list[tuple[int, type[Move]]]:
        wishes: list[Wish] = []
        commits: list[Commit] = []
        runner = runner_that_wishes(wishes, commits)
        runner.look_again()
        runner.release_all()
        runner.delivered(Written((), (), ClaimResult(1, [lease(task) for task in (1, 2, 3)], {}, {}), wishes[-1]))
        return [(commit.lease.task, type(commit.move)) for commit in commits]

    assert asyncio.run(scene()) == [(1, Release), (2, Release), (3, Release)]


def test_a_worker_that_stops_hears_that_what_it_had_not_begun_is_given_back() -> None:
    async def scene() -> bool:
        wishes: list[Wish] = []
        items: list[Item] = []
        runner = runner_that_wishes(wishes, answered=items)
        runner.look_again()
        runner.stop_claiming()
        runner.delivered(Written((), (), ClaimResult(1, [lease(1), lease(2)], {}, {}), wishes[-1]))
        runner.delivered(Written(items, [True, True]))
        return runner.is_drained

    assert asyncio.run(scene())


def test_news_of_one_line_are_looked_at_first_and_the_others_after_it() -> None:
    async def scene() -> list[Wish]:
        wishes: list[Wish] = []
        runner = runner_that_wishes(wishes)
        runner.look_again(("default:job", 2))
        runner.delivered(Written((), (), NOTHING, wishes[-1]))
        runner.delivered(Written((), (), NOTHING, wishes[-1]))
        return wishes

    assert [wish.line for wish in asyncio.run(scene())] == [("default:job", 2), None]


@pytest.mark.parametrize("what", ["a free slot", "news"])
def test_a_worker_whose_slots_are_all_taken_asks_for_governed_work_when_that_can_help(what: str) -> None:
    claims = ClaimAhead(Config(concurrency=2), monotonic=lambda: 0, suspects_only=False, most_claims=None)
    claims.look_for_suspects = False
    claims.ahead = 1
    assert claims.asks(2, 2, 0)
    wish = claims.wish(2, 2)
    assert (wish.count, wish.slots) == (1, 0)
    claims.take(Written((), (), replace(NOTHING, held_back=2), wish, next_due_at=0), wish)
    assert not claims.asks(2, 2, 0), "it would hear the same again, and again"
    assert claims.next_due_at is None
    if what == "news":
        claims.look_again(None)
        assert claims.asks(2, 2, 0)
    else:
        assert claims.asks(1, 1, 0)


def test_a_worker_whose_threads_are_all_taken_asks_for_more_when_one_is_free_or_there_is_news() -> None:
    free = [2]
    claims = ClaimAhead(Config(concurrency=10), monotonic=lambda: 0, suspects_only=False, most_claims=None)
    claims.look_for_suspects = False
    claims.free_threads = lambda: free[0]
    assert claims.asks(0, 0, 0)
    wish = claims.wish(0, 0)
    assert (wish.count, wish.threads) == (10, 2)
    claimed = ClaimResult(1, [lease(1), lease(2)], {}, {}, wants_thread=True)
    claims.take(Written((), (), claimed, wish), wish)
    assert claims.next_beside(0) is not None
    assert claims.next_beside(1) is not None
    free[0] = 0
    assert not claims.asks(2, 2, 0), "it would hear the same again, and again"
    assert claims.wants_more, "there may be news of tasks that need no thread"
    free[0] = 1
    assert claims.asks(1, 1, 0)
    assert claims.wish(1, 1).threads == 1


def test_no_more_tasks_are_claimed_than_there_are_threads_for(clockwork: Clockwork) -> None:
    hands = clockwork.hands()
    threaded = hands.enqueue(5)
    others = hands.enqueue(2, kind="other")
    lanes = (lane_of("default", "note"), lane_of("default", "other"))
    sweeps = clockwork.app.dialect == "postgres"
    memory = LineMemory(lanes, sweeps=sweeps, threaded=frozenset(lanes[:1]))
    writer = Writer(hands.session, hands.worker(), memory, LineMemory(()))

    def claim(threads: int, line: str | None = None) -> tuple[list[int], bool]:
        wish = Wish(10, threads=threads, line=None if line is None else (line, band_of(0)))
        claimed = writer.write((), wish).claimed
        return sorted(lease.task for lease in claimed.leases), claimed.wants_thread

    assert claim(2) == ([*threaded[:2], *others], True)
    assert claim(0) == ([], True)
    assert claim(0, lanes[0])[0] == []
    assert claim(1, lanes[0])[0] == threaded[2:3]
    assert claim(3) == (threaded[3:], False)
    assert claim(5) == ([], False)


def test_a_notification_names_its_line() -> None:
    assert notified_line("2 default:job") == ("default:job", 2)
    assert notified_line("") is None
    assert notified_line("something else") is None


@pytest.mark.untroubled("it counts receipts, and what is asked about a lost try leaves one")
def test_who_comes_too_late_for_a_task_commits_nothing(clockwork: Clockwork) -> None:
    hands = clockwork.hands()
    [task] = hands.enqueue()
    line = (lane_of("default", "note"), band_of(0))
    writers = [
        Writer(hands.session, hands.worker(name), LineMemory((line[0],), sweeps=False), LineMemory(()))
        for name in ("ant", "bee")
    ]
    claimed = []
    receipts = []
    for writer in writers:
        claimed.append([lease.task for lease in writer.write((), Wish(10, line=line)).claimed.leases])
        receipts.append(hands.sql("SELECT count(*) FROM onceward_receipt")[0][0])
    assert claimed == [[task], []]
    assert receipts[0] == receipts[1]


def test_a_worker_that_only_looks_notices_that_the_clock_was_set_back(clockwork: Clockwork) -> None:
    hands = clockwork.hands()
    sweeps = clockwork.app.dialect == "postgres"
    writer = Writer(
        clockwork.session(),
        hands.worker(),
        LineMemory((lane_of("default", "note"),), lambda _: GateLimits(), sweeps),
        LineMemory((lane_of("default", "note", suspect=True),), lambda _: GateLimits(), sweeps),
    )
    assert writer.write([], Wish(5, slots=5)).claimed.leases == []
    clockwork.clock.advance("10h")
    assert writer.write([], Wish(5, slots=5)).claimed.leases == []
    hands.now = clockwork.clock.now()
    tasks = hands.enqueue(2, gates="shop*1")
    clockwork.clock.step(-3_600_000)
    writer.session.measure_clock()
    assert [lease.task for lease in writer.write([], Wish(5, slots=5)).claimed.leases] == tasks
