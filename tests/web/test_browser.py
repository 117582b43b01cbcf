"""The pages in a browser: they break no rule of their own, everybody can read them, and their buttons and keys work."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser, Route

from onceward import App
from onceward.model.status import Status
from onceward.web import carrying
from onceward.web.routes import ROUTES
from tests.web import demo
from tests.web.browser import CHROMIUM, MISSING, Watched, chromium, served, watched

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason=MISSING),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

SCHEMES = ("light", "dark")
LARGE, PHONE = (1440, 900), (390, 844)


@pytest.fixture
def app(store_url: str, caplog: pytest.LogCaptureFixture) -> Iterator[App]:
    caplog.set_level(logging.CRITICAL, "onceward")
    with ThreadPoolExecutor(1) as elsewhere:  # the loop that drives the browser stays in this thread
        made = elsewhere.submit(lambda: demo.seeded(store_url, minutes=12, limit="0.60")).result()
    yield made
    carrying.leave(made)
    made.close()


@pytest.fixture
def site(app: App) -> Iterator[str]:
    with served(app) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all of them: it takes longer to begin than most of them take."""
    with chromium() as one:
        yield one


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Watched]:
    with watched(browser) as one:
        yield one


def addresses(app: App) -> list[str]:
    """Every page of the site, with what stands in the database where a path names something."""
    failed = app.tasks.search("status:failed").tasks[0]
    waiting = app.tasks.search("waiting:signal:approved").tasks[0]
    spent = app.tasks.search("waiting~budget").tasks[0]
    names = {
        "/tasks/{id}": [f"/tasks/{one.id}" for one in (failed, waiting, spent)],
        "/tasks/act": ["/tasks/act?action=retry&filter=status:failed"],
        "/bulk/{id}": [f"/bulk/{app.bulk.start('retry', f'id:{failed.id}').id}"],
        "/tasks": ["/tasks", "/tasks?filter=status:failed%20kind:page"],
        "/lineages/{id}": [f"/lineages/{failed.lineage}"],
    }
    found: list[str] = []
    for route in ROUTES:
        if route.method == "GET" and route.kind == "page":
            found += names.get(route.path, [] if "{" in route.path else [route.path])
    return found


