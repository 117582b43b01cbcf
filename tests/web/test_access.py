"""Who may do what: every route by role and method, on a public address and on loopback, and what no page may do."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from starlette.routing import Mount
from starlette.routing import Route as Path_

from onceward import App
from onceward.testing import FakeClock
from onceward.web.guard import HEADERS, Access
from onceward.web.roles import ROLE_NAMED, Role
from onceward.web.route import Route
from onceward.web.routes import ROUTES
from onceward.web.serving import serve
from onceward.web.site import Site
from tests.hostile_texts import HOSTILE, OBEYED
from tests.web.access_table import NEEDS
from tests.web.conftest import Answer, Client, client_of
from tests.web.shop import Order, Report, fill, shop

CHANGING = [route for route in ROUTES if route.changes and route.role]
LOOKING = [route for route in ROUTES if not route.changes and route.kind != "stream"]
FILLED = {"id": "2", "name": "usd", "number": "1"}


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def address(route: Route) -> str:
    """A path of a route, with something that is there."""
    names = {"sources": "bank", "schedules": "nightly", "settings": "size", "batches": "some", "budgets": "usd"}
    about = next((names[part] for part in route.path.split("/") if part in names), "usd")
    return re.sub(r"\{(\w+)(:path)?\}", lambda match: FILLED.get(match[1], about) if match[1] != "name" else about,
                  route.path)  # fmt: skip


def rows(app: App) -> dict[str, list[Any]]:
    """Everything that the database holds, but for what only says who has tried what."""
    tables = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'onceward%'",
        "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'onceward%%'",
    }[app.dialect]

    def look(connection: Any) -> dict[str, list[Any]]:
        names = [row[0] for row in connection.execute(tables).fetchall()]
        left_out = ("onceward_audit", "onceward_receipt")
        return {
            name: sorted(map(repr, connection.execute(f"SELECT * FROM {name}").fetchall()))
            for name in names
            if name not in left_out
        }

    return app.read(look)


@pytest.fixture
def app(store_url: str) -> Iterator[App]:
    with shop(store_url) as one:
        fill(one)
        yield one


@pytest.fixture
def public(app: App, runner: asyncio.Runner) -> Client:
    """The site as it is served on a public address."""
    return client_of(app, runner, Role.NONE)


@pytest.fixture
def local(app: App, runner: asyncio.Runner) -> Client:
    """The site as it is served on loopback, while there is no token."""
    return client_of(app, runner, Role.ADMIN)


def ask(client: Client, route: Route, headers: dict[str, str] | None = None) -> Answer:
    body = b"{}" if route.kind == "api" and route.changes else b""
    typed = {"content-type": "application/json"} if body else {}
    return client.ask(route.method, address(route), body, {**typed, **(headers or {})})


# The table


def test_every_route_is_in_the_table_with_the_role_that_it_needs() -> None:
    assert {name_of(route): route.role.word for route in ROUTES} == NEEDS


def test_the_site_serves_nothing_besides_the_table_and_the_files_of_the_pages() -> None:
    served = Site(App("sqlite:///:memory:"), Access()).asgi().routes
    paths = {(method, one.path) for one in served if isinstance(one, Path_) for method in one.methods or ()}
    assert paths - {(method, path) for method, path in paths if method == "HEAD"} == {
        (route.method, route.path) for route in ROUTES
    }
    assert [one.path for one in served if isinstance(one, Mount)] == ["/static"]
    assert len({name_of(route) for route in ROUTES}) == len(ROUTES)


def test_what_changes_something_is_no_get_and_says_what_it_does() -> None:
    assert all(route.about for route in ROUTES if route.changes)
    assert all(route.role for route in ROUTES if route.path not in ("/login", "/logout"))


# Without a token


def test_a_caller_without_a_token_learns_nothing_on_a_public_address(app: App, public: Client) -> None:
    before = rows(app)
    for secret in (
        {},
        {"authorization": "Bearer wrong"},
        {"cookie": "onceward_token=wrong"},
        {"authorization": "Basic eDp5"},
    ):
        for route in ROUTES:
            if not route.role:
                continue
            answer = ask(public, route, secret)
            assert answer.status in (401, 403), name_of(route)
            for told in ("plain", "bank", "onceward.db", "nightly", "shop"):
                assert told not in answer.text, name_of(route)
            if route.kind == "api":
                assert answer.header("content-type") == "application/problem+json"
    assert public.get("/nothing").status == 404
    assert rows(app) == before
    assert app.audit.list() == []


def test_an_address_that_others_reach_needs_a_token_before_it_is_served(app: App) -> None:
    for host, names in (
        ("0.0.0.0", None),
        ("::", None),
        ("192.168.1.5", None),
        ("", None),
        ("127.0.0.1", ["a.example"]),
    ):
        with pytest.raises(Exception, match="this database has no token"):
            serve(app, host, 0, host_names=names)


def test_the_command_refuses_a_public_address_without_a_token(store_url: str) -> None:
    with App(store_url) as app:
        app.migrate()
    done = subprocess.run(
        [sys.executable, "-m", "onceward", "web", "--db", store_url, "--host", "0.0.0.0", "--port", "0"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "onceward token add NAME --role admin" in " ".join(done.stderr.split())


# Roles


@pytest.mark.parametrize("word", ["viewer", "operator", "admin"])
def test_a_role_may_do_what_the_table_says_and_no_more(app: App, public: Client, word: str) -> None:
    caller = public.with_token(app.tokens.add("ada", word))
    role = ROLE_NAMED[word]
    may = [route for route in ROUTES if route.role <= role]
    may_not = [route for route in ROUTES if route.role > role]
    before = rows(app)
    for route in may_not:
        answer = ask(caller, route)
        assert answer.status == 403, name_of(route)
        assert f"this needs the role {NEEDS[name_of(route)]}; you are {word}" in answer.text
    assert rows(app) == before
    refused = {(one.action, one.author, one.role, one.outcome) for one in app.audit.list(limit=500)}
    assert refused == {(name_of(route), "ada", word, "refused") for route in may_not if route.changes}
    for route in may:
        if route.kind != "stream" and route.path != "/login":
            assert ask(caller, route).status not in (401, 403, 500), name_of(route)


def test_nothing_that_a_viewer_asks_for_changes_anything(app: App, public: Client) -> None:
    viewer = public.with_token(app.tokens.add("vera", "viewer"))
    before = rows(app)
    for route in ROUTES:
        if route.kind != "stream" and route.path not in ("/login", "/logout"):
            for method in {route.method, "GET", "POST", "PUT", "PATCH", "DELETE"}:
                viewer.ask(method, address(route), b"{}", {"content-type": "application/json"})
    assert rows(app) == before


def test_no_get_changes_anything_whoever_asks(app: App, local: Client) -> None:
    before = rows(app)
    for route in LOOKING:
        assert ask(local, route).status in (200, 400, 404), name_of(route)
    for route in CHANGING:
        assert local.get(address(route)).status in (200, 400, 404, 405), name_of(route)
    assert rows(app) == before


# Other sites


CROSS: list[dict[str, str]] = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost.evil.example"},
    {"origin": "http://localhost:81"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "origin": "http://localhost"},
    {"origin": "https://evil.example", "authorization": "Basic eDp5"},
    {"origin": "https://evil.example", "authorization": "Bearer"},
]


@pytest.mark.parametrize("headers", CROSS, ids=str)
def test_a_page_of_another_site_changes_nothing(app: App, local: Client, headers: dict[str, str]) -> None:
    before = rows(app)
    for route in [*CHANGING, *(one for one in ROUTES if one.path in ("/login", "/logout") and one.changes)]:
        answer = ask(local, route, headers)
        assert answer.status == 403, name_of(route)
        assert "another site" in answer.text
    assert rows(app) == before


def test_a_form_of_another_site_cannot_speak_json(local: Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = local.ask("POST", "/api/v1/tasks/2/retry", b'{"fresh":true}', {"content-type": kind})
        assert answer.status == 415


def test_a_program_with_a_token_may_come_from_anywhere(app: App, local: Client) -> None:
    caller = local.with_token(app.tokens.add("ada", "operator"))
    assert caller.post("/api/v1/tasks/2/retry", {}, {"origin": "https://shop.example"}).status == 200
    assert not caller.get("/api/v1/tasks").header("access-control-allow-origin")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:80", "[::2]"])
def test_a_foreign_name_is_refused_everywhere(local: Client, host: str) -> None:
    for route in ROUTES:
        assert ask(local, route, {"host": host}).status == 421, name_of(route)
    assert local.get("/nothing", {"host": host}).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8300", "127.0.0.1:8300", "[::1]:8300"])
def test_the_names_of_this_machine_are_served(local: Client, host: str) -> None:
    assert local.get("/api/v1/stats/counts", {"host": host}).status == 200


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
def test_what_a_proxy_passes_on_is_not_local(local: Client, header: str) -> None:
    assert local.get("/api/v1/stats/counts", {header: "203.0.113.7"}).status == 401


# Cookies and tokens


def sign_in(client: Client, secret: str, scheme: str = "http", **more: str) -> Answer:
    return client.ask(
        "POST", "/login", f"token={secret}&back={more.get('back', '/')}".encode(),
        {"content-type": "application/x-www-form-urlencoded", "x-scheme": scheme},
    )  # fmt: skip


def test_the_cookie_of_a_token_is_for_this_site_alone(app: App, public: Client) -> None:
    answer = sign_in(public, app.tokens.add("ada", "viewer"))
    assert (answer.status, answer.header("location")) == (303, "/")
    cookie = answer.header("set-cookie").lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/", "max-age="))
    assert "secure" not in cookie
    public.scheme = "https"
    assert "secure" in sign_in(public, app.tokens.add("bob", "viewer")).header("set-cookie").lower()


def test_a_cookie_lets_in_and_signing_out_takes_it(app: App, public: Client) -> None:
    cookie = sign_in(public, app.tokens.add("ada", "viewer")).header("set-cookie").partition(";")[0]
    assert public.get("/", {"cookie": cookie}).status == 200
    gone = public.form("/logout", {}, {"cookie": cookie}).header("set-cookie").lower()
    assert "max-age=0" in gone or "expires=" in gone


@pytest.mark.parametrize("back", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_signing_in_leads_to_no_other_site(app: App, public: Client, back: str) -> None:
    assert sign_in(public, app.tokens.add("ada", "viewer"), back=back).header("location") == "/"


def test_a_wrong_token_is_told_and_not_repeated(public: Client, app: App) -> None:
    app.tokens.add("ada", "viewer")
    answer = sign_in(public, "onceward_guessed")
    assert answer.status == 401
    assert "guessed" not in answer.text
    assert not answer.header("set-cookie")


def test_a_token_that_has_expired_or_was_revoked_lets_in_no_more(store_url: str, runner: asyncio.Runner) -> None:
    clock = FakeClock()
    with App(store_url, clock=clock) as app:
        public = client_of(app, runner, Role.ADMIN)
        short = public.with_token(app.tokens.add("ada", "viewer", expires="1h"))
        long = public.with_token(app.tokens.add("bob", "viewer"))
        assert {one.get("/api/v1/stats/counts").status for one in (short, long)} == {200}
        clock.advance(3_601)
        assert [one.get("/api/v1/stats/counts").status for one in (short, long)] == [401, 200]
        app.tokens.revoke("bob")
        assert long.get("/api/v1/stats/counts").status == 401
        assert public.get("/api/v1/stats/counts").status == 401  # an expired token still says that tokens are needed


def test_no_secret_of_a_token_is_stored(app: App) -> None:
    secret = app.tokens.add("ada", "viewer")
    assert secret not in str(rows(app))


# Headers, base path, hostile texts


def test_every_answer_has_the_headers_that_keep_scripts_and_frames_out(local: Client) -> None:
    for answer in (*(ask(local, route) for route in LOOKING), local.get("/nothing"), local.get("/static/style.css")):
        for name, value in HEADERS.items():
            assert answer.header(name.lower()) == value
        assert "unsafe" not in answer.header("content-security-policy")


def test_every_address_of_a_page_stands_below_the_base_path(local: Client) -> None:
    for route in LOOKING:
        if route.kind == "page":
            answer = local.ask("GET", f"/onceward{address(route)}", root="/onceward")
            linked = re.findall(r"""(?:href|src|action|hx-get|hx-post|data-live)=["']([^"'#][^"']*)["']""", answer.text)
            assert linked
            assert not [one for one in linked if not one.startswith(("/onceward/", "https://", "?"))], name_of(route)
    gone = local.ask("POST", "/onceward/logout", root="/onceward")
    assert gone.header("location") == "/onceward/login"


