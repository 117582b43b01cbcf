"""Every page has a next page, and every next page is new: no rule on duplicates ever stops that, the depth does.

The largest depth is 10 unless the root says otherwise, and the root has depth 0: eleven tasks, then a refusal.
"""

from __future__ import annotations

from account import Account, run, show
from naive import Multiplied, NaiveQueue

from onceward import Context, Payload, Pipeline

DEEPEST = 10


class Page(Payload, kind="page"):
    """A page of a list that never ends."""

    number: int


page = Pipeline(Page)


@page.stage
def read(ctx: Context[Page]) -> None:
    """Ask for the next one."""
    ctx.spawn(Page(ctx.payload.number + 1))


def on_naive_queue(stop_after: int = 1_000) -> Multiplied:
    """The same handler on a queue that knows no lineage."""

    def read_page(queue: NaiveQueue, number: str) -> None:
        queue.add("page", str(int(number) + 1))

    queue = NaiveQueue({"page": read_page}, stop_after=stop_after)
    queue.add("page", "1")
    return queue.run()


def on_onceward(url: str) -> Account:
    """Eleven pages and one refusal."""
    return run(url, [page], Page(1))


if __name__ == "__main__":
    show("Too deep: page → next page → next page → …", on_naive_queue, on_onceward)
