"""Makes the pictures of the documentation: `python -m tests.web.screenshots [FOLDER]`, by default docs/images.

A database is made anew, a worker begins to work on it, and Debian's Chromium looks at its pages in light and in dark.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from onceward import App
from onceward.web import carrying
from tests.web import demo
from tests.web.browser import CHROMIUM, MISSING, Watched, chromium, served, watched

ROOT = Path(__file__).parent.parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1440, 900
TALLEST = 1_500
"""How many pixels of a long page are shown."""


def main(arguments: list[str]) -> int:
    """Make all pictures; returns the exit code."""
    if CHROMIUM is None:
        print(MISSING, file=sys.stderr)
        return 1
    logging.getLogger("onceward").setLevel(logging.CRITICAL)
    folder = Path(arguments[0]) if arguments else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        app = demo.seeded(f"sqlite:///{place}/crawler.db")
        _name_workers(app)
        with at_work(app), served(app) as site, chromium() as browser:
            time.sleep(4)  # a picture of work under way
            pages = _pages(app)
            for scheme in ("light", "dark"):
                with watched(browser, scheme=scheme, width=WIDTH, height=HEIGHT) as one:
                    for name, address in pages.items():
                        _picture(one, f"{site}{address}", folder / f"{name}-{scheme}.png")
        carrying.leave(app)
        app.close()
    return 0


@contextmanager
def at_work(app: App) -> Iterator[None]:
    """Let a worker of its own process work on the app meanwhile."""
    command = [
        sys.executable,
        "-m",
        "onceward",
        "run",
        "tests.web.demo:app",
        "--name",
        "worker/9",
        "--concurrency",
        "4",
    ]
    worker = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "CRAWLER_DB": app.url, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for number in range(40):
            app.enqueue(demo.Site(f"https://lantern-row.example/now-{number}/"))
        yield
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)


def _pages(app: App) -> dict[str, str]:
    """Return the pages worth a picture: the overview, the lineage that was refused most, a task that was lost once."""
    lineages = app.lineages.list(500)
    largest = max(lineages, key=lambda one: (one.refusals > 0, one.cost))
    lost = app.tasks.search("status:waiting,succeeded,filtered attempts>3 kind:posting", limit=1).tasks
    shown = lost[0] if lost else app.tasks.search("status:failed", limit=1).tasks[0]
    return {"overview": "/", "lineage": f"/lineages/{largest.id}", "task": f"/tasks/{shown.id}"}


def _picture(one: Watched, address: str, to: Path) -> None:
    one.visit(address)
    one.page.wait_for_timeout(300)
    height = min(one.page.evaluate("document.documentElement.scrollHeight"), TALLEST)
    one.page.set_viewport_size({"width": WIDTH, "height": max(height, HEIGHT)})
    one.page.screenshot(path=to)
    one.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    print(to.name, f"{to.stat().st_size // 1_000} kB", *one.faults())


def _name_workers(app: App) -> None:
    """Give the workers of the harness names as real ones have: all of them are called alike there."""
    connection = apsw.Connection(app.url.removeprefix("sqlite:///"))
    connection.execute("UPDATE onceward_worker SET name = 'worker/' || (1 + id % 3)")
    connection.execute("UPDATE onceward_attempt SET note = 'worker/2 was killed' WHERE note LIKE 'harness died%'")
    connection.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