HOSTILE_TEXTS = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'-alert(1)-'", "{{7*7}}", "=1+1",
                 *HOSTILE.values()]  # fmt: skip


def test_hostile_texts_show_as_text_on_every_page(store_url: str, runner: asyncio.Runner) -> None:
    with shop(store_url) as app:
        for number, text in enumerate(HOSTILE_TEXTS):
            app.enqueue(Order(text, "fail"))
            app.enqueue(Report(text))
            with app.batch(f"{number} {''.join(filter(str.isprintable, text))}") as batch:
                batch.add(Order(text, "wait"))
            app.audit.record(author=text, role="viewer", action=text, target={text: text}, note=text)
        app.run(until_idle=True)
        client = client_of(app, runner)
        pages = [address(route) for route in LOOKING if route.kind == "page"]
        for path in (*pages, "/<script>alert(1)</script>", "/tasks/x<script>alert(1)</script>"):
            text = client.get(path).text
            assert "<script>alert" not in text, path
            assert "<img src=x" not in text, path
            assert not OBEYED.search(text), path


def test_a_viewer_sees_no_secret_field_on_any_page(app: App, public: Client) -> None:
    viewer, operator = (public.with_token(app.tokens.add(role, role)) for role in ("viewer", "operator"))
    shown_to_operators = 0
    for route in LOOKING:
        if route.kind in ("page", "file"):
            for number in range(1, 8):
                path = address(route) if "{id" not in route.path else route.path.replace("{id}", str(number))
                assert "4111" not in viewer.get(path).text, path
                shown_to_operators += "4111" in operator.get(path).text
    assert shown_to_operators > 3


