"""A crawler on a web that wastes its time: pages that beget pages for ever, and a page with a million links (F63).

The site counts what it is asked for. However it is made, a lineage has as many tasks as it may have and not one more,
no page is asked for twice, everything comes to an end, and the log stays readable.
"""

from __future__ import annotations

import itertools
import re
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from onceward import App, Config, Context, Failed, Limits, Payload, Pipeline, Retry, Status
from onceward.urls import canonical
from tests.proof.tally import Tally

LIMITS = Limits(max_tasks=40, max_depth=30, max_children=30)
LINK = re.compile(r'href="([^"]+)"')


class Page(Payload, kind="page"):
    """A page to be read, and all that it links to."""

    url: str

    def key(self) -> str:
        return canonical(self.url)


page = Pipeline(Page, retry=Retry(retries=1, base="10ms"))


@page.stage
def read(ctx: Context[Page]) -> int:
    """Fetch a page and ask for every page that it links to."""
    try:
        with urllib.request.urlopen(ctx.payload.url, timeout=20) as answer:
            links = LINK.findall(answer.read().decode())
    except urllib.error.HTTPError as error:
        raise Failed(f"{error.code}") from error
    return sum(bool(ctx.spawn(Page(link))) for link in links)


class Site(ThreadingHTTPServer):
    """A site that has no end, on loopback."""

    daemon_threads = True

    def __init__(self, many: int) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.many = many
        self.asked: Counter[str] = Counter()
        self.numbers = itertools.count()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    """One answer of it."""

    server: Site

    def do_GET(self) -> None:
        """Answer with links, or lead on."""
        path, site = self.path.partition("?")[0], self.server
        site.asked[path] += 1
        match path.split("/")[1:]:
            case ["calendar", month]:
                # A new session for every reader: the same page under a new name each time.
                self._link(f"/calendar/{int(month) + step}?PHPSESSID={next(site.numbers)}" for step in (-1, 1))
            case ["circle", name]:
                self._lead_to(f"/circle/{'a' if name == 'b' else 'b'}")
            case ["corridor", *_]:
                self._lead_to(f"/corridor/{next(site.numbers)}")
            case ["family", *children]:
                self._link(f"/family/{'/'.join([*children, str(child)])}" for child in range(20))
            case ["mirrors"]:
                self._link(["/mirrors", "/mirrors#top", "/mirrors?utm_source=a", "/./mirrors", "/x/../mirrors"] * 20)
            case ["links"]:
                self._link(f"/link/{number}" for number in range(site.many))
            case _:
                self._link([])

    def _link(self, paths: Iterator[str] | list[str]) -> None:
        body = "\n".join(f'<a href="{self.server.url}{path}">on</a>' for path in paths).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _lead_to(self, path: str) -> None:
        self.send_response(302)
        self.send_header("Location", path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads along."""


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    with App(request.getfixturevalue(f"migrated_{request.param}_url"), [page], config=Config(poll="50ms")) as app:
        yield app


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with Site(request.param) as site:
        yield site
        site.shutdown()


@pytest.mark.parametrize("site", [5_000], indirect=True)
def test_a_web_without_an_end_is_read_as_far_as_a_lineage_may_go(
    app: App, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    read_all_of_it(app, site, caplog)


@pytest.mark.torture
@pytest.mark.parametrize("site", [1_000_000], indirect=True)
def test_a_page_with_a_million_links_is_read_as_far_as_a_lineage_may_go(
    app: App, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    read_all_of_it(app, site, caplog)


def read_all_of_it(app: App, site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Begin at each of the site's traps."""
    starts = {
        name: app.enqueue(Page(f"{site.url}/{name}"), limits=LIMITS).id
        for name in ("calendar/2026", "circle/a", "corridor/0", "family", "mirrors", "links")
    }
    app.run(until_idle=True)
    tasks = app.tasks.list(limit=10_000)
    assert {task.status for task in tasks} == {Status.SUCCEEDED, Status.FAILED}
    made = Counter(task.lineage for task in tasks)
    of = {name: made[app.tasks.get(task).lineage] for name, task in starts.items()}
    assert of == {"calendar/2026": 40, "circle/a": 1, "corridor/0": 1, "family": 40, "mirrors": 1, "links": 31}
    asked = {path: times for path, times in site.asked.items() if not path.startswith(("/circle", "/corridor"))}
    assert set(asked.values()) == {1}, "a page was asked for twice"
    assert len(asked) == len(tasks) - 2
    refused = [record for record in caplog.records if "spawn refused" in record.getMessage()]
    assert 0 < len(refused) <= 3 * len(tasks)
    [told] = [record.getMessage() for record in refused if f"task={starts['links']} " in record.getMessage()]
    assert f"count={site.many - 30}" in told
    assert app.verify().ok
    Tally(
        matrix="F63", fault=f"web without an end, a page with {site.many:,} links", store=app.dialect,
        faults=len(starts), accepted=len(tasks), commits=len(tasks) - 2,
    ).keep()  # fmt: skip
