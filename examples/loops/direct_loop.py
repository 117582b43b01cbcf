"""Direct loop: a job misses its company and asks for it; the company has no data and asks for the job again.

Here the job waits for its company and gets its outcome, failure included. A spawn of an ancestor is refused, and a
child that has failed is not made a second time.
"""

from __future__ import annotations

from account import Account, run, show
from naive import Multiplied, NaiveQueue

from onceward import Context, Failed, Payload, Pipeline

POSTING = "https://example.com/jobs/1"
SITE = "https://example.com"


class Job(Payload, kind="job"):
    """A posting that needs to know its company."""

    url: str


class Company(Payload, kind="company"):
    """A company that is read from its site, and back to the job that missed it."""

    site: str
    posting: str

    def key(self) -> str:
        """The site alone, whichever job asked for it."""
        return self.site


job = Pipeline(Job)
company = Pipeline(Company)


@job.stage
def read(ctx: Context[Job]) -> None:
    """The company is missing: ask for it."""
    ctx.spawn(Company(SITE, posting=ctx.payload.url))


@job.stage(join=True)
def look_again(ctx: Context[Job]) -> str:
    """The company has ended, well or not. Asked for once more, it is still the same child."""
    outcome = ctx.outcome(Company(SITE, posting=ctx.payload.url))
    ctx.spawn(Company(SITE, posting=ctx.payload.url))
    return f"went on without its company: {outcome.status}, {outcome.reason}"


@company.stage
def scrape(ctx: Context[Company]) -> None:
    """There is no data: send the job round again, and fail."""
    ctx.spawn(Job(ctx.payload.posting))
    raise Failed("the site has no data")


def on_naive_queue(stop_after: int = 1_000) -> Multiplied:
    """The same two handlers on a queue that knows no lineage."""

    def read_job(queue: NaiveQueue, url: str) -> None:
        queue.add("company", SITE)

    def scrape_company(queue: NaiveQueue, site: str) -> None:
        queue.add("job", POSTING)

    queue = NaiveQueue({"job": read_job, "company": scrape_company}, stop_after=stop_after)
    queue.add("job", POSTING)
    return queue.run()


def on_onceward(url: str) -> Account:
    """One job, one company, one refusal."""
    return run(url, [job, company], Job(POSTING))


if __name__ == "__main__":
    show("Direct loop: job → company (fails) → the same job → …", on_naive_queue, on_onceward)
