"""Items of an older system: imported once, each with a lineage of its own, and with what became of them."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from onceward import App, ConfigError, Connection, Context, Payload, Pipeline, Status, StopList, UnknownKind
from onceward.client.importing import STATUSES
from onceward.testing import Harness
from tests.worker.conftest import Start, statuses, words


class Listing(Payload, kind="listing"):
    url: str
    title: str = ""

    def key(self) -> str:
        return self.url


class Note(Payload, kind="note"):
    text: str
    stars: int = 0


def listings(**options: Any) -> Pipeline[Listing]:
    listing = Pipeline(Listing, **options)

    @listing.stage
    def read(ctx: Context[Listing]) -> str:
        return ctx.payload.title

    return listing


def notes() -> Pipeline[Note]:
    note = Pipeline(Note)

    @note.stage
    def read(ctx: Context[Note]) -> int:
        return ctx.payload.stars

    return note


def line(number: int, status: str = "pending", **more: Any) -> str:
    return json.dumps({"id": f"item-{number}", "url": f"http://a/{number}", "status": status, **more})


def by_key(harness: Harness) -> dict[str | None, Any]:
    return {task.key: task for task in harness.app.tasks.list(limit=1_000)}


def test_what_was_open_is_done_here_and_what_has_ended_stays_ended(start: Start) -> None:
    harness = start(listings())
    words_of_theirs = ["PENDING", "processing", "SUCCESS", "failed", "Filtered", "skipped", "canceled"]

    report = harness.app.tasks.import_items((line(n, word) for n, word in enumerate(words_of_theirs)), kind="listing")

    assert report.ok
    assert (report.lines, report.total, report.existing) == (7, 7, 0)
    assert report.created == {
        "pending": 2, "succeeded": 1, "filtered": 1, "skipped": 1, "failed": 1, "cancelled": 1,
    }  # fmt: skip
    harness.drain()
    tasks = sorted(harness.app.tasks.list(), key=lambda task: str(task.key))
    assert [task.status.word for task in tasks] == [
        "succeeded", "succeeded", "succeeded", "failed", "filtered", "skipped", "cancelled",
    ]  # fmt: skip
    assert len({task.lineage for task in tasks}) == 7
    assert {(task.depth, task.parent) for task in tasks} == {(0, None)}
    assert all(task.reason for task in tasks if task.status is not Status.SUCCEEDED)
    assert harness.task(tasks[1].id).history[0].note == "was processing"
    assert words(harness, tasks[3].id) == ["imported"]


def test_where_an_item_came_from_and_the_details_of_its_error_are_kept_in_its_log(start: Start) -> None:
    harness = start(listings())
    more = {
        "error": "503",
        "tracking_id": "0b9c3c9a-6a0e-4a4e-8f6e-0d3a5c1e7f11",
        "depth": 2,
        "ancestry_chain": ["root", "mid"],
        "error_details": {"host": "a", "tries": 3, "password": "hunter2hunter2"},
    }
    harness.app.tasks.import_items([line(1, "failed", **more), line(2, depth=None, error_details={})], kind="listing")
    failed, plain = (harness.task(by_key(harness)[f"http://a/{number}"].id) for number in (1, 2))
    assert failed.reason == "503"
    note = str(failed.history[0].note)
    assert note.startswith(
        'was failed: 503; tracking id 0b9c3c9a-6a0e-4a4e-8f6e-0d3a5c1e7f11; depth 2; ancestry ["root","mid"]; '
        'error details {"host":"a","tries":3,'
    )
    assert "hunter2" not in note
    assert plain.history[0].note == "was pending"


def test_a_second_import_adds_nothing(start: Start) -> None:
    harness = start(listings())
    lines = [line(1), line(2, "success"), line(1, "failed")]

    first = harness.app.tasks.import_items(lines, kind="listing")
    before = {task.id: task.lineage for task in harness.app.tasks.list()}
    harness.drain()
    second = harness.app.tasks.import_items(lines, kind="listing")

    assert (first.total, first.existing) == (2, 1)
    assert (second.total, second.existing, second.ok) == (0, 3, True)
    assert {task.id: task.lineage for task in harness.app.tasks.list()} == before


def test_it_stays_imported_when_its_task_is_long_gone(start: Start) -> None:
    harness = start(listings())
    harness.app.tasks.import_items([line(1, "success")], kind="listing")
    harness.advance("40d")
    assert harness.app.tasks.prune("30d").tasks == 1

    again = harness.app.tasks.import_items([line(1, "success")], kind="listing")

    assert (again.total, again.existing) == (0, 1)
    assert harness.app.tasks.list() == []


def test_without_an_id_an_item_is_known_by_its_key(start: Start) -> None:
    harness = start(listings(), notes())
    lines = [{"url": "http://a/1", "title": "first"}, {"url": "http://a/1", "title": "second"}, {"url": "http://a/2"}]
    texts = [{"text": "a"}, {"text": "a", "stars": 1}, {"text": "a"}]

    assert harness.app.tasks.import_items(lines, kind="listing").total == 2
    assert harness.app.tasks.import_items(texts, kind="note").total == 2
    assert harness.app.tasks.import_items([*lines, {"url": "http://a/3"}], kind="listing").total == 1


def test_ids_are_apart_by_kind_and_by_the_name_of_the_import(start: Start) -> None:
    harness = start(listings(), notes())
    one = {"id": 1, "url": "http://a/1", "text": "a"}

    assert harness.app.tasks.import_items([one], kind="listing").total == 1
    assert harness.app.tasks.import_items([one], kind="note").total == 1
    assert harness.app.tasks.import_items([{**one, "id": "1"}], kind="note").total == 0
    assert harness.app.tasks.import_items([one], kind="note", name="the other system").total == 1


def test_many_imports_of_one_file_at_once_make_each_item_once(start: Start, store_url: str) -> None:
    harness = start(listings())
    lines = [line(number) for number in range(200)]
    totals: list[int] = []

    def run(order: int) -> None:
        with App(store_url, harness.app._registry).on(store_url, clock=harness.clock) as app:
            totals.append(app.tasks.import_items(lines[:: order % 2 * 2 - 1], kind="listing").total)

    threads = [threading.Thread(target=run, args=(order,)) for order in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(totals) == 200
    assert len(totals) == 4
    assert sum(harness.app.stats.counts().values()) == 200


def test_times_are_kept_in_every_form_they_come_in(start: Start) -> None:
    harness = start(listings())
    noon = datetime(2025, 1, 2, 12, tzinfo=UTC)
    forms = ["2025-01-02T12:00:00Z", "2025-01-02T13:00:00+01:00", "2025-01-02 12:00", noon.timestamp(), 1735819200000]
    lines = [line(n, "success", created_at=form, completed_at=form) for n, form in enumerate(forms)]

    assert harness.app.tasks.import_items(lines, kind="listing").problems == ()

    assert {(task.created_at, task.ended_at) for task in harness.app.tasks.list()} == {(noon, noon)}
    assert {task.started_at for task in harness.app.tasks.list()} == {None}


def test_a_time_that_cannot_be_is_put_right(start: Start) -> None:
    harness = start(listings())
    now = datetime.fromtimestamp(harness.clock.now() / 1_000, UTC)
    lines = [
        line(1, "failed", created_at="2025-01-02T12:00Z", ended_at="2024-01-01T00:00Z"),
        line(2, "failed", created_at="2199-01-01T00:00Z", ended_at="2199-01-01T00:00Z"),
        line(3, "failed", created_at="2025-01-02T12:00Z"),
    ]

    harness.app.tasks.import_items(lines, kind="listing")

    tasks = by_key(harness)
    assert tasks["http://a/1"].ended_at == tasks["http://a/1"].created_at
    assert tasks["http://a/2"].created_at == tasks["http://a/2"].ended_at == now
    assert tasks["http://a/3"].ended_at == tasks["http://a/3"].created_at


def test_a_line_that_does_not_parse_is_told_by_its_number_and_the_rest_is_imported(start: Start) -> None:
    harness = start(listings())
    lines: list[Any] = [
        b"\xef\xbb\xbf" + line(1).encode(), "{", "", "[]", '{"url": 7}', line(2, "asleep"), '{"url": "a", "id": [1]}',
        line(3, created_at="yesterday"), line(4, "success", ended_at=-1), b'{"url": "\xff"}', line(5, created_at=True),
        '{"url": "a\\u0000b"}', '{"title": "no url"}', line(6, payload=[1]), line(7),
    ]  # fmt: skip
    told: list[tuple[int, str]] = []

    report = harness.app.tasks.import_items(
        lines, kind="listing", on_problem=lambda one: told.append((one.line, one.reason))
    )

    assert (report.lines, report.total, report.bad, report.ok) == (15, 2, 12, False)
    assert [(one.line, one.reason) for one in report.problems] == told
    assert [number for number, _ in told] == [2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    reasons = dict(told)
    assert "not JSON" in reasons[2]
    assert "not an object" in reasons[4]
    assert "it is no Listing: Expected `str`, got `int` - at `$.url`" in reasons[5]
    assert "'asleep' is not known" in reasons[6]
    assert "id is [1]" in reasons[7]
    assert 'created_at is "yesterday"' in reasons[8]
    assert "missing required field `url`" in reasons[13]
    assert "payload is not an object" in reasons[14]


def test_fields_and_words_of_theirs_can_be_mapped(start: Start) -> None:
    harness = start(listings(), notes())
    lines = [
        {"_key": 1, "type": "listing", "job": {"link": "http://a/1"}, "name": "One", "state": "SHELVED", "why": [1]},
        {"_key": 2, "type": "note", "payload": {"text": "hello", "stars": 4}, "state": "SUCCESS", "a.b": 1},
        {"_key": 3, "type": "poem", "state": "SUCCESS"},
    ]
    fields = {"id": "_key", "kind": "type", "url": "job.link", "title": "name", "status": "state", "reason": "why"}

    report = harness.app.tasks.import_items(
        lines, fields=fields, statuses={"shelved": "cancelled", "success": "pending"}
    )

    assert report.created == {"pending": 1, "cancelled": 1}
    assert [one.reason for one in report.problems] == ["kind is 'poem'; this app knows: listing, note"]
    tasks = {task.kind: task for task in harness.app.tasks.list()}
    assert tasks["listing"].payload == Listing("http://a/1", "One")
    assert (tasks["listing"].reason, tasks["note"].payload) == ("[1]", Note("hello", 4))


def test_what_cannot_be_meant_is_refused_before_anything_is_read(start: Start) -> None:
    harness = start(listings())
    with pytest.raises(UnknownKind):
        harness.app.tasks.import_items([], kind="poem")
    with pytest.raises(ConfigError, match=r"nothing is called link here; there are ancestry, created_at, .*url"):
        harness.app.tasks.import_items([], kind="listing", fields={"link": "url"})
    with pytest.raises(ConfigError, match="'asleep' is no status"):
        harness.app.tasks.import_items([], kind="listing", statuses={"parked": "asleep"})
    with pytest.raises(ConfigError, match="imported as pending, or it has ended"):
        harness.app.tasks.import_items([], kind="listing", statuses={"parked": "running"})
    with pytest.raises(ConfigError, match="needs the pipelines"):
        App("sqlite:///:memory:").tasks.import_items([])


def test_an_imported_failure_can_be_retried(start: Start) -> None:
    harness = start(listings())
    harness.app.tasks.import_items([line(1, "failed", error="timed out", title="One")], kind="listing")
    [task] = harness.app.tasks.list()
    assert task.reason == "timed out"

    harness.app.tasks.retry(task.id)
    harness.drain()

    assert harness.task(task.id).results == {"read": "One"}
    assert words(harness, task.id) == ["imported", "reopened", "finished"]


def test_work_that_is_unique_everywhere_sees_what_was_imported(start: Start) -> None:
    harness = start(listings(unique="everywhere", fresh_for="30d"))
    now = harness.clock.now()
    lines = [
        line(1, "success", created_at=now - 1_000),
        line(2, "success", created_at=now - 40 * 86_400_000),
        line(3),
    ]
    harness.app.tasks.import_items(lines, kind="listing")

    fresh, stale, open_one = harness.app.enqueue_many([Listing(f"http://a/{n}") for n in (1, 2, 3)])

    assert (fresh.created, stale.created, open_one.created) == (False, True, False)


def test_open_work_that_is_unique_everywhere_is_not_doubled_by_an_import(start: Start) -> None:
    harness = start(listings(unique="everywhere"))
    there = harness.enqueue(Listing("http://a/1"))
    lines = [line(1), line(2), line(3, "failed")]
    lines += [json.dumps({"id": "another", "url": "http://a/2"}), json.dumps({"id": "third", "url": "http://a/3"})]

    report = harness.app.tasks.import_items(lines, kind="listing")
    again = harness.app.tasks.import_items(lines, kind="listing")
    harness.drain()

    assert (report.created, report.existing) == ({"pending": 2, "failed": 1}, 2)
    assert (again.total, again.existing) == (0, 5)
    assert harness.app.read(identities_of_nobody) == 0
    assert harness.task(there).status is Status.SUCCEEDED
    assert len(harness.app.tasks.list()) == 4


def identities_of_nobody(connection: Connection) -> int:
    query = "SELECT count(*) FROM onceward_identity WHERE task NOT IN (SELECT id FROM onceward_task)"
    [(count,)] = connection.execute(query).fetchall()
    return int(count)


def test_an_item_that_has_ended_is_kept_beside_open_work_and_takes_nothing_from_it(start: Start) -> None:
    harness = start(listings(unique="everywhere", fresh_for="30d"))
    there = harness.enqueue(Listing("http://a/1"))

    report = harness.app.tasks.import_items([line(1, "success", created_at=harness.clock.now())], kind="listing")

    assert report.created == {"succeeded": 1}
    assert harness.enqueue(Listing("http://a/1")).existing == there.id


def test_an_open_item_on_the_stop_list_is_skipped_with_that_reason(start: Start) -> None:
    harness = start(listings(), stop_list=StopList(domains=["bad.example"]))

    harness.app.tasks.import_items([{"url": "http://bad.example/1"}, {"url": "http://a/1"}], kind="listing")

    tasks = by_key(harness)
    assert tasks["http://a/1"].status is Status.PENDING
    assert tasks["http://bad.example/1"].status is Status.SKIPPED
    assert "stop list" in tasks["http://bad.example/1"].reason


def test_an_open_item_whose_title_is_on_the_stop_list_is_skipped_too(start: Start) -> None:
    harness = start(listings(), stop_list=StopList(keywords=["unpaid"]))
    harness.app.tasks.import_items(
        [{"url": "http://a/1", "title": "Unpaid cook"}, {"url": "http://a/2"}], kind="listing"
    )
    tasks = by_key(harness)
    assert tasks["http://a/1"].status is Status.SKIPPED
    assert tasks["http://a/1"].reason == "the keyword 'unpaid' in its title is on the stop list"
    assert tasks["http://a/2"].status is Status.PENDING


def test_what_is_due_later_waits(start: Start) -> None:
    harness = start(listings())
    later = harness.clock.now() + 3_600_000
    harness.app.tasks.import_items([line(1, due_at=later), line(2, due_at=1)], kind="listing")

    harness.drain(wait_for_due=False)

    ids = [task.id for _, task in sorted(by_key(harness).items(), key=lambda pair: str(pair[0]))]
    assert statuses(harness, ids) == ["pending", "succeeded"]


def test_a_stage_cannot_begin_lineages_by_an_import(start: Start) -> None:
    note = Pipeline(Note)

    @note.stage
    def read(ctx: Context[Note]) -> str:
        with pytest.raises(ConfigError, match="begins lineages of its own"):
            harness.app.tasks.import_items([{"text": "a"}], kind="note")
        return "refused"

    harness = start(note)
    task = harness.enqueue(Note("b"))
    harness.drain()

    assert harness.task(task).results == {"read": "refused"}


def test_large_payloads_are_imported_too(start: Start) -> None:
    harness = start(listings())
    harness.app.tasks.import_items([line(1, title="x" * 10_000)], kind="listing")
    harness.drain()

    [task] = harness.app.tasks.list()
    assert harness.task(task.id).results == {"read": "x" * 10_000}


def test_more_lines_than_fit_into_one_transaction(start: Start) -> None:
    harness = start(listings())
    report = harness.app.tasks.import_items(
        (line(n, "success" if n % 2 else "queued") for n in range(1_201)), kind="listing"
    )

    assert report.created == {"pending": 601, "succeeded": 600}
    [(standing,)] = harness.app.read(lambda conn: conn.execute("SELECT count(*) FROM onceward_ready").fetchall())
    assert standing == 601
    assert harness.app.stats.counts()[Status.PENDING] == 601


def test_the_words_of_the_older_systems_are_all_known() -> None:
    theirs = ["PENDING", "PROCESSING", "SUCCESS", "FILTERED", "SKIPPED", "FAILED", "queued", "running", "succeeded"]
    assert all(word.lower() in STATUSES for word in theirs)
    assert not any(status in (Status.RUNNING, Status.RETRYABLE, Status.WAITING) for status in STATUSES.values())
