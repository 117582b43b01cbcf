"""Many payloads in one call: what is alike goes in as columns, and nobody can tell afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import msgspec
import pytest

from onceward import App, Context, Payload, PayloadError, Pipeline
from onceward.model.task import LARGEST_INLINE
from onceward.store.lines.enqueue import MOST_IN_ONE_STATEMENT

SEEN: list[str] = []


class Line(Payload, kind="line"):
    text: str


class Named(Payload, kind="named"):
    name: str
    text: str = ""

    def key(self) -> str:
        return self.name


line, named = Pipeline(Line), Pipeline(Named)


@line.stage
def read(ctx: Context[Line]) -> None:
    """Say that it was its turn."""
    SEEN.append(ctx.payload.text[:20])


@named.stage
def look(ctx: Context[Named]) -> None:
    """Say that it was its turn."""
    SEEN.append(ctx.payload.name)


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    SEEN.clear()
    with App(request.getfixturevalue(f"migrated_{request.param}_url"), [line, named]) as app:
        app.prepare()
        yield app


def test_short_and_long_payloads_come_back_as_they_were_and_in_order(app: App) -> None:
    texts = [f"{place:03} " + "ä€𝄞\x00" * (LARGEST_INLINE if place % 3 == 1 else 2) for place in range(7)]
    made = app.enqueue_many([Line(text) for text in texts])
    assert [app.tasks.get(one.id).payload for one in made] == [Line(text) for text in texts]
    assert [one.id for one in made] == sorted(one.id for one in made)
    app.run(until_idle=True, concurrency=1)  # several threads would note them in any order
    assert [text[:20] for text in texts] == SEEN
    assert app.verify().ok


def test_keys_of_their_own_are_kept_whatever_is_in_them(app: App) -> None:
    keys = ["plain", 'quo"ted', "back\\slash", "[1]", '{"a":1}', "", "ä€𝄞", "null"]
    made = app.enqueue_many([Named(key) for key in keys])
    assert [app.tasks.get(one.id).key for one in made] == keys
    for key, one in zip(keys, made, strict=True):
        assert [task.id for task in app.tasks.find(Named(key)).tasks] == [one.id]
        if key:
            assert [task.id for task in app.tasks.list(kind="named", key=key)] == [one.id]


def test_work_that_is_known_by_its_fields_is_found_by_them(app: App) -> None:
    made = app.enqueue_many([Line("one"), Line("two"), Line("one")])
    same = [made[2].id, made[0].id]
    assert [task.id for task in app.tasks.find(Line("one")).tasks] == same
    assert [task.id for task in app.tasks.list(kind="line", key='{"text":"one"}')] == same
    lineage = app.tasks.get(made[0].id).lineage
    assert [task.id for task in app.tasks.find(Line("one"), lineage).tasks] == [made[0].id]
    assert [task.id for task in app.tasks.list(kind="line", key='{"text":"one"}', lineage=lineage)] == [made[0].id]


def test_more_than_one_statement_takes_is_one_call_all_the_same(app: App) -> None:
    count = 2 * MOST_IN_ONE_STATEMENT + 1
    made = app.enqueue_many(Line(str(place)) for place in range(count))
    assert len({one.id for one in made}) == count
    assert {app.tasks.get(made[place].id).payload for place in (0, 999, 1_000, 2_000)} == {
        Line(str(place)) for place in (0, 999, 1_000, 2_000)
    }
    lineages = [app.tasks.get(made[place].id).lineage for place in (0, 1_000, 2_000)]
    assert len({uuid.UUID(str(one)) for one in lineages}) == 3


def test_numbers_are_given_in_the_order_of_the_payloads(app: App) -> None:
    count = 2 * MOST_IN_ONE_STATEMENT + 1
    for payloads in ([Line(str(place)) for place in range(count)], [Named(str(place)) for place in range(count)]):
        made = [one.id for one in app.enqueue_many(payloads)]
        assert made == sorted(set(made))
        rows = app.read(
            lambda connection: connection.execute("SELECT id, payload FROM onceward_task ORDER BY id").fetchall()
        )
        stored = {number: bytes(payload) for number, payload in rows}
        assert [stored[number] for number in made] == [msgspec.json.encode(payload) for payload in payloads]


def test_a_key_may_stand_twice_in_one_call(app: App) -> None:
    payloads = [Named("same", "a"), Named("other", "b"), Named("same", "c")]
    made = app.enqueue_many(payloads)
    assert [app.tasks.get(one.id).payload for one in made] == payloads
    assert [app.tasks.get(one.id).key for one in made] == ["same", "other", "same"]
    assert [task.id for task in app.tasks.find(Named("same")).tasks] == [made[2].id, made[0].id]


def test_long_payloads_with_keys_come_back_as_they_were(app: App) -> None:
    payloads = [Named(f"key {place}", "x" * (LARGEST_INLINE if place % 2 else 1)) for place in range(6)]
    made = app.enqueue_many(payloads)
    assert [app.tasks.get(one.id).payload for one in made] == payloads
    assert app.verify().ok


def test_kinds_may_be_mixed_and_each_result_stands_at_its_place(app: App) -> None:
    payloads: list[Payload] = [Line("a"), Named("b"), Line("c"), Named("d")]
    made = app.enqueue_many(payloads, priority=1)
    assert [app.tasks.get(one.id).payload for one in made] == payloads


def test_what_is_for_later_waits(app: App) -> None:
    made = app.enqueue_many([Line("a"), Line("b")], after="1h")
    assert [app.tasks.get(one.id).payload for one in made] == [Line("a"), Line("b")]
    count = app.read(lambda connection: connection.execute("SELECT count(*) FROM onceward_due").fetchone()[0])
    assert (count, app.read(lambda connection: connection.execute("SELECT 1 FROM onceward_ready").fetchone())) == (
        2,
        None,
    )
    assert app.verify().ok


def test_one_payload_that_does_not_fit_keeps_out_all_of_them(app: App) -> None:
    with pytest.raises(PayloadError, match="does not fit its own types"):
        app.enqueue_many([Line("a"), Line(7)])  # type: ignore[arg-type]
    assert sum(app.stats.counts().values()) == 0
