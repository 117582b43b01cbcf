"""Duplicate spawning: three jobs that know nothing of each other ask for the same company at the same time.

Each job is a lineage of its own, so the pipeline of companies asks for more: `unique="everywhere"`. The first makes
the task; the others are linked to it and wait for it like for a child of their own. With `fresh_for` a company that
was read within the last hour serves as well.
"""

from __future__ import annotations

from account import Account, run, show
from naive import Multiplied, NaiveQueue

from onceward import Context, Payload, Pipeline

JOBS = [f"https://example.com/jobs/{number}" for number in (1, 2, 3)]
SITE = "https://example.com"


class Job(Payload, kind="job"):
    """A posting that needs its company."""

    url: str


class Company(Payload, kind="company"):
    """A company, which is worth reading once."""

    site: str


job = Pipeline(Job)
company = Pipeline(Company, unique="everywhere", fresh_for="1h")


@job.stage
def read(ctx: Context[Job]) -> None:
    """Ask for the company."""
    ctx.spawn(Company(SITE))


@job.stage(join=True)
def save(ctx: Context[Job]) -> int | None:
    """Which task the company was."""
    return ctx.outcome(Company(SITE)).task


@company.stage
def scrape(ctx: Context[Company]) -> str:
    """Read the site."""
    return "a company"


def on_naive_queue(stop_after: int = 1_000) -> Multiplied:
    """The same two handlers on a queue that knows no lineage."""

    def read_job(queue: NaiveQueue, url: str) -> None:
        queue.add("company", SITE)

    def scrape_company(queue: NaiveQueue, site: str) -> None:
        pass

    queue = NaiveQueue({"job": read_job, "company": scrape_company}, stop_after=stop_after)
    for url in JOBS:
        queue.add("job", url)
    return queue.run()


def on_onceward(url: str) -> Account:
    """Three jobs, one company."""
    account = run(url, [job, company], *map(Job, JOBS))
    for task in account.of_kind("job"):
        account.notes.append(f"job task {task.id} was handed the outcome of company task {task.result(save)}")
    return account


if __name__ == "__main__":
    show("Duplicate spawning: three jobs → the same company, three times", on_naive_queue, on_onceward)
