"""The live view of a real database, driven by keys in a terminal of 80 columns and 24 lines, on both databases."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from html import unescape

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from onceward import App
from onceward.cli import main
from onceward.errors import StoreUnavailable
from onceward.store.attempts.workers import NewWorker, register
from onceward.testing import FakeClock
from onceward.top import screen
from onceward.top.facts import STANDSTILL_MS, health, look
from onceward.top.panels import PANELS, fitted
from onceward.top.screen import Table, Top, Why
from tests.mcp import plant

SIZE = (80, 24)
HOSTILE = "\x1b[31m[bold]red\u202e"


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    """The plant with its work done, a source disabled, a budget spent, and two workers, one of them silent."""
    made = plant.app.on(request.getfixturevalue(f"migrated_{request.param}_url"))
    made.prepare()
    made.enqueue_many([plant.Order("one"), plant.Order("lamp", "broken"), plant.Order(HOSTILE, "broken")])
    made.enqueue_many([plant.Question(f"why {number}?") for number in range(3)])
    made.run(until_idle=True)
    made.sources.disable("web")
    made.enqueue_many([plant.Page(f"https://example.com/{number}") for number in range(30)])
    hello(made, "ant", 0)
    hello(made, "bee", 400_000)
    yield made
    made.close()


def hello(app: App, name: str, silent_ms: int, queues: str = "default") -> None:
    """Let a worker be there that was last heard of some time ago."""
    new = NewWorker(name, "elsewhere", 7, None, "page,order", queues, 600_000)
    app._transact(lambda: register(new, app._store.clock.now() - silent_ms))


def drive(app: App, keys: Callable[[Top, Pilot[None]], Awaitable[None]], size: tuple[int, int] = SIZE) -> None:
    """Show the live view and press keys; it looks only when it is told to."""

    async def whole() -> None:
        top = Top(app, every_s=None, place="plant.db")
        async with top.run_test(size=size) as pilot:
            await pilot.pause()
            await keys(top, pilot)

    asyncio.run(whole())


def seen(top: Top) -> str:
    """The screen as text."""
    svg = top.export_screenshot(simplify=True)
    return unescape(re.sub(r"<[^>]*>", "", svg)).replace("\xa0", " ")


def rows(top: Top) -> list[list[str]]:
    """What stands in the rows of the panel."""
    table = top.screen.query_one(Table)
    return [[cell.plain for cell in table.get_row_at(number)] for number in range(table.row_count)]


def test_every_panel_fits_into_a_small_terminal(app: App) -> None:
    async def keys(top: Top, pilot: Pilot[None]) -> None:
        for number, (panel, says) in enumerate(
            zip(
                PANELS,
                (["page", "30"], ["ant", "silent"], ["web", "disabled"], ["model-usd", "0.02"], ["lamp"], ["pending"]),
                strict=True,
            ),
            1,
        ):
            await pilot.press(str(number))
            await pilot.pause()
            shown = seen(top)
            assert panel.columns[0] in shown
            assert all(one in shown for one in says), shown
            assert "hour: 4 ended, 2 failed" in shown
            assert "plant.db" in shown
            table = top.query_one(Table)
            assert table.virtual_size.width <= SIZE[0]
            assert table.max_scroll_x == 0
            assert "quit" in shown

    drive(app, keys)


def test_keys_lead_from_a_pipeline_to_its_tasks_and_to_their_reasons(app: App) -> None:
    async def keys(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        await pilot.pause()
        assert top.panel.name == "open"
        assert len(rows(top)) == 30
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(top.screen, Why)
        assert "source web is disabled" in seen(top)
        assert "onceward source web --enable" in seen(top)
        await pilot.press("escape")
        assert not isinstance(top.screen, Why)
        await pilot.press("escape")
        await pilot.pause()
        assert len(rows(top)) == 32, "without the filter those that wait for the budget are there, too"
        await pilot.press("tab")
        await pilot.pause()
        assert top.panel.name == "pipelines"
        await pilot.press("3", "enter")
        await pilot.pause()
        assert "disabled" in seen(top)
        assert "failures" in seen(top)

    drive(app, keys)


def test_a_filter_is_the_language_of_filters_for_tasks_and_a_part_of_a_row_elsewhere(app: App) -> None:
    async def keys(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press("2", "slash", *"BEE", "enter")
        await pilot.pause()
        assert [row[0] for row in rows(top)] == ["bee"]
        await pilot.press("5", "slash", *"error:lamp", "enter")
        await pilot.pause()
        assert len(rows(top)) == 1
        await pilot.press("slash", *" cost>>", "enter")
        await pilot.pause()
        said = top.query_one("#said", Static)
        assert said.display
        assert "of the filter" in str(said.render())
        await pilot.press("escape")
        await pilot.pause()
        assert len(rows(top)) == 2
        assert not said.display

    drive(app, keys)


def test_the_cursor_stays_with_its_row_and_held_means_held(app: App) -> None:
    async def keys(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press("6", "down", "down")
        table = top.query_one(Table)
        before = table.ordered_rows[table.cursor_row].key.value
        app.enqueue(plant.Order("new"))
        await pilot.press("r")
        await pilot.pause()
        assert table.ordered_rows[table.cursor_row].key.value == before
        await pilot.press("space")
        await pilot.pause()
        assert "held" in seen(top)

    drive(app, keys)


def test_texts_from_outside_are_texts(app: App) -> None:
    async def keys(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await pilot.pause()
        shown = " ".join(cell for row in rows(top) for cell in row)
        assert "\\x1b[31m[bold]red\\u202e" in shown
        await pilot.press("enter")
        await pilot.pause()
        assert "\x1b" not in seen(top)

    drive(app, keys, (160, 40))


def test_a_database_that_is_away_is_said_to_be(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def keys(top: Top, pilot: Pilot[None]) -> None:
        def gone(*_: object) -> None:
            raise StoreUnavailable("no connection to postgresql://ann:hunter2hunter2@db/x")

        monkeypatch.setattr(screen, "look", gone)
        await pilot.press("r")
        await pilot.pause()
        assert "the database is away" in seen(top)
        assert "hunter2" not in seen(top)
        monkeypatch.setattr(screen, "look", look)
        await pilot.press("r")
        await pilot.pause()
        assert "the database is away" not in seen(top)

    drive(app, keys)


def test_health_is_what_is_claimed_while_work_is_ready(store_clock: tuple[App, FakeClock]) -> None:
    app, clock = store_clock
    assert health(look(app)) == ("quiet", "idle: nothing is ready, 0 workers")
    app.enqueue(plant.Order("one"))
    assert health(look(app))[0] == "bad"
    assert "no worker is alive; 1 task is ready" in health(look(app))[1]
    hello(app, "ant", 0)
    assert health(look(app)) == ("quiet", "1 task is ready, 1 worker")
    clock.advance((STANDSTILL_MS + 1_000) / 1_000)
    assert health(look(app))[0] == "bad"
    assert "standstill: 1 task is ready, the oldest for 1m1s, and nothing is claimed" in health(look(app))[1]
    app.workers.pause()
    assert health(look(app))[0] == "warning"


@pytest.fixture(params=["sqlite", "postgres"])
def store_clock(request: pytest.FixtureRequest) -> Iterator[tuple[App, FakeClock]]:
    """The plant on a clock that the test moves."""
    clock = FakeClock(1_700_000_000_000)
    made = plant.app.on(request.getfixturevalue(f"migrated_{request.param}_url"), clock=clock)
    made.prepare()
    yield made, clock
    made.close()


def test_columns_are_cut_and_then_left_out_where_there_is_no_room(app: App) -> None:
    facts = look(app)
    workers = next(one for one in PANELS if one.name == "workers")
    found = list(workers.rows(facts))
    wide, small, tiny = (fitted(workers, found, room) for room in (200, 77, 20))
    assert len(wide) == len(workers.columns)
    assert sum(width + 2 for _, width in small) <= 77
    assert tiny[0][0] == 0
    assert len(tiny) < len(small) <= len(wide)


def test_it_needs_a_terminal(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--db", app.url]) == 2
    assert "needs a terminal" in capsys.readouterr().err
    assert main(["top", "--db", app.url, "--every", "1ms"]) == 2
    assert "100ms at least" in capsys.readouterr().err
