"""The drawn tree and the pages beside it in a browser: no fault, readable, moved through by keys, done by buttons."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser, expect

from onceward import App, Status
from tests.web import world
from tests.web.browser import AXE, CHROMIUM, MISSING, Watched, chromium, served, watched

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

PAGES = (
    "/lineages", "/batches", "/sources", "/budgets", "/schedules", "/workers", "/alerts", "/settings", "/envelope",
    "/store", "/audit",
)  # fmt: skip


@pytest.fixture
def app(store_url: str, caplog: pytest.LogCaptureFixture) -> Iterator[App]:
    caplog.set_level(logging.CRITICAL, "onceward")
    with ThreadPoolExecutor(1) as elsewhere:  # the loop that drives the browser stays in this thread
        made = elsewhere.submit(lambda: world.made(store_url, rounds=1)).result()
    yield made
    made.close()


@pytest.fixture
def root(app: App) -> int:
    """The root of a lineage with refusals, failures, and a child that waits for approval."""
    with ThreadPoolExecutor(1) as elsewhere:
        listed = elsewhere.submit(lambda: app.lineages.list(50)).result()
    return max((one for one in listed if one.max_tasks == 2_000), key=lambda one: one.tasks_counted).root


@pytest.fixture
def site(app: App) -> Iterator[str]:
    with served(app) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


def faults(one: Watched) -> list[str]:
    return one.faults() + (one.unreadable() if AXE.exists() else [])


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1440),
        ("dark", 390),
        pytest.param("dark", 1440, marks=pytest.mark.torture),
        pytest.param("light", 390, marks=pytest.mark.torture),
    ],
)
def test_no_page_has_a_fault(browser: Browser, site: str, root: int, scheme: str, width: int) -> None:
    with watched(browser, scheme=scheme, width=width) as one:
        for path in (*PAGES, f"/lineages/{root}?at={root}", f"/lineages/{root}?view=outline&by=time"):
            one.visit(site + path)
            assert faults(one) == [], path
            assert one.page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_the_tree_is_explored_by_mouse_and_keys(browser: Browser, site: str, root: int) -> None:
    with watched(browser) as one:
        page = one.page
        one.visit(f"{site}/lineages/{root}")
        nodes = page.locator(".tree a.node[data-node]")
        count = nodes.count()
        page.locator(".tree a.node--more").first.click()
        expect(nodes).not_to_have_count(count)
        assert "open=" in page.url
        page.go_back()
        expect(nodes).to_have_count(count)

        nodes.first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        chosen = page.evaluate("document.activeElement.dataset.node")
        assert int(chosen) > root
        page.keyboard.press("Enter")
        expect(page.locator(".tree-frame .peek")).to_contain_text(chosen)
        assert f"at={chosen}" in page.url
        expect(page.locator(f'.tree a.node[data-node="{chosen}"]')).to_be_focused()

        page.keyboard.press("-")
        expect(page.locator(f'.tree [data-unfolds="{chosen}"]')).to_have_count(1)
        page.keyboard.press("+")
        expect(page.locator(f'.tree [data-unfolds="{chosen}"]')).to_have_count(0)
        page.keyboard.press("Escape")
        expect(page.locator(".peek")).to_have_count(0)
        assert one.faults() == []


def test_a_child_is_approved_where_it_is_drawn(browser: Browser, site: str, root: int, app: App) -> None:
    with watched(browser) as one:
        one.visit(f"{site}/lineages/{root}")
        one.page.locator(".tree .node__do button", has_text="Approve").first.click()
        expect(one.page.locator(".toast")).to_contain_text("Approved task")
        task = int(re.findall(r"Approved task (\d+)", one.page.locator(".toast").inner_text())[0])
        assert one.faults() == []
    with ThreadPoolExecutor(1) as elsewhere:
        assert elsewhere.submit(lambda: app.tasks.get(task).status).result() is Status.PENDING


def test_cancelling_asks_for_the_number_of_tasks(browser: Browser, site: str, root: int) -> None:
    with watched(browser) as one:
        page = one.page
        one.visit(f"{site}/lineages/{root}")
        page.locator(".actions button", has_text="Cancel").click()
        dialog = page.locator("#cancel")
        expect(dialog).to_be_visible()
        count = re.findall(r"[\d,]+", dialog.locator("h2").inner_text())[0]
        dialog.locator("input[name=typed]").fill("99999" if count != "99999" else "1")
        dialog.locator("button[type=submit]").click()
        expect(dialog).to_be_visible()
        dialog.locator("input[name=typed]").fill(count.replace(",", ""))
        dialog.locator("button[type=submit]").click()
        expect(page.locator(".toast")).to_contain_text(f"Cancelled {count} tasks")
        assert one.faults() == []


def test_an_open_dialog_outlives_a_page_that_is_drawn_anew(browser: Browser, site: str, root: int) -> None:
    with watched(browser) as one:
        page = one.page
        one.visit(f"{site}/lineages/{root}")
        page.locator(".actions button", has_text="Cancel").click()
        page.evaluate(
            "fetch(location.href).then((answer) => answer.text()).then((text) => document.getElementById('content')"
            ".replaceWith(new DOMParser().parseFromString(text, 'text/html').getElementById('content')))"
        )
        expect(page.locator("dialog[open]")).to_be_visible()
        page.keyboard.press("Escape")
        page.locator(".actions button", has_text="Cancel").click()
        expect(page.locator("dialog[open]")).to_have_count(1)
        assert one.faults() == []