def test_a_large_payload_is_answered(app: App, local: Client) -> None:
    number = app.enqueue(Report("x" * 5_000_000)).id
    assert len(local.get(f"/api/v1/tasks/{number}").body) > 5_000_000
    for route in LOOKING:
        if route.kind == "page" and "{id}" in route.path:
            answer = local.get(route.path.replace("{id}", str(number)))
            assert answer.status in (200, 404)
            assert len(answer.body) < 1_000_000, name_of(route)


# Trouble


def test_a_slow_reader_of_an_export_is_not_read_ahead_for(app: App, local: Client, runner: asyncio.Runner) -> None:
    for start in range(0, 2_000, 500):
        app.enqueue_many([Report(f"{n}") for n in range(start, start + 500)])
    asked: list[object] = []
    search = app.tasks.asearch

    async def counted(*arguments: Any) -> Any:
        asked.append(arguments)
        return await search(*arguments)

    async def read_slowly() -> None:
        taken = asyncio.Event()

        async def send(message: dict[str, Any]) -> None:
            taken.set()
            if message.get("body"):
                await asyncio.Event().wait()  # the reader stops here

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            return {}

        scope = {"type": "http", "method": "GET", "path": "/api/v1/tasks/export", "query_string": b"", "headers":
                 [(b"host", b"localhost")], "scheme": "http", "server": ("localhost", 80), "root_path": "",
                 "http_version": "1.1", "raw_path": b"", "client": ("127.0.0.1", 1)}  # fmt: skip
        serving = asyncio.create_task(local.asgi(scope, receive, send))
        await taken.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    app.tasks.__dict__["asearch"] = counted
    runner.run(read_slowly())
    assert len(asked) <= 1


