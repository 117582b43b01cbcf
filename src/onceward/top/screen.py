"""The live view itself: a health line, the last hour, one panel at a time, and the keys that lead through them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rich.text import Text
from textual import on
from textual.app import App as Terminal
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static, Tab, Tabs

from onceward.errors import OncewardError, StoreError
from onceward.harmless import one_line
from onceward.support.redaction import redacted
from onceward.top.facts import Facts, Tone, health, look
from onceward.top.panels import PANELS, Panel, Row, fitted, span, text
from onceward.top.reasons import reason_lines

if TYPE_CHECKING:
    from onceward.app import App

SHARE = 10
"""A look takes at most one part in so many of the time: a large database is looked at less often."""
SCROLLBAR = 3
MINUTES_A_BAR = 3
BARS = "▁▂▃▄▅▆▇█"
_TONES: dict[Tone, str] = {"good": "green", "quiet": "dim", "warning": "bold yellow", "bad": "bold red"}


class Table(DataTable[Text]):
    """The rows of a panel."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "open")]


class Why(ModalScreen[None]):
    """Why a task does not run, above the panel that it was asked from."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "back")]

    def __init__(self, lines: Text) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        """Show the lines in a box."""
        with Vertical(id="why"):
            yield Static(self._lines)
            yield Static(Text("escape goes back", "dim"))


class Top(Terminal[None]):
    """The live view of one app."""

    TITLE = "onceward"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; }
    #health, #hour { height: 1; padding: 0 1; }
    Tabs { height: 2; }
    DataTable { height: 1fr; }
    #nothing { height: 1fr; padding: 1 2; color: $text-muted; display: none; }
    #filter { display: none; height: 1; border: none; padding: 0 1; }
    #said { height: 1; padding: 0 1; display: none; }
    Why { align: center middle; }
    #why { width: 90%; height: auto; max-height: 80%; border: round $primary; padding: 1 2; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"panel({number - 1})", one.name, show=False) for number, one in enumerate(PANELS, 1)),
        Binding("tab", "next_panel", "panel", priority=True),
        Binding("slash", "filter", "filter"),
        Binding("space", "hold", "hold"),
        Binding("r", "refresh", "refresh"),
        Binding("escape", "clear", "clear", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, app: App, *, every_s: float | None = 2.0, place: str = "") -> None:
        super().__init__()
        self._onceward = app
        self._every_s = every_s
        self._place = place
        self._facts: Facts | None = None
        self._panel = 0
        self._typed: dict[str, str] = {}
        self._rows: list[Row] = []
        self._columns: list[tuple[int, int]] = []
        """Which columns are shown, and how wide."""
        self._is_held = False
        self._looking = asyncio.Lock()
        self._took_s = 0.0
        self._looked_at = float("-inf")

    @property
    def panel(self) -> Panel:
        """The panel that is shown."""
        return PANELS[self._panel]

    def compose(self) -> ComposeResult:
        """Lay out the screen, from top to bottom."""
        yield Static(id="health")
        yield Static(id="hour")
        yield Tabs(*(Tab(f"{number} {one.name}", id=one.name) for number, one in enumerate(PANELS, 1)))
        yield Table(cursor_type="row", zebra_stripes=True)
        yield Static(id="nothing")
        yield Static(id="said")
        yield Input(id="filter", placeholder="filter", compact=True)
        yield Footer(compact=True)

    async def on_mount(self) -> None:
        """Look for the first time, and from then on every so often."""
        self.query_one(Table).focus()
        await self.refresh_now()
        if self._every_s is not None:
            self.set_interval(self._every_s, self._refresh_if_due)

    async def _refresh_if_due(self) -> None:
        if not self._is_held and time.monotonic() - self._looked_at >= SHARE * self._took_s:
            await self.refresh_now()

    async def refresh_now(self) -> None:
        """Look at the database and show what was found; one that is away is said to be, and looked for again."""
        if self._looking.locked():
            return
        async with self._looking:
            began = time.monotonic()
            try:
                facts = await asyncio.to_thread(look, self._onceward, self._task_filter())
            except StoreError as error:
                self.query_one("#health", Static).update(Text(f"● the database is away: {_line(error)}", "bold red"))
                return
            except OncewardError as error:
                self._say(f"filter: {_line(error)}")
                return
            finally:
                self._looked_at = time.monotonic()
                self._took_s = self._looked_at - began
            self._facts = facts
            self._show(facts)

    def _task_filter(self) -> str | None:
        if self.panel.filter is None:
            return None
        return f"{self.panel.filter} {self._typed.get(self.panel.name, '')}".strip()

    # Showing

    def _show(self, facts: Facts) -> None:
        tone, sentence = health(facts)
        held = " ‖ held" if self._is_held else ""
        alerts = f"  {facts.alerts} alert{'s' if facts.alerts != 1 else ''}" if facts.alerts else ""
        self.query_one("#health", Static).update(
            Text.assemble(("● ", _TONES[tone]), (sentence, _TONES[tone]), (alerts, "bold red"), (held, "yellow"))
        )
        self.query_one("#hour", Static).update(_hour_line(facts, self._place))
        self._say("")
        typed = self._typed.get(self.panel.name, "").lower()
        rows = list(self.panel.rows(facts))
        self._rows = [one for one in rows if self.panel.filter is not None or typed in one.plain]
        self._fill(typed)

    def _fill(self, typed: str) -> None:
        """Put the rows into the table; the cursor stays at what it was at."""
        table = self.query_one(Table)
        before = self._cursor_key(table)
        columns = fitted(self.panel, self._rows, self.size.width - SCROLLBAR)
        if columns != self._columns:
            self._columns = columns
            table.clear(columns=True)
            for place, width in columns:
                name = self.panel.columns[place]
                table.add_column(Text(name, justify=self._side(name)), width=width)
        else:
            table.clear()
        for row in self._rows:
            cells = (
                Text.assemble(row.cells[place], justify=self._side(self.panel.columns[place])) for place, _ in columns
            )
            table.add_row(*cells, key=row.key)
        keys = [row.key for row in self._rows]
        if before in keys:
            table.move_cursor(row=keys.index(before))
        nothing = self.query_one("#nothing", Static)
        nothing.update(Text(f"nothing matches {typed!r}" if typed else self.panel.nothing, "dim"))
        nothing.display, table.display = not self._rows, bool(self._rows)

    def _side(self, column: str) -> Literal["left", "right"]:
        return "right" if column in self.panel.right else "left"

    def on_resize(self) -> None:
        """Fit the columns to the new width."""
        if self._facts is not None:
            self._show(self._facts)

    def _cursor_key(self, table: Table) -> str | None:
        row = table.cursor_row
        return None if not table.row_count or row >= table.row_count else table.ordered_rows[row].key.value

    def _say(self, sentence: str) -> None:
        said = self.query_one("#said", Static)
        said.update(Text(sentence, "bold red"))
        said.display = bool(sentence)

    # Keys

    async def action_panel(self, number: int) -> None:
        """Show another panel."""
        self.query_one(Tabs).active = PANELS[number].name

    async def action_next_panel(self) -> None:
        """Show the next panel."""
        await self.action_panel((self._panel + 1) % len(PANELS))

    @on(Tabs.TabActivated)
    async def _activated(self, event: Tabs.TabActivated) -> None:
        names = [one.name for one in PANELS]
        number = names.index(event.tab.id or names[0])
        if number == self._panel:
            return
        self._panel, self._columns = number, []
        self.query_one(Table).focus()
        if self.panel.filter is not None:
            await self.refresh_now()
        elif self._facts is not None:
            self._show(self._facts)

    def action_filter(self) -> None:
        """Ask for a filter: of tasks in the language of filters, elsewhere any part of a row."""
        box = self.query_one("#filter", Input)
        example = 'kind:page error:"timeout"' if self.panel.filter is not None else "a part of a row"
        box.placeholder = f"filter: {example}, enter"
        box.value = self._typed.get(self.panel.name, "")
        box.display = True
        box.focus()

    @on(Input.Submitted)
    async def _filtered(self, event: Input.Submitted) -> None:
        self._typed[self.panel.name] = event.value.strip()
        self.query_one("#filter", Input).display = False
        self.query_one(Table).focus()
        await self.refresh_now()

    async def action_clear(self) -> None:
        """Take back the filter of a panel."""
        self.query_one("#filter", Input).display = False
        self.query_one(Table).focus()
        if self._typed.pop(self.panel.name, ""):
            await self.refresh_now()

    async def action_hold(self) -> None:
        """Hold the view as it is, or let it go on."""
        self._is_held = not self._is_held
        if self._facts is not None:
            self._show(self._facts)

    async def action_refresh(self) -> None:
        """Look at once."""
        await self.refresh_now()

    @on(DataTable.RowSelected)
    async def action_open(self, event: DataTable.RowSelected | None = None) -> None:
        """Open a row: a task says why it stands where it does, a pipeline its open tasks, others all they have."""
        table = self.query_one(Table)
        if not self._rows or table.cursor_row >= len(self._rows):
            return
        row = self._rows[table.cursor_row]
        if row.task is not None:
            try:
                lines = await asyncio.to_thread(reason_lines, self._onceward, row.task)
            except OncewardError as error:
                lines = text(_line(error), "bold red")
            await self.push_screen(Why(lines))
        elif self.panel.name == "pipelines":
            self._typed["open"] = f'kind:"{row.key}"'
            await self.action_panel([one.name for one in PANELS].index("open"))
        else:
            named = zip(self.panel.columns, row.cells, strict=True)
            await self.push_screen(
                Why(Text("\n").join(Text.assemble((f"{name:<10}", "dim"), cell) for name, cell in named))
            )


def _hour_line(facts: Facts, place: str) -> Text:
    """The last hour in one line: what has ended and failed, and a bar for every three minutes."""
    hour = facts.hour
    groups = [hour.minutes[at : at + MINUTES_A_BAR] for at in range(0, len(hour.minutes), MINUTES_A_BAR)]
    ended = [sum(one.succeeded + one.left_out + one.failed + one.cancelled for one in group) for group in groups]
    failed = [sum(one.failed for one in group) for group in groups]
    most = max(ended, default=0)
    bars = Text()
    for count, bad in zip(ended, failed, strict=True):
        bar = " " if not count else BARS[min(len(BARS) - 1, count * len(BARS) // (most + 1))]
        bars.append(bar, "red" if bad else "green")
    waited = span(None if hour.waited_p95_s is None else hour.waited_p95_s * 1_000)
    whole = "" if hour.is_whole else "+"
    return Text.assemble(
        (f"hour: {hour.ended:,}{whole} ended, "),
        (f"{hour.failed:,} failed", "bold red" if hour.failed else "dim"),
        f", in line {waited} ",
        bars,
        (f" {place}", "dim"),
    )


def _line(error: Exception) -> str:
    return redacted(one_line(str(error)))


def run(app: App, *, every_s: float, place: str) -> Any:
    """Show the live view of an app until it is quit."""
    return Top(app, every_s=every_s, place=place).run()
