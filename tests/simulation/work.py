"""What the simulated workers work on: small pipelines that do everything that the engine offers.

What a stage does, how long it takes and whether it fails, the world decides. The rows it writes have no key of their
own, so that one written twice is there twice.
"""

from __future__ import annotations

import asyncio
from typing import Any

from onceward import App, Breaker, Budget, Config, Context, Cron, Filtered, Payload, Pipeline, Retry, Source, Waiting
from tests.simulation import stand_ins
from tests.simulation.database import TABLES, Crashed

LEASE_MS = 30_000
LIMIT_USD = 6
ALLOWANCE_USD = 2
"""Each hour."""
CONCURRENCY = 2
BURST, INTERVAL_MS = 3, 2_000
DEADLY = -1
"""What the world says of a stage that takes its process along."""
RETRY = Retry(retries=8, base="1s", cap="10s")

api = Source("api", rate="30/min", burst=BURST, concurrency=CONCURRENCY, breaker=Breaker(failures=3, pause="20s"))
book = Source("book", concurrency=2, cache="10m", retries=1, timeout="20s")
usd = Budget("usd", LIMIT_USD)
allowance = Budget("allowance", ALLOWANCE_USD, per="hour")


def note(connection: Any, task: int, run: int, stage: str, part: str, fence: int) -> None:
    """A row of the application's own."""
    stand_ins.here.fate_of_write()
    connection.execute("INSERT INTO effect VALUES (?, ?, ?, ?, ?)", (task, run, stage, part, fence))


def write(ctx: Context[Any], part: str = "") -> None:
    """Have such a row written with the stage, in some worlds always, in others never: then commits go in groups."""
    lease = ctx._lease
    if stand_ins.here.chance.random() < stand_ins.here.plan.writes:
        ctx.write(note, lease.task, lease.run, ctx._stage.name, part, lease.fence)


async def live(ctx: Context[Any]) -> None:
    """Take a while, or fail, or take the whole process along."""
    stand_ins.here.began(ctx)
    await happen()


async def happen() -> None:
    """What may happen to a stage on an event loop."""
    world = stand_ins.here
    pause_ms = world.fate_of_stage()
    if pause_ms is DEADLY:
        world.acting.die()
        await asyncio.Future()
    if pause_ms:
        await asyncio.sleep(pause_ms / 1_000)


def happen_in_thread() -> None:
    """What may happen to a stage in a thread."""
    if stand_ins.here.fate_of_stage() is DEADLY:
        raise Crashed


class Errand(Payload, kind="errand"):
    number: int


errand = Pipeline(Errand, retry=RETRY, unique="no")


@errand.stage
async def fetch(ctx: Context[Errand]) -> int:
    await live(ctx)
    write(ctx)
    return ctx.payload.number


@errand.stage
def count(ctx: Context[Errand]) -> int:
    stand_ins.here.began(ctx)
    happen_in_thread()
    done = ctx.cursor_as(int) or 0
    for part in range(done, ctx.payload.number % 3):
        write(ctx, f"part {part}")
        ctx.checkpoint(part + 1)
        happen_in_thread()
    write(ctx)
    return ctx.result(fetch)


@errand.stage
async def deliver(ctx: Context[Errand]) -> None:
    await live(ctx)
    paid = await ctx.aonce("paid", lambda: _answer(ctx.payload.number), type=int)
    write(ctx)
    if paid != ctx.result(count):
        stand_ins.here.broken("lost", f"task {ctx.task.id} has read something else than was stored")
    if ctx.payload.number % 7 == 6:
        raise Filtered("the seventh is not wanted")


async def _answer(value: int) -> int:
    return value


class Shared(Payload, kind="shared"):
    number: int


shared = Pipeline(Shared, retry=RETRY, unique="everywhere")


@shared.stage
async def share(ctx: Context[Shared]) -> int:
    await live(ctx)
    write(ctx)
    ctx.alias(Shared(ctx.payload.number ^ 2).key())  # who comes first has both
    return ctx.payload.number


@shared.stage
async def use(ctx: Context[Shared]) -> None:
    await live(ctx)
    write(ctx)


class Family(Payload, kind="family"):
    number: int
    width: int
    depth: int


family = Pipeline(Family, retry=RETRY)


@family.stage
async def ask(ctx: Context[Family]) -> None:
    await live(ctx)
    number, width, depth = ctx.payload.number, ctx.payload.width, ctx.payload.depth
    for child in range(width):
        ctx.spawn(Errand(number + child))
    ctx.spawn(Shared(number % 2))
    ctx.spawn(Shared(number % 2))
    ctx.spawn(Shared(number % 2 ^ 2))  # the same by another key, where that is known
    if depth:
        ctx.spawn(Family(number + 1, 1, depth - 1))
        ctx.spawn(Family(number, width, depth))  # itself, which is refused
    write(ctx)


@family.stage(join=True)
async def gather(ctx: Context[Family]) -> None:
    await live(ctx)
    write(ctx)


class Purchase(Payload, kind="purchase"):
    number: int


purchase = Pipeline(Purchase, retry=RETRY, unique="no")


@purchase.stage
async def choose(ctx: Context[Purchase]) -> None:
    await live(ctx)
    write(ctx)


