"""Two jobs of one search ask for the same company: the first gets it, the second is refused and told which task has it.

This is within one lineage, where every pipeline is careful by default; across lineages see `duplicate_spawning.py`.
A third job that asks long after the company has been read is refused too: work is done once in a lineage.
"""

from __future__ import annotations

from account import Account, run, show
from naive import Multiplied, NaiveQueue

from onceward import Context, Payload, Pipeline

SITE = "https://company.com"


class Search(Payload, kind="search"):
    """The root that both jobs come from."""

    words: str


class Job(Payload, kind="job"):
    """A posting."""

    url: str


class Company(Payload, kind="company"):
    """The company behind all of them."""

    url: str


search = Pipeline(Search)
job = Pipeline(Job)
company = Pipeline(Company)


@search.stage
def find(ctx: Context[Search]) -> None:
    """Two jobs at once."""
    for number in (1, 2):
        ctx.spawn(Job(f"{SITE}/job/{number}"))


@search.stage(join=True)
def find_more(ctx: Context[Search]) -> None:
    """A third one when they have ended."""
    ctx.spawn(Job(f"{SITE}/job/3"))


@job.stage
def read(ctx: Context[Job]) -> None:
    """Ask for the company."""
    ctx.spawn(Company(SITE))


@job.stage(join=True)
def save(ctx: Context[Job]) -> str:
    """Wait for the company: this job's child, or the one that was there already."""
    return ctx.outcome(Company(SITE)).status


@company.stage
def scrape(ctx: Context[Company]) -> str:
    """Read the site."""
    return "a company"


def on_naive_queue(stop_after: int = 1_000) -> Multiplied:
    """The same handlers on a queue that knows no lineage."""

    def find_jobs(queue: NaiveQueue, words: str) -> None:
        for number in (1, 2, 3):
            queue.add("job", f"{SITE}/job/{number}")

    def read_job(queue: NaiveQueue, url: str) -> None:
        queue.add("company", SITE)

    def scrape_company(queue: NaiveQueue, url: str) -> None:
        pass

    handlers = {"search": find_jobs, "job": read_job, "company": scrape_company}
    queue = NaiveQueue(handlers, stop_after=stop_after)
    queue.add("search", "python")
    return queue.run()


def on_onceward(url: str) -> Account:
    """One search, three jobs, one company, two refusals."""
    return run(url, [search, job, company], Search("python"))


if __name__ == "__main__":
    show("Same work twice: a search → three jobs → the same company each", on_naive_queue, on_onceward)
