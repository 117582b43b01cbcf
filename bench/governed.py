"""What gates cost a claim: a hundred tasks without gates, behind one source, beside and behind very many.

Below the public API, because nothing else should be in the figure: neither what begins and ends a transaction nor the
disk that is waited for then. What a claim has taken is enqueued again, so that the lines stay as they are and all are
measured again and again in turns. (Undoing the claims would be simpler, and wrong: after every rollback the driver
prepares its statements anew.)
"""

import statistics
import time
from typing import Any

from bench.plan import BULK_SIZE, CLAIMED, PAD
from bench.target import from_environment
from onceward import App, Context, Payload, Pipeline, Source
from onceward.model import codec
from onceward.model.task import Lease
from onceward.store.attempts import claims, workers
from onceward.store.drivers.session import Session
from onceward.store.lines.lines import look, refresh_pauses
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Many as Rows
from onceward.store.op import Op

IN_A_ROW = 5
"""How many claims one after the other are measured together, as a busy worker makes them."""


class Plain(Payload, kind="plain"):
    """Without gates."""

    number: int
    pad: str


class One(Payload, kind="one"):
    """Behind one source, which lets everybody pass."""

    number: int
    pad: str


class Closed(Payload, kind="closed"):
    """Behind sources that let nobody pass."""

    number: int
    pad: str

    def key(self) -> str:
        return str(self.number)


class Many(Payload, kind="many"):
    """Each behind a source of its own, which lets it pass."""

    number: int
    pad: str

    def key(self) -> str:
        return str(self.number)


KINDS: dict[str, type[Any]] = {"plain": Plain, "one": One, "closed": Closed, "many": Many}


def make_app(url: str) -> App:
    """Pipelines of which only the lines are used."""
    own: dict[str, Any] = {"per": lambda key: key, "rate": "100000/s"}
    sources = {
        Plain: None,
        One: Source("one", rate="100000/s"),
        Closed: Source("closed", **own),
        Many: Source("many", **own),
    }
    pipelines: list[Pipeline[Any]] = []
    for payload, source in sources.items():
        pipeline: Pipeline[Any] = Pipeline(payload)
        pipeline.stage(source=source)(_nothing)
        pipelines.append(pipeline)
    return App(url, pipelines)


async def _nothing(ctx: Context[Any]) -> None:
    """Never runs."""


def governed(sources: int, rounds: int) -> dict[str, Any]:
    """Milliseconds for a claim of a hundred, by what they stand behind, each measured so often."""
    app = make_app(from_environment().url)
    app.prepare()
    session = app._store.session()
    new = workers.NewWorker("bench", "here", 1, None, "", "", 300_000)
    worker = session.transact(lambda: workers.register(new, app._store.clock.now()))
    _fill(app, Plain, 10 * CLAIMED)
    _fill(app, One, 10 * CLAIMED)
    session.transact(lambda: _make_gates(["one"]))
    found = _measured(app, session, worker, rounds, {"plain": ["plain"], "one": ["one"]})
    _fill(app, Closed, sources)
    _fill(app, Many, sources)
    session.transact(lambda: _make_gates([f"many/{one}" for one in range(sources)]))
    app.workers.pause(source="closed")
    _close(app, session, worker)
    lines = {"beside": ["one", "closed"], "behind": ["many"], "again": ["one"]}
    found |= _measured(app, session, worker, rounds, lines)
    session.close()
    app.close()
    return found


def _fill(app: App, payload: type[Any], count: int) -> None:
    for first in range(0, count, BULK_SIZE):
        app.enqueue_many([payload(number, PAD) for number in range(first, min(count, first + BULK_SIZE))])


def _make_gates(names: list[str]) -> Op[None]:
    """Make gates that would be made by the first claim, which is undone here."""
    yield Rows("insert_gates", [(name,) for name in names])


def _close(app: App, session: Session, worker: int) -> None:
    """Look at every closed door once, after which nobody has to before it opens."""
    memory = _reader(app, ["closed"])
    while True:
        view = session.transact(lambda: look(memory))
        if view.next_turn_at is None:
            return
        session.transact(lambda: _claim(app, memory, worker))


def _reader(app: App, kinds: list[str]) -> LineMemory:
    limits_of = None if kinds == ["plain"] else app._registry.limits_of
    return LineMemory(tuple(f"default:{kind}" for kind in kinds), limits_of, sweeps=app.dialect == "postgres")


def _claim(app: App, memory: LineMemory, worker: int) -> Op[claims.ClaimResult]:
    now = app._store.clock.now()
    yield from refresh_pauses(memory, now)
    return (yield from claims.claim(memory, worker, CLAIMED, now, slots=CLAIMED))


def _measured(app: App, session: Session, worker: int, rounds: int, kinds: dict[str, list[str]]) -> dict[str, float]:
    took: dict[str, list[float]] = {name: [] for name in kinds}
    readers = {name: _reader(app, of) for name, of in kinds.items()}
    for number in range(rounds):
        for name in kinds if number % 2 else reversed(kinds):
            took[name].append(_measure(app, session, worker, readers[name]))
    return {name: statistics.median(values) for name, values in took.items()}


def _measure(app: App, session: Session, worker: int, memory: LineMemory) -> float:
    """How long a claim of a hundred tasks takes, of a few in a row."""
    took = 0.0
    claimed: list[Lease] = []

    def measured() -> Op[None]:
        nonlocal took
        began = time.perf_counter()
        for _ in range(IN_A_ROW):
            claimed.extend((yield from _claim(app, memory, worker)).leases)
        took = (time.perf_counter() - began) * 1_000 / IN_A_ROW

    session.transact(measured)
    assert len(claimed) == IN_A_ROW * CLAIMED
    app.enqueue_many([codec.decoder(KINDS[lease.kind])(lease.payload) for lease in claimed])
    return took
