"""Settings while workers run: what a change does, who made it and when, and what is refused before it is written."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onceward import (
    App,
    Breaker,
    Config,
    ConfigError,
    Context,
    Limits,
    Payload,
    Pipeline,
    Retry,
    Setting,
    SettingValue,
    Source,
    SourceState,
    Status,
)
from onceward.settings.effective import LOOK_EVERY_MS
from onceward.store.op import Query
from onceward.testing import Harness
from onceward.worker.presence import Presence, running
from tests.worker.conftest import Start

PAGE = Setting("page_size", 50, int, "Rows read at once.")
WAIT = Setting("wait", "90s", "duration", "How long to wait.")
WEIGHTS = Setting("weights", {"a": 1}, "json", "What counts how much.")


class Ask(Payload, kind="ask"):
    """Tells what a setting is."""

    name: str = "page_size"
    again: int = 0


asking = Pipeline(Ask)


@asking.stage
def answer(ctx: Context[Ask]) -> Any:
    found = ctx.setting(ctx.payload.name)
    return str(found) if isinstance(found, timedelta) else found


class Root(Payload, kind="root"):
    """Spawns as many as it is told to."""

    children: int


rooting = Pipeline(Root)


@rooting.stage
def spread(ctx: Context[Root]) -> int:
    return sum(bool(ctx.spawn(Ask(again=number))) for number in range(ctx.payload.children))


@pytest.fixture
def asked(start: Start) -> Harness:
    """An app with settings of its own."""
    return start(asking, rooting, settings=[PAGE, WAIT, WEIGHTS])


def told(harness: Harness, name: str, again: int = 0) -> Any:
    """What a stage is told."""
    task = harness.enqueue(Ask(name, again))
    harness.drain()
    return harness.task(task).results["answer"]


def one(app: App, name: str) -> SettingValue:
    [found] = [setting for setting in app.settings.list() if setting.name == name]
    return found


def test_a_stage_reads_the_default_and_then_what_was_set(asked: Harness) -> None:
    assert told(asked, "page_size") == 50
    asked.app.settings.set("page_size", 60, author="ann")
    assert (told(asked, "page_size", 1), asked.app.settings.get("page_size")) == (60, 60)
    assert asked.app.settings.unset("page_size")
    assert (told(asked, "page_size", 2), asked.app.settings.get("page_size")) == (50, 50)
    assert not asked.app.settings.unset("page_size")


def test_every_type_is_read_as_what_it_is(asked: Harness) -> None:
    assert asked.app.settings.get("wait") == timedelta(seconds=90)
    asked.app.settings.set("wait", timedelta(hours=2))
    asked.app.settings.set("weights", {"a": 2, "b": None})
    assert (asked.app.settings.get("wait"), asked.app.settings.get("weights")) == (
        timedelta(hours=2),
        {"a": 2, "b": None},
    )
    asked.app.settings.get("weights")["a"] = 3
    assert asked.app.settings.get("weights")["a"] == 2
    assert told(asked, "wait") == "2:00:00"


def test_a_stage_may_ask_for_numbers_of_the_engine(asked: Harness) -> None:
    assert told(asked, "max_tasks") == 10_000
    assert told(asked, "lease") == "0:05:00"


def test_a_setting_says_where_it_was_said_by_whom_and_when(asked: Harness) -> None:
    before = one(asked.app, "page_size")
    assert (before.where, before.changed_at, before.changed_by) == ("code", None, None)
    asked.advance("1h")
    asked.app.settings.set("page_size", 60, author="ann")
    first = one(asked.app, "page_size")
    assert (first.value, first.default, first.type, first.about) == (60, 50, "int", "Rows read at once.")
    assert (first.where, first.changed_by) == ("live", "ann")
    asked.advance("1h")
    asked.app.settings.set("page_size", 70, author="bob")
    second = one(asked.app, "page_size")
    assert (second.value, second.changed_by) == (70, "bob")
    assert first.changed_at is not None
    assert second.changed_at is not None
    assert second.changed_at - first.changed_at == timedelta(hours=1)


def test_without_an_author_it_is_the_user_of_the_process(asked: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "carol")
    asked.app.settings.set("page_size", 60)
    assert one(asked.app, "page_size").changed_by == "carol"
    for author in ("", " ", "a\x00b", "x" * 201):
        with pytest.raises(ConfigError, match="it is who does this"):
            asked.app.settings.set("page_size", 60, author=author)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("page_size", "60", "page_size='60': it is a whole number"),
        ("page_size", None, "page_size=None: it is a whole number"),
        ("wait", "soon", "wait='soon': it is a duration"),
        ("concurrency", 0, "concurrency=0: it is a whole number from 1"),
        ("concurrency", 2.5, "concurrency=2.5: it is a whole number"),
        ("max_depth", -1, "max_depth"),
        ("profile", "bold", "the profiles are conservative, balanced, aggressive"),
        ("call_retries", 40, r"\(40 retries \+ 1\) x 1m = 41m, its stage has 30m"),
        ("lease", "60s", "lease cannot be changed live: a worker keeps the one it began with"),
        ("threads", 3, "threads cannot be changed live: a worker starts its threads once"),
        ("page_sise", 60, "there is no setting 'page_sise'; did you mean page_size?"),
    ],
)
def test_a_bad_value_is_refused_before_it_is_written(asked: Harness, name: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        asked.app.settings.set(name, value)
    assert [found for found in asked.app.settings.list() if found.where == "live"] == []


def test_an_unknown_name_cannot_be_asked_for_or_unset(asked: Harness) -> None:
    for ask in (asked.app.settings.get, asked.app.settings.unset):
        with pytest.raises(ConfigError, match="there is no setting 'page_sise'"):
            ask("page_sise")


def test_live_is_above_the_environment_which_is_above_the_file(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "onceward.toml").write_text("poll = 5\nconcurrency = 7\ngrace = 3\n[settings]\npage_size = 60\n")
    monkeypatch.setenv("ONCEWARD_CONCURRENCY", "8")
    monkeypatch.setenv("ONCEWARD_GRACE", "4s")
    with App(store_url, [asking], config=Config(poll="9s", keep="1d"), settings=[PAGE]) as app:
        app.settings.set("grace", "5s")
        found = {
            name: (one(app, name).value, one(app, name).where) for name in ("keep", "poll", "concurrency", "grace")
        }
        assert found == {
            "keep": (timedelta(days=1), "code"),
            "poll": (timedelta(seconds=5), "file"),
            "concurrency": (8, "environment"),
            "grace": (timedelta(seconds=5), "live"),
        }
        assert (one(app, "page_size").value, one(app, "page_size").where) == (60, "file")
        assert (app.config.grace_ms, app.config.concurrency) == (5_000, 8)


def test_a_live_profile_is_above_what_others_say_and_below_what_is_said_live(asked: Harness) -> None:
    app = asked.app
    app.settings.set("profile", "aggressive")
    app.settings.set("chain", 3)
    assert (app.config.task_limit_ms, app.config.chain, app.config.call_retries) == (14_400_000, 3, 10)
    assert one(app, "task_limit").where == "live"
    app.settings.unset("profile")
    assert (app.config.task_limit_ms, app.config.chain, app.config.call_retries) == (7_200_000, 3, 6)


def test_limits_of_lineages_change_while_workers_run(asked: Harness) -> None:
    asked.app.settings.set("max_children", 3)
    root = asked.enqueue(Root(5))
    asked.drain()
    assert asked.task(root).results["spread"] == 3
    assert asked.app.lineages.get(root.id).max_children == 3


def test_limits_given_to_a_root_are_completed_by_the_live_ones(asked: Harness, store_url: str) -> None:
    asked.app.settings.set("max_children", 3)
    with App(store_url, [asking, rooting]) as fresh:
        root = fresh.enqueue(Root(5), limits=Limits(max_tasks=100))
        assert fresh.lineages.get(root.id).max_children == 3


def test_another_process_sees_a_change_within_a_second(asked: Harness, store_url: str) -> None:
    with App(store_url, [asking], settings=[PAGE]).on(store_url, clock=asked.clock) as other:
        assert other.settings.get("page_size") == 50
        asked.app.settings.set("page_size", 60)
        asked.advance(LOOK_EVERY_MS / 1_000)
        assert other.settings.get("page_size") == 60
        asked.app.settings.set("concurrency", 7)
        asked.advance(LOOK_EVERY_MS / 1_000)
        other.stats.counts()  # whoever asks the database for anything learns of it
        assert other.config.concurrency == 7


def test_what_other_apps_declare_is_shown_and_may_be_taken_back(asked: Harness, store_url: str) -> None:
    asked.app.settings.set("page_size", 60, author="ann")
    with App(store_url) as stranger:
        found = one(stranger, "page_size")
        assert (found.value, found.type, found.changed_by) == ("60", "unknown", "ann")
        with pytest.raises(ConfigError, match="there is no setting 'page_size'"):
            stranger.settings.set("page_size", 70)
        assert stranger.settings.unset("page_size")


def test_live_values_that_no_longer_go_with_the_rest_are_left_out(asked: Harness, store_url: str) -> None:
    asked.app.settings.set("task_limit", "40m")
    asked.app.settings.set("concurrency", 7)
    asked.app._transact(lambda: _write_past_the_checks("page_size", "many"))
    code = Config(stage_timeout="1h")
    with App(store_url, [asking], config=code, settings=[PAGE]) as app:
        assert (app.settings.get("page_size"), app.settings.get("concurrency")) == (50, 7)
        assert app.config.task_limit_ms == 7_200_000  # 40m is less than a stage may take here


def _write_past_the_checks(name: str, value: str) -> Any:
    yield Query("set_setting", {"name": name, "value": value, "at": 1, "author": "nobody"})


def test_of_two_who_contradict_each_other_at_the_same_time_one_is_refused(asked: Harness, store_url: str) -> None:
    wanted = [("task_limit", "40m"), ("stage_timeout", "50m")]  # each is fine alone
    barrier = threading.Barrier(2)
    outcomes: list[str] = []

    def change(name: str, value: str) -> None:
        with App(store_url, [asking]) as app:
            app.prepare()
            barrier.wait()
            try:
                app.settings.set(name, value)
            except ConfigError as error:
                outcomes.append(str(error))
            else:
                outcomes.append("done")

    for _ in range(5):
        outcomes.clear()
        threads = [threading.Thread(target=change, args=one_wanted) for one_wanted in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == [
            "done",
            "stage_timeout=50m is longer than task_limit=40m: a stage that took its time would never be tried again",
        ]
        asked.app.settings.unset("task_limit")
        asked.app.settings.unset("stage_timeout")


def test_many_writers_of_one_setting_leave_one_of_their_values_with_its_author(asked: Harness, store_url: str) -> None:
    def change(number: int) -> None:
        with App(store_url, [asking], settings=[PAGE]) as app:
            for _ in range(5):
                app.settings.set("page_size", number, author=f"writer {number}")

    threads = [threading.Thread(target=change, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = one(asked.app, "page_size")
    assert last.changed_by == f"writer {last.value}"


def test_what_run_is_told_is_above_the_live_value(asked: Harness) -> None:
    asked.app.settings.set("concurrency", 7)
    asked.app._in_force.pin(concurrency=3)
    assert asked.app.config.concurrency == 3
    asked.app.settings.set("concurrency", 9)
    assert asked.app.config.concurrency == 3


def test_a_process_that_may_run_more_than_it_began_with_finds_room_to_note_it(tmp_path: Path) -> None:
    presence = Presence(tmp_path / "presence", 2)
    slots = [presence.enter(task, 0, 1) for task in range(1, 10)]
    assert len(set(slots)) == 9
    assert sorted(one.task for one in running(presence.path) or ()) == list(range(1, 10))
    presence.leave(slots[0])
    presence.extend(slots[8], 77)
    assert [one.limit_at for one in running(presence.path) or () if one.task == 9] == [77]
    presence.remove()


def test_the_table_says_the_type_of_a_live_setting_and_what_it_is_for(asked: Harness) -> None:
    asked.app.settings.set("wait", "2h")
    asked.app.settings.set("max_children", 7)

    def rows(connection: Any) -> list[Any]:
        query = "SELECT name, value, type, about FROM onceward_setting ORDER BY name"
        return [tuple(row) for row in connection.execute(query).fetchall()]

    assert asked.app.read(rows) == [
        ("max_children", "7", "int", "How many children a task may ask for."),
        ("wait", "2h", "duration", "How long to wait."),
    ]


class Fetch(Payload, kind="fetch"):
    """Fails."""

    number: int = 0


def failing(error: type[Exception], **options: Any) -> Pipeline[Fetch]:
    source = options.pop("source", None)
    made = Pipeline(Fetch, **options)

    @made.stage(source=source)
    def fetch(ctx: Context[Fetch]) -> None:
        raise error("no")

    return made


@pytest.mark.parametrize(
    ("retry", "settings", "ran"),
    [
        (Retry(jitter=False), {}, [0, 1, 2, 4]),
        (Retry(jitter=False), {"retries": 4, "retry_base": "10s", "retry_cap": "25s"}, [0, 10, 20, 25, 25]),
        (Retry(retries=1, base="3s", cap="9s", jitter=False), {"retries": 4, "retry_base": "1s"}, [0, 3]),
        (Retry(retries=None, jitter=False), {"same_errors": 2, "retries": 9}, [0, 1]),
        (Retry(retries=None, same_errors=3, jitter=False), {"same_errors": 2}, [0, 1, 2]),
        (Retry(jitter=False), {"same_errors": 2}, [0, 1, 2, 4]),
    ],
    ids=["nothing said", "as set", "its own", "the same errors as set", "the same errors, its own", "by number"],
)
def test_a_stage_is_tried_again_as_the_settings_say_where_its_pipeline_does_not(
    start: Start, retry: Retry, settings: dict[str, Any], ran: list[int]
) -> None:
    harness = start(failing(ValueError, retry=retry))
    for name, value in settings.items():
        harness.app.settings.set(name, value)
    harness.clock.advance(2 * LOOK_EVERY_MS / 1_000)
    began = harness.clock.now()
    task = harness.enqueue(Fetch())
    harness.drain()
    assert (harness.task(task).status, harness.task(task).failures) == (Status.FAILED, len(ran) - 1)
    assert round((harness.clock.now() - began) / 1_000) == sum(ran)


@pytest.mark.parametrize("way", ["the stage", "a call"])
@pytest.mark.parametrize(
    ("breaker", "settings", "failures", "pause_s"),
    [
        (Breaker(), {}, 5, 300),
        (Breaker(), {"breaker_failures": 2, "breaker_pause": "7s"}, 2, 7),
        (Breaker(disable_after=50), {"breaker_failures": 2, "breaker_pause": "7s"}, 2, 7),
        (Breaker(failures=3, pause="9s"), {"breaker_failures": 2, "breaker_pause": "7s"}, 3, 9),
    ],
    ids=["nothing said", "as set", "as set, but for one", "its own"],
)
def test_a_source_is_left_alone_as_the_settings_say_where_it_does_not(
    start: Start, way: str, breaker: Breaker, settings: dict[str, Any], failures: int, pause_s: int
) -> None:
    web = Source("web", retries=0, concurrency=1, breaker=breaker)
    made = Pipeline(Fetch, retry=Retry(retries=0))
    began: list[int] = []

    @made.stage(source=web)
    def fetch(ctx: Context[Fetch]) -> None:
        def fail() -> None:
            began.append(ctx.payload.number)
            raise ConnectionError("refused")

        ctx.call(web, fail) if way == "a call" else fail()

    harness = start(made)
    for name, value in settings.items():
        harness.app.settings.set(name, value)
    harness.clock.advance(2 * LOOK_EVERY_MS / 1_000)
    harness.app.enqueue_many([Fetch(number) for number in range(8)])
    harness.drain(wait_for_due=False)
    [found] = harness.app.sources.list()
    assert (found.state, found.streak, len(began)) == (SourceState.PAUSED, failures, failures)
    assert found.paused_until is not None
    assert round((found.paused_until.timestamp() * 1_000 - harness.clock.now()) / 1_000) == pause_s


def test_the_envelope_counts_the_retries_that_are_set() -> None:
    with App("sqlite:///:memory:", [failing(ValueError)], config=Config(retries=7)) as app:
        [one] = app.envelope().pipelines
        assert (one.retries, one.attempts_per_task) == (7, 8 + 2)
    with App("sqlite:///:memory:", [failing(ValueError, retry=Retry(retries=1))], config=Config(retries=7)) as app:
        assert app.envelope().pipelines[0].retries == 1
