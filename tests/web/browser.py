"""A site that is served on loopback, and Debian's Chromium that looks at it; it notes whatever goes wrong there."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from onceward import App
from onceward.web.guard import LOCAL_HOSTS, Access
from onceward.web.roles import Role
from onceward.web.site import Site

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "there is no chromium on this machine (Debian: apt-get install chromium)"
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
WATCH = """
window.__wrong = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.__wrong.push(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


@contextmanager
def served(app: App, role: Role = Role.ADMIN) -> Iterator[str]:
    """Serve an app as `onceward web` does, on a free port of loopback; the address of its pages."""
    site = Site(app, Access(LOCAL_HOSTS, role), name="crawler").asgi()
    server = uvicorn.Server(uvicorn.Config(site, port=0, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, name="site")
    begun = threading.Event()
    startup = server.startup

    async def started(*arguments: Any, **named: Any) -> None:
        await startup(*arguments, **named)
        begun.set()

    server.startup = started  # type: ignore[method-assign]
    thread.start()
    assert begun.wait(20)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's browser, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page of the browser, with all that went wrong in it."""

    page: Page
    wrong: list[str] = field(default_factory=list)

    def visit(self, address: str) -> None:
        """Go to a page and let its scripts load what they load."""
        self.page.goto(address)
        for _ in range(100):  # the policy of the site forbids what playwright would wait with
            if not self.page.evaluate("document.querySelector('[hx-get] noscript') !== null"):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"{address} goes on loading its pieces")

    def faults(self) -> list[str]:
        """What went wrong since the last time: errors in the console, and what the policy of the site forbids."""
        found = self.wrong + self.page.evaluate("window.__wrong.splice(0)")
        self.wrong = []
        return found

    def unreadable(self) -> list[str]:
        """What axe-core finds hard to read or to use, seriously."""
        if not self.page.evaluate("typeof axe === 'object'"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']}).then((one) => one.violations)")
        return [
            f"{one['id']}: {node['target']} {node['html'][:120]} {node.get('failureSummary', '')[:200]}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:3]
        ]


@contextmanager
def watched(browser: Browser, *, scheme: str = "light", width: int = 1440, height: int = 900) -> Iterator[Watched]:
    """A page of a fresh browser in a colour scheme."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.add_init_script(WATCH)
    one = Watched(page)
    page.on("console", lambda said: one.wrong.append(f"console: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: one.wrong.append(f"script: {error}"))
    try:
        yield one
    finally:
        context.close()