@pytest.mark.parametrize("store_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)], indirect=True)
def test_every_page_keeps_the_policy_and_can_be_read_by_everybody(app: App, browser: Browser, site: str) -> None:
    faults: list[str] = []
    for scheme in SCHEMES:
        with watched(browser, scheme=scheme) as one:
            for address in addresses(app):
                one.visit(f"{site}{address}")
                faults += [f"{scheme} {address}: {fault}" for fault in one.faults() + one.unreadable()]
    assert faults == []


def test_no_page_is_wider_than_a_phone(app: App, browser: Browser, site: str) -> None:
    wide: list[str] = []
    with watched(browser, width=PHONE[0], height=PHONE[1]) as one:
        for address in addresses(app):
            one.visit(f"{site}{address}")
            width = one.page.evaluate("document.documentElement.scrollWidth")
            wide += [f"{address}: {width}"] if width > PHONE[0] else []
    assert wide == []


def test_the_page_one_is_on_is_in_sight_in_the_navigation_of_a_phone(browser: Browser, site: str) -> None:
    with watched(browser, width=PHONE[0], height=PHONE[1]) as one:
        for name in ("tasks", "store"):
            one.visit(f"{site}/{name}")
            box = one.page.locator(".nav [aria-current]").bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE[0]


def test_a_failed_task_is_retried_from_its_page(app: App, site: str, page: Watched) -> None:
    failed = app.tasks.search("status:failed").tasks[0].id
    page.visit(f"{site}/tasks/{failed}")
    page.page.keyboard.press("r")
    page.page.get_by_role("button", name="Retry the task").click()
    page.page.locator(".toast", has_text="is tried again").wait_for()
    assert app.tasks.get(failed).status is Status.PENDING
    assert page.faults() == []


def test_all_that_match_are_retried_after_a_question(app: App, site: str, page: Watched) -> None:
    count = app.tasks.count("status:failed").n
    page.visit(f"{site}/tasks?filter=status:failed")
    page.page.keyboard.press("*")
    page.page.keyboard.press("a")
    page.page.locator("#bulk [data-act=retry]").click()
    page.page.get_by_role("button", name=f"Retry {count} tasks").click()
    page.page.wait_for_url(re.compile(r"/bulk/\d+"))
    page.page.get_by_text("what was done stays done").wait_for()
    assert app.stats.counts()[Status.FAILED] == 0
    assert page.faults() == []


def test_the_filter_line_completes_and_sets_words_apart(app: App, site: str, page: Watched) -> None:
    page.visit(f"{site}/tasks")
    page.page.keyboard.press("/")
    page.page.keyboard.type("sta")
    page.page.locator("#complete li:nth-child(2):last-child").wait_for()  # status and stage
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    page.page.locator(".filter__mirror .filter__word", has_text="status:").wait_for()
    page.page.keyboard.type("fail")
    page.page.locator("#complete li:only-child", has_text="failed").wait_for()
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    page.page.locator(".filter__mirror .filter__word", has_text="status:failed").wait_for()
    assert page.page.locator("#filter").input_value() == "status:failed "
    assert page.page.locator(".filter__mirror .filter__word").inner_text() == "status:failed"
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("Enter")
    page.page.wait_for_url(re.compile("filter=status%3Afailed"))
    assert page.faults() == []


def test_keys_walk_select_and_lead_elsewhere(app: App, site: str, page: Watched) -> None:
    page.visit(f"{site}/")
    page.page.keyboard.press("g")
    page.page.keyboard.press("t")
    page.page.wait_for_url(f"{site}/tasks")
    rows = page.page.locator("#chosen tr[data-row]")
    page.page.locator("#chosen").wait_for()
    rows.nth(0).locator("a").first.focus()
    page.page.keyboard.press("j")
    page.page.keyboard.press("x")
    assert rows.nth(1).locator("input").is_checked()
    page.page.keyboard.press("j")
    page.page.keyboard.press("j")
    page.page.keyboard.press("X")
    assert page.page.locator("#bulk [data-count]").inner_text() == "3"
    page.page.keyboard.press("?")
    assert page.page.locator("#keys").is_visible()
    page.page.keyboard.press("Escape")
    assert not page.page.locator("#keys").is_visible()
    assert page.faults() == []


def test_an_open_page_follows_the_database_and_keeps_what_is_unfolded(app: App, site: str, page: Watched) -> None:
    done = app.tasks.search("status:succeeded kind:posting").tasks[0].id
    page.visit(f"{site}/tasks/{done}")
    page.page.evaluate("document.body.dataset.refresh = '1'")
    page.page.locator("#stored-1 summary").click()
    page.page.evaluate("getSelection().removeAllRanges(); document.activeElement.blur()")
    page.page.mouse.move(0, 0)
    app.tasks.retry(done)
    page.page.locator(".title .chip", has_text="pending").wait_for()
    assert page.page.locator("#stored-1").evaluate("one => one.open")
    assert page.faults() == []


def test_a_dialog_stays_open_when_an_answer_comes_that_was_asked_for_before(app: App, site: str, page: Watched) -> None:
    failed = app.tasks.search("status:failed").tasks[0].id
    held: list[Route] = []
    page.visit(f"{site}/tasks/{failed}")
    page.page.evaluate("document.body.dataset.refresh = '1'")
    page.page.route(f"**/tasks/{failed}", lambda route: held.append(route))
    app.enqueue(demo.Site("https://elsewhere.example/"))
    while not held:
        page.page.wait_for_timeout(50)
    page.page.keyboard.press("r")
    for route in held:
        route.continue_()
    page.page.wait_for_timeout(500)
    assert page.page.get_by_role("button", name="Retry the task").is_visible()


def test_a_paused_page_does_not_change(app: App, site: str, page: Watched) -> None:
    done = app.tasks.search("status:succeeded kind:posting").tasks[0].id
    page.visit(f"{site}/tasks/{done}")
    page.page.evaluate("document.body.dataset.refresh = '1'")
    page.page.keyboard.press(".")
    app.tasks.retry(done)
    page.page.locator(".live__word", has_text="change waits").wait_for()
    assert page.page.locator(".title .chip").inner_text() == "succeeded"
    page.page.keyboard.press(".")
    page.page.locator(".title .chip", has_text="pending").wait_for()


def test_a_page_works_without_scripts(app: App, browser: Browser, site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    one = context.new_page()
    one.goto(f"{site}/tasks?filter=status:failed")
    one.get_by_role("link", name="Count the tasks").click()
    one.get_by_text("Errors that are alike").wait_for()
    one.get_by_role("link", name="Retry all that match…").click()
    one.get_by_role("button", name=re.compile("^Retry")).click()
    one.wait_for_url(re.compile(r"/bulk/\d+"))
    context.close()
    assert app.bulk.list()[0].action == "retry"


def test_what_a_dialog_asks_stands_on_the_page_without_scripts(app: App, browser: Browser, site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    one = context.new_page()
    one.goto(f"{site}/")
    assert one.locator("button:visible", has_text="Pause everything…").count() == 0
    assert one.locator(".live:visible, dialog#keys:visible").count() == 0
    one.get_by_role("button", name="Pause everything", exact=True).click()
    one.get_by_text("Everything is paused").first.wait_for()
    context.close()
    assert [pause.scope for pause in app.workers.pauses()] == ["everything"]


def test_a_page_whose_stream_is_cut_off_says_so_until_it_is_back(site: str, page: Watched) -> None:
    page.page.route("**/live", lambda route: route.fulfill(status=503))
    page.page.clock.install()
    page.visit(f"{site}/workers")
    page.page.locator(".live--lost", has_text="No answer since").wait_for()
    page.page.unroute("**/live")
    page.page.clock.run_for(6_000)
    page.page.locator(".live:not(.live--lost)", has_text="Live").wait_for()
