"""When a runner asks for work: news that come while a claim is under way are not lost."""

from __future__ import annotations

import asyncio

from onceward import Config, Context, Payload, Pipeline
from onceward.store.claims import NOTHING
from onceward.worker.committer import Wish, Written
from onceward.worker.registry import Registry
from onceward.worker.runner import Runner


class Job(Payload, kind="job"):
    name: str = "job"


def runner_that_wishes(wishes: list[Wish]) -> Runner:
    """A runner whose wishes nobody fulfils unless the test does."""
    job = Pipeline(Job)

    @job.stage
    def work(ctx: Context[Job]) -> None:
        """Nothing."""

    runner = Runner(
        Registry([job]),
        Config(),
        queues=["default"],
        submit=lambda _commit, _answer: None,
        wish=wishes.append,
        threads=None,
        read=lambda: None,
        now=lambda: 0,
        monotonic=lambda: 0,
        presence=None,
        app_path=None,
    )
    runner.look_for_suspects = False
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
        assert runner.wants_more
        return counts

    assert asyncio.run(scene()) == [1, 2, 2]
