"""Circular dependency: a job needs a company, which needs its job board, which needs the company.

Here every task waits for the task that it needs, and the board's spawn is refused because the company is its ancestor:
the circle is never closed, so no task waits for ever either.
"""

from __future__ import annotations

from account import Account, run, show
from naive import Handler, Multiplied, NaiveQueue

from onceward import Context, Payload, Pipeline

POSTING = "https://example.com/jobs/1"
NAME = "Example & Co"


class Job(Payload, kind="job"):
    """A posting that needs its company."""

    url: str


class Company(Payload, kind="company"):
    """A company that needs its job board."""

    name: str


class Board(Payload, kind="board"):
    """A job board that needs its company."""

    company: str


job = Pipeline(Job)
company = Pipeline(Company)
board = Pipeline(Board)


@job.stage
def read(ctx: Context[Job]) -> None:
    """Ask for the company."""
    ctx.spawn(Company(NAME))


@job.stage(join=True)
def save(ctx: Context[Job]) -> str:
    """Save with what is known of the company."""
    return ctx.outcome(Company(NAME)).status


@company.stage
def scrape(ctx: Context[Company]) -> None:
    """Ask for the board."""
    ctx.spawn(Board(ctx.payload.name))


@company.stage(join=True)
def describe(ctx: Context[Company]) -> str:
    """Describe the company with what is known of its board."""
    return ctx.outcome(Board(ctx.payload.name)).status


@board.stage
def discover(ctx: Context[Board]) -> None:
    """Ask for the company: the circle."""
    ctx.spawn(Company(ctx.payload.company))


@board.stage(join=True)
def find_postings(ctx: Context[Board]) -> str:
    """Go on; a refused child is an outcome like any other."""
    return ctx.outcome(Company(ctx.payload.company)).status


def on_naive_queue(stop_after: int = 1_000) -> Multiplied:
    """The same three handlers on a queue that knows no lineage."""
    needs = {"job": "company", "company": "board", "board": "company"}

    def ask_for(kind: str) -> Handler:
        def handle(queue: NaiveQueue, about: str) -> None:
            queue.add(kind, NAME)

        return handle

    queue = NaiveQueue({kind: ask_for(needed) for kind, needed in needs.items()}, stop_after=stop_after)
    queue.add("job", POSTING)
    return queue.run()


def on_onceward(url: str) -> Account:
    """One of each, and one refusal."""
    return run(url, [job, company, board], Job(POSTING))


if __name__ == "__main__":
    show("Circular dependency: job → company → board → the same company → …", on_naive_queue, on_onceward)