@purchase.stage(source=api, budget=usd, estimate=1)
async def pay(ctx: Context[Purchase]) -> str:
    world = stand_ins.here
    world.began(ctx)
    cost = world.chance.choice((0.25, 0.5, 1.0))
    world.checks.bill(cost)
    ctx.charge(usd, cost)
    await happen()
    write(ctx)
    return ctx.idempotency_key


@purchase.stage(holds=usd)
async def ship(ctx: Context[Purchase]) -> None:
    """Hold money for a parcel, let it travel for a while, and settle what it has cost: each attempt sends one."""
    world = stand_ins.here
    world.began(ctx)
    sent = ctx.cursor
    if sent is None:
        sent = f"parcel {ctx._lease.fence}"
        await ctx.ahold(usd, 0.5, name=sent)
        world.checks.bill(0.5)
        await happen()
        await ctx.acheckpoint(sent)
        if ctx.payload.number % 2:
            raise Waiting(after="5s")
    ctx.settle(usd, 0.5, name=sent)
    write(ctx)


class Question(Payload, kind="question"):
    number: int


question = Pipeline(Question, retry=RETRY, unique="no")


@question.stage(source=book)
async def look_up(ctx: Context[Question]) -> int:
    stand_ins.here.began(ctx)
    found = await ctx.acached(book, ctx.payload.number % 2, lambda: _looked_up(ctx.payload.number), type=int)
    write(ctx)
    return found


async def _looked_up(number: int) -> int:
    await happen()
    return number % 2


class Patience(Payload, kind="patience"):
    number: int


patience = Pipeline(Patience, retry=RETRY, unique="no")


@patience.stage
async def wait(ctx: Context[Patience]) -> None:
    stand_ins.here.began(ctx)
    if ctx.signal("go") is None:
        write(ctx, f"wait {ctx.task.deferrals} {ctx._lease.fence}")
        if ctx.payload.number % 2 and ctx.task.deferrals < 2:
            raise Waiting(after="5s")
        raise Waiting(until="go")
    write(ctx)


class Treat(Payload, kind="treat"):
    number: int


treat = Pipeline(Treat, retry=RETRY, unique="no")


@treat.stage(budget=allowance, estimate=1)
async def enjoy(ctx: Context[Treat]) -> None:
    world = stand_ins.here
    world.began(ctx)
    cost = world.chance.choice((0.25, 0.5, 1.0))
    world.checks.bill_by_the_hour(cost)
    ctx.charge(allowance, cost)
    await happen()
    write(ctx)


class Brief(Payload, kind="brief"):
    number: int


brief = Pipeline(Brief, retry=RETRY, unique="everywhere", fresh_for="30s", deadline="90s")


@brief.stage
async def begin(ctx: Context[Brief]) -> None:
    await live(ctx)
    write(ctx)


@brief.stage
async def linger(ctx: Context[Brief]) -> None:
    """For a signal or a while, whichever comes first; in the end perhaps for longer than there is time."""
    await live(ctx)
    write(ctx, f"linger {ctx.task.deferrals} {ctx._lease.fence}")
    if ctx.signal("go") is None and ctx.task.deferrals <= ctx.payload.number:
        raise Waiting(until="go", after="20s")


@brief.at_expiry
async def give_up(ctx: Context[Brief]) -> None:
    await live(ctx)
    write(ctx)


class Gathering(Payload, kind="gathering"):
    number: int


gathering = Pipeline(Gathering, retry=RETRY, unique="no")


@gathering.stage
async def open_batch(ctx: Context[Gathering]) -> None:
    await live(ctx)
    with stand_ins.here.acting.app.batch(f"of {ctx.task.id}", then=Closing(f"of {ctx.task.id}")) as batch:
        for number in range(1 + ctx.payload.number % 3):
            batch.add(Errand(number))
    write(ctx)


class Closing(Payload, kind="closing"):
    name: str


closing = Pipeline(Closing, retry=RETRY)


@closing.stage
async def close(ctx: Context[Closing]) -> None:
    await live(ctx)
    write(ctx)


class Tick(Payload, kind="tick"):
    name: str


tick = Pipeline(Tick, retry=RETRY, unique="no")


@tick.stage
async def strike(ctx: Context[Tick]) -> None:
    await live(ctx)
    write(ctx)


KINDS = (errand, shared, family, purchase, question, treat, patience, brief, gathering, closing, tick)
STAGES = {pipeline.kind: [stage.name for stage in pipeline.stages] for pipeline in KINDS}
SCHEDULES = (
    Cron("* * * * *", Tick("each"), missed="all", name="each"),
    Cron("*/2 * * * *", Tick("last"), missed="once", name="last"),
)
CONFIG = Config(
    lease=f"{LEASE_MS}ms", heartbeat="10s", check="8s", poll="6s", grace="5s", concurrency=3, threads=2, max_tasks=30,
    stage_timeout="2m", call_timeout="20s", call_retries=1, task_limit="12h", deadline="48h",
)  # fmt: skip


def _app(*kinds: Pipeline[Any]) -> App:
    schedules = SCHEDULES if tick in kinds else ()
    return App("sqlite:///:memory:", kinds, migrations=[TABLES], config=CONFIG, schedules=schedules)


APPS = (
    _app(errand),
    _app(errand, family, shared),
    _app(purchase),
    _app(purchase, question),
    _app(errand, gathering, closing),
    _app(errand, patience, tick),
    _app(brief, family, errand, shared, treat),
    _app(*KINDS),
)
"""What the processes of a world may have been written for: all of one world for the same."""
