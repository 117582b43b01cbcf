"""The threads of `def` stages: as many as are needed and allowed, also where some are lost to stages that never end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from onceward.worker.threads import StageThreads

PATIENCE_S = 60


@pytest.fixture
def over() -> Iterator[threading.Event]:
    """What hangs in a test hangs until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def hang(began: asyncio.Event, over: threading.Event) -> Callable[[], None]:
    """A job that says that it has begun, and does not end."""
    loop = asyncio.get_running_loop()

    def job() -> None:
        loop.call_soon_threadsafe(began.set)
        over.wait()

    return job


async def within_patience(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), PATIENCE_S)


def test_a_stage_that_waits_for_a_thread_gets_that_of_a_job_that_does_not_end(over: threading.Event) -> None:
    async def scene() -> None:
        threads = StageThreads(asyncio.get_running_loop(), 1)
        began, ended = asyncio.Event(), asyncio.Event()
        threads.submit(hang(began, over), lambda value, error: None)
        await within_patience(began)
        threads.submit(lambda: None, lambda value, error: ended.set())
        threads.abandon_one()
        await within_patience(ended)
        threads.close()

    asyncio.run(scene())


def test_a_thread_that_went_from_job_to_job_is_not_taken_for_idle(over: threading.Event) -> None:
    async def scene() -> None:
        threads = StageThreads(asyncio.get_running_loop(), 1)
        began, ended = asyncio.Event(), asyncio.Event()
        for _ in range(5):
            threads.submit(lambda: None, lambda value, error: None)
        threads.submit(hang(began, over), lambda value, error: None)
        await within_patience(began)
        threads.abandon_one()
        threads.submit(lambda: None, lambda value, error: ended.set())
        await within_patience(ended)
        threads.close()

    asyncio.run(scene())
