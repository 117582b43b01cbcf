"""Wrong uses of the API that a type checker must find, each with what it says. Never run."""

from __future__ import annotations

from onceward import (
    App,
    Connection,
    Context,
    Cron,
    Filtered,
    Payload,
    Pipeline,
    Retry,
    Retryable,
    Waiting,
)  # fmt: skip
from onceward.testing import run_stage


class Listing(Payload, kind="listing"):
    url: str
    pages: int = 1


class Company(Payload, kind="company"):
    name: str


class Nameless(Payload):  # E: Missing named argument "kind"
    url: str


Listing()  # E: Missing positional argument "url"
Listing(7)  # E: Argument 1 to "Listing" has incompatible type "int"; expected "str"
Listing("u", "two")  # E: Argument 2 to "Listing" has incompatible type "str"; expected "int"
Listing("u", colour="red")  # E: Unexpected keyword argument "colour"
Listing("u").url = "v"  # E: Property "url" defined in "Listing" is read-only

listing = Pipeline(Listing)
Pipeline(str)  # E: Value of type variable "P" of "Pipeline" cannot be "str"
Pipeline(Listing, unique="sometimes")  # E: Argument "unique" to "Pipeline" has incompatible type
Pipeline(Listing, retries=3)  # E: Unexpected keyword argument "retries"
Retry(permanent=[ValueError])  # E: Argument "permanent" to "Retry" has incompatible type


@listing.stage
def fetch(ctx: Context[Listing]) -> str:
    return ctx.payload.link  # E: "Listing" has no attribute "link"


@listing.stage
async def scrape(ctx: Context[Listing]) -> list[str]:
    return [ctx.result(fetch)]


@listing.stage
def save(ctx: Context[Listing]) -> None:
    length: int = ctx.result(fetch)  # E: Incompatible types in assignment
    words: str = ctx.result(scrape)  # E: Incompatible types in assignment
    ctx.result("fetch")  # E: Argument 1 to "result" of "Context" has incompatible type "str"
    ctx.result(plain)  # E: Argument 1 to "result" of "Context" has incompatible type
    ctx.spawn("c")  # E: Argument 1 to "spawn" of "Context" has incompatible type "str"; expected "Payload"
    ctx.spawn(Company("c"), limits=5)  # E: Argument "limits" to "spawn" of "Context" has incompatible type "int"
    size: int = ctx.outcome(Company("c")).result(str)  # E: Incompatible types in assignment
    ctx.write(insert, 7)  # E: Argument 2 to "write" of "Context" has incompatible type "int"; expected "str"
    ctx.write(insert)  # E: Missing positional argument "url" in call to "write"
    ctx.write(insert_later, "u")  # E: Argument 1 to "write" of "Context" has incompatible type
    ctx.read(plain, 7)  # E: Argument 1 to "read" of "Context" has incompatible type
    ctx.checkpoint()  # E: Missing positional argument "cursor"
    print(length, words, size)


@listing.stage  # E: Argument 1 to "stage" of "Pipeline" has incompatible type
def wrong_payload(ctx: Context[Company]) -> None: ...


@listing.stage(timeout=object())  # E: No overload variant of "stage" of "Pipeline" matches argument type "object"
def wrong_timeout(ctx: Context[Listing]) -> None: ...


@listing.stage(isolate="thread")  # E: No overload variant of "stage" of "Pipeline" matches argument type "str"
def wrong_isolation(ctx: Context[Listing]) -> None: ...


@listing.stage  # E: Argument 1 to "stage" of "Pipeline" has incompatible type
def too_much(ctx: Context[Listing], more: int) -> None: ...


def plain(number: int) -> str:
    return str(number)


def insert(connection: Connection, url: str) -> None:
    connection.execute(url, 7)  # E: Argument 2 to "execute" of "Connection" has incompatible type "int"


async def insert_later(connection: Connection, url: str) -> None: ...


app = App("sqlite:///x.db", [listing])
App("sqlite:///x.db", listing)  # E: Argument 2 to "App" has incompatible type "Pipeline[Listing]"
App(url="sqlite:///x.db", pipeline=[listing])  # E: Unexpected keyword argument "pipeline" for "App"
app.enqueue("listing")  # E: Argument 1 to "enqueue" of "Enqueueing" has incompatible type "str"; expected "Payload"
app.enqueue(Listing)  # E: Argument 1 to "enqueue" of "Enqueueing" has incompatible type "type[Listing]"
app.enqueue(Listing("u"), "5m")  # E: Too many positional arguments for "enqueue"
app.enqueue(Listing("u"), at="tomorrow")  # E: Argument "at" to "enqueue" of "Enqueueing" has incompatible type "str"
app.tasks.get("7")  # E: Argument 1 to "get" of "Tasks" has incompatible type "str"; expected "int | Task | Enqueued"
count: str = app.tasks.get(7).result(scrape)  # E: Incompatible types in assignment
run_stage(fetch, Company("c"))  # E: Cannot infer value of type parameter "P" of "run_stage"
Filtered()  # E: Missing positional argument "reason"
Retryable(after=object())  # E: Argument "after" to "Retryable" has incompatible type "object"
Cron("0 0 * * *", Listing)  # E: Argument 2 to "Cron" has incompatible type "type[Listing]"; expected "Payload"
Cron("0 0 * * *", Listing("u"), missed="never")  # E: Argument "missed" to "Cron" has incompatible type
Waiting("30s")  # E: Too many positional arguments for "Waiting"
