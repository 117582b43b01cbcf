"""Retry storm: a job that fails queues itself again, and so does the queue.

Every failure makes two of one. Here a retry is never a new task: the same task waits for its due time and counts its
failures, and it ends after the last one. A job that asks for itself is refused; what a failed attempt asked for is
dropped with it. Only an attempt that commits leaves a refusal behind, so the job that swallows its error shows one.
"""

from __future__ import annotations

from account import Account, run, show
from naive import Multiplied, NaiveQueue

from onceward import Context, Payload, Pipeline, Retry

URL = "https://example.com/report"


class Upload(Payload, kind="upload"):
    """Work that fails, says so, and queues itself again all the same."""

    url: str


class QuietUpload(Payload, kind="quiet upload"):
    """The same, but it hides its error."""

    url: str


upload = Pipeline(Upload, retry=Retry(retries=3, base="5ms"))
quiet_upload = Pipeline(QuietUpload)


def send(url: str) -> None:
    """A server that is down."""
    raise ConnectionError(f"{url} does not answer")


@upload.stage
def try_to_send(ctx: Context[Upload]) -> None:
    """Fail, and ask for oneself before that."""
    try:
        send(ctx.payload.url)
    except ConnectionError:
        ctx.spawn(ctx.payload)
        raise


@quiet_upload.stage
def send_or_try_later(ctx: Context[QuietUpload]) -> None:
    """Ask for oneself instead of failing."""
    try:
        send(ctx.payload.url)
    except ConnectionError:
        ctx.spawn(ctx.payload)


def on_naive_queue(stop_after: int = 1_000) -> Multiplied:
    """The first of them on a queue that knows no lineage, and that retries three times as well."""

    def try_to_upload(queue: NaiveQueue, url: str) -> None:
        try:
            send(url)
        except ConnectionError:
            queue.add("upload", url)
            raise

    queue = NaiveQueue({"upload": try_to_upload}, retries=3, stop_after=stop_after)
    queue.add("upload", URL)
    return queue.run()


def on_onceward(url: str) -> Account:
    """One task each: the first fails after three retries, the second is refused its copy."""
    return run(url, [upload, quiet_upload], Upload(URL), QuietUpload(URL))


if __name__ == "__main__":
    show("Retry storm: a failure queues a copy of itself, and is retried too", on_naive_queue, on_onceward)