def test_a_caller_who_never_ends_a_request_is_sent_away(
    local: Client, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceward.web.view.SENT_WITHIN_S", 0.01)
    answer = runner.run(local.ask_slowly("POST", "/api/v1/tasks", b'{"kind":'))
    assert answer.status == 408


@pytest.fixture(params=["sqlite", "postgres"])
def away(request: pytest.FixtureRequest) -> Iterator[tuple[str, Callable[[], None]]]:
    """A database that is not there yet, and how it comes."""
    if request.param == "sqlite":
        folder = request.getfixturevalue("tmp_path") / "not yet"
        yield f"sqlite:///{folder}/onceward.db", folder.mkdir
        return
    server = request.getfixturevalue("postgres_server_url")

    def come() -> None:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE DATABASE not_yet")

    yield server.replace("/postgres?", "/not_yet?", 1), come
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS not_yet WITH (FORCE)")


def test_a_database_that_is_away_is_said_and_comes_back(
    away: tuple[str, Callable[[], None]], runner: asyncio.Runner
) -> None:
    url, come = away
    with shop(url) as app:
        app._in_force.pin(database_wait="100ms")
        client = client_of(app, runner)
        page, answer = client.get("/"), client.get("/api/v1/tasks")
        assert (page.status, answer.status) == (503, 503)
        assert (page.header("retry-after"), answer.header("retry-after")) == ("3", "3")
        assert '<meta http-equiv="refresh"' in page.text
        assert answer.json["detail"].startswith("the database does not answer")
        hidden = client_of(app, runner, Role.NONE).with_token("onceward_unknown").get("/api/v1/tasks")
        assert hidden.status == 503
        assert "not_yet" not in hidden.text
        assert "not yet" not in hidden.text
        come()
        app.migrate()
        assert client.get("/").status == 200
        assert client.get("/api/v1/tasks").json["tasks"] == []


def test_a_mistake_of_ours_is_logged_and_not_shown(
    app: App, local: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong() -> None:
        raise ZeroDivisionError("an inner place")

    monkeypatch.setitem(app.stats.__dict__, "acounts", wrong)
    monkeypatch.setitem(app.stats.__dict__, "hour", wrong)
    for path in ("/api/v1/stats/counts", "/"):
        answer = local.get(path)
        assert answer.status == 500
        assert "inner place" not in answer.text
    assert "inner place" in caplog.text
