"""Hostile values get the same verdict on both databases: refused before anything is written, or they come back."""

from __future__ import annotations

import random
from contextlib import nullcontext
from string import ascii_letters
from types import FunctionType
from typing import Any

import pytest

from onceward import App, ConfigError, Context, Payload, PayloadError, Pipeline, Retry, Status, Waiting
from onceward.model.codec import LARGEST_VALUE, LONGEST_NAME
from tests.proof.tally import Tally


class Parcel(Payload, kind="parcel"):
    """Anything that somebody may send."""

    value: Any
    number: int = 0

    def key(self) -> str:
        return str(self.number)


def made(value: Any) -> Any:
    """A value of the table: those that are large are made where they are needed."""
    return value() if isinstance(value, FunctionType) else value


def nested(levels: int, leaf: Any = 1) -> Any:
    for _ in range(levels):
        leaf = [leaf]
    return leaf


AROUND = len('{"value":"","number":10}')
TAKEN: dict[str, Any] = {
    "nothing": "",
    "null": None,
    "NUL": "a\x00b",
    "a key with NUL": {"\x00": 1},
    "controls": "\x01\x1b[31m\x7f\u2028\u202e",
    "emoji": "\U0001f600 \U0001f1e9\U0001f1ea",
    "10^18": 10**18,
    "the largest of 64 bits": 2**64 - 1,
    "10^308": 1e308,
    "minus nothing": -0.0,
    "quotes": "'; DROP TABLE onceward_task; --",
    "percent signs": "%s %(x)s {} ${x} :x ?1",
    "depth 100": nested(100),
    "100,000 keys": {str(number): number for number in range(100_000)},
    "1 MB": "x" * 1_000_000,
    "as much as there may be": "x" * (LARGEST_VALUE - AROUND),
    "10^20": 10**20,
    "-10^40": -(10**40),
    "numbers as names": {1: "a", 2: "b"},
}
"""What is stored; as it comes back where that is something else, see `COMES_BACK`."""
COMES_BACK = {"numbers as names": {"1": "a", "2": "b"}}
REFUSED: dict[str, tuple[Any, str]] = {
    "a byte too much": ("x" * (LARGEST_VALUE - 1), "bytes, the limit is"),
    "100 MB": (lambda: "x" * 100_000_000, "bytes, the limit is"),
    "depth 10^4": (nested(10_000), "cannot be stored"),
    "depth 10^5": (nested(100_000), "cannot be stored"),
    "a lone surrogate": ("a\ud800", "lone surrogate"),
    "a key with a lone surrogate": ({"\udfff": 1}, "lone surrogate"),
    "NaN": (float("nan"), "NaN or an infinity"),
    "an infinity": ([1.0, -float("inf")], "NaN or an infinity"),
    "NaN as a key": ({float("nan"): 1}, "NaN or an infinity"),
    "a name twice": ([{1: "a", "1": "b"}], "two keys of a dict are the same"),
    "an object": (object(), "cannot be stored"),
    "code": (lambda: print, "cannot be stored"),
}


@pytest.fixture(scope="module")
def pipelines() -> list[Pipeline[Any]]:
    """One whose results are its payloads, whatever they are; and one whose results cannot be stored."""
    parcel = Pipeline(Parcel, retry=Retry(retries=0))

    @parcel.stage
    def carry(ctx: Context[Parcel]) -> Any:
        if ctx.payload.value == "bring me":
            return made(list(REFUSED.values())[ctx.payload.number][0])
        return ctx.payload.value

    @parcel.stage
    def deliver(ctx: Context[Parcel]) -> Any:
        return ctx.result(carry)

    return [parcel]


def test_what_is_taken_comes_back_equal(store_url: str, pipelines: list[Pipeline[Any]]) -> None:
    with App(store_url, pipelines) as app:
        tasks = {what: app.enqueue(Parcel(value, number)).id for number, (what, value) in enumerate(TAKEN.items())}
        app.run(until_idle=True)
        for what, task in tasks.items():
            done = app.tasks.get(task)
            wanted = COMES_BACK.get(what, TAKEN[what])
            assert done.status is Status.SUCCEEDED, (what, str(done.reason)[:500])
            assert (done.result("carry"), done.result("deliver")) == (wanted, wanted), what
        assert app.verify().ok
    kept(store_url, len(tasks), accepted=len(tasks))


def test_what_is_refused_leaves_nothing_behind(store_url: str, pipelines: list[Pipeline[Any]]) -> None:
    with App(store_url, pipelines) as app:
        for number, (what, (value, words)) in enumerate(REFUSED.items()):
            hostile = Parcel(made(value), number)
            with pytest.raises(PayloadError, match=words):
                app.enqueue(hostile)
            with pytest.raises(PayloadError, match=words):
                app.enqueue_many([Parcel("fine", -1 - number), hostile])
            assert app.tasks.list() == [], what
    kept(store_url, 2 * len(REFUSED))


