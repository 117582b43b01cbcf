"""The demo while it runs: moving on a terminal, line by line elsewhere."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from onceward_apps.jobfinder.demo.story import Look, Story

LINE_EVERY_S = 2.0
BAR_WIDTH = 32
NAMES = {
    "company": "companies",
    "source_discovery": "boards tested",
    "scrape_source": "boards read",
    "job": "listings",
    "fetch": "pages of listings",
}


class Screen:
    """Shows a story as it goes on."""

    def __init__(self, story: Story, console: Console) -> None:
        self._story = story
        self._console = console
        self._live: Live | None = None
        self._told = 0
        self._line_at = 0.0

    def on(self) -> AbstractContextManager[Any]:
        """Show it as long as this lasts."""
        if not self._console.is_terminal:
            return nullcontext()
        self._live = Live(console=self._console, refresh_per_second=10)
        return self._live

    def update(self) -> None:
        """The story has gone on."""
        if self._live is not None:
            self._live.update(self._frame())
        else:
            self._print_lines()

    def _frame(self) -> Group:
        now = self._story.now
        bars = Table.grid(padding=(0, 2, 0, 0))
        for kind, name in NAMES.items():
            done, every = now.done(kind), now.all(kind)
            bar = ProgressBar(max(every, 1), done, width=BAR_WIDTH)
            bars.add_row(Text(name, "bold"), bar, Text(f"{done:,} of {every:,}", justify="right"))
        events = Table.grid(padding=(0, 2, 0, 0))
        for at_s, text in self._story.events:
            events.add_row(Text(f"{at_s:5.1f} s", "dim"), text)
        return Group(Text(), bars, Text(), self._counts(now), self._workers(now), Text(), events)

    def _counts(self, now: Look) -> Text:
        text = Text.assemble((f"{now.at_s:5.1f} s  ", "dim"), (f"{now.matches} matches", "bold green"))
        for status, count in now.listings.items():
            if status != "active":
                text.append(f"  {count:,} {status}")
        return text.append(f"  {self._story.listings_per_s:.0f} listings/s", "dim")

    def _workers(self, now: Look) -> Text:
        text = Text("         ")
        for worker in now.workers:
            text.append("● ", "green").append(f"{worker.name} holds {worker.holds}  ")
        return text if now.workers else text.append("no workers", "dim")

    def _print_lines(self) -> None:
        now = self._story.now
        for at_s, text in self._story.events[self._told :]:
            self._console.print(Text.assemble(f"{at_s:5.1f} s  ", text))
        self._told = len(self._story.events)
        if now.at_s >= self._line_at:
            self._line_at = now.at_s + LINE_EVERY_S
            self._console.print(
                f"{now.at_s:5.1f} s  {now.done('company')} of {now.all('company')} companies, "
                f"{now.done('job'):,} of {now.all('job'):,} listings, {now.matches} matches, "
                f"{len(now.workers)} workers alive"
            )
