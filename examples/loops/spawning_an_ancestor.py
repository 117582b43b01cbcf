"""A company, spawned by a job, spawns that job: refused, because the job is its ancestor."""

from __future__ import annotations

from account import Account, run, show
from naive import Multiplied, NaiveQueue

from onceward import Context, Payload, Pipeline

POSTING = "https://company.com/job/1"
SITE = "https://company.com"


class Job(Payload, kind="job"):
    """A posting."""

    url: str


class Company(Payload, kind="company"):
    """The company behind it."""

    url: str


job = Pipeline(Job)
company = Pipeline(Company)


@job.stage
def read(ctx: Context[Job]) -> bool:
    """Ask for the company; that is allowed."""
    return bool(ctx.spawn(Company(SITE)))


@company.stage
def scrape(ctx: Context[Company]) -> str | None:
    """Ask for the job again. That it is an ancestor is known at once, before anything is written."""
    spawned = ctx.spawn(Job(POSTING))
    return None if spawned else spawned.rule


def on_naive_queue(stop_after: int = 1_000) -> Multiplied:
    """The same two handlers on a queue that knows no lineage."""

    def read_job(queue: NaiveQueue, url: str) -> None:
        queue.add("company", SITE)

    def scrape_company(queue: NaiveQueue, url: str) -> None:
        queue.add("job", POSTING)

    queue = NaiveQueue({"job": read_job, "company": scrape_company}, stop_after=stop_after)
    queue.add("job", POSTING)
    return queue.run()


def on_onceward(url: str) -> Account:
    """One of each, and one refusal."""
    return run(url, [job, company], Job(POSTING))


if __name__ == "__main__":
    show("Spawning an ancestor: job → company → that job", on_naive_queue, on_onceward)