def test_a_result_that_is_refused_fails_its_task_alone(store_url: str, pipelines: list[Pipeline[Any]]) -> None:
    with App(store_url, pipelines) as app:
        tasks = [app.enqueue(Parcel("bring me", number)).id for number in range(len(REFUSED))]
        honest = app.enqueue(Parcel("honest", 1_000)).id
        app.run(until_idle=True)
        for task, (what, (_, words)) in zip(tasks, REFUSED.items(), strict=True):
            done = app.tasks.get(task)
            assert (done.status, words in str(done.reason), done.results) == (Status.FAILED, True, {}), (
                what,
                done.reason,
            )
        assert app.tasks.get(honest).status is Status.SUCCEEDED
        assert app.verify().ok
    kept(store_url, len(tasks))


class Named(Payload, kind="named"):
    """A stage that gives a name to something."""

    what: str
    length: int


def named(length: int) -> str:
    """A name that cannot be made shorter by packing it."""
    return "".join(random.Random(length).choices(ascii_letters, k=length))


@pytest.mark.parametrize(("length", "is_taken"), [(LONGEST_NAME, True), (LONGEST_NAME + 1, False), (100_000, False)])
def test_a_name_is_taken_by_both_databases_or_by_none(store_url: str, length: int, is_taken: bool) -> None:
    pipeline = Pipeline(Named, retry=Retry(retries=0))

    @pipeline.stage
    def give(ctx: Context[Named]) -> None:
        name = named(ctx.payload.length)
        match ctx.payload.what:
            case "a part":
                ctx.once(name, lambda: 1)
            case "a signal":
                raise Waiting(until=name)
            case "another key":
                ctx.alias(name)

    name, refused = named(length), nullcontext() if is_taken else pytest.raises(ConfigError, match="bytes")
    with App(store_url, [pipeline]) as app:
        tasks = {what: app.enqueue(Named(what, length)).id for what in ("a part", "a signal", "another key")}
        app.run(until_idle=True)
        done = {what: app.tasks.get(task).status for what, task in tasks.items()}
        ended, waiting = (Status.SUCCEEDED, Status.WAITING) if is_taken else (Status.FAILED, Status.FAILED)
        assert done == {"a part": ended, "a signal": waiting, "another key": Status.SUCCEEDED}
        with refused:
            app.tasks.signal(tasks["a signal"], name, 1)
        with refused, app.batch(name) as batch:
            batch.add(Named("nothing", length))


LINES = (
    (b'{"kind": "parcel", "payload": {"number": 1, "value": 1, "value": 2}}', None),
    (b'{"kind": "parcel", "payload": {"number": 2, "value": NaN}}', "it is not JSON"),
    (b'{"kind": "parcel", "payload": {"number": 3, "value": 100000000000000000000}}', None),
    (b'{"kind": "parcel", "payload": {"number": 4, "value": "\\ud800"}}', "it is not JSON"),
    (b'{"kind": "parcel", "payload": {"value": ' + b"[" * 20_000 + b"]" * 20_000 + b"}}", "it is not JSON"),
    (b'{"kind": "parcel", "payl', "it is not JSON"),
    (b'{"kind": "parcel", "payload": {"number": 5, "value": "\xff"}}', "it is not JSON"),
)
"""What only somebody can say who writes the bytes himself; and what an import says of it, if it does not take it."""


def test_hostile_lines_of_an_import_get_the_same_verdict(store_url: str, pipelines: list[Pipeline[Any]]) -> None:
    with App(store_url, pipelines) as app:
        done = app.tasks.import_items([line for line, _ in LINES])
        said = {one.line: one.reason.partition(":")[0] for one in done.problems}
        assert said == {number: words for number, (_, words) in enumerate(LINES, 1) if words is not None}
        app.run(until_idle=True)
        results = {
            task.id: app.tasks.get(task.id).results["deliver"] for task in app.tasks.list(status=Status.SUCCEEDED)
        }
        assert list(results.values()) == [10**20, 2], "of two values of one name the last counts"
    kept(store_url, len(LINES), accepted=len(results))


def kept(url: str, faults: int, *, accepted: int = 0) -> None:
    """Note for the table of the proof how much was sent, and how much of it was taken and done."""
    store = url.partition(":")[0].replace("postgresql", "postgres")
    Tally(
        matrix="F59", fault="hostile payloads", store=store, faults=faults, accepted=accepted, commits=2 * accepted
    ).keep()
