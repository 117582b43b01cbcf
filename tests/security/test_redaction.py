"""Secrets in errors, reasons and log lines get neither into the database nor into the log."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onceward import App, ConfigError, redaction
from onceward.cli.exits import BAD_ANSWER, FINE, carried_out
from onceward.redaction import GONE, know_address, know_environment, know_secret, redacted, redacted_value
from tests.security.leaky import CANARY, DATABASE, LEAKS, WEBHOOK, WRITTEN, app_on

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests of this process have called secrets are none here."""
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_known_pattern", None)


SECRETS = {
    "a password in an address": ("cannot reach postgresql://ada:{}@db.example:5432/x", "hunter2hunter2"),
    "no password, but a token": ("cannot clone https://{}@example.com/repo.git", "abcdef0123456789abcdef"),
    "a parameter": ("401 for https://api.example.com/v1?api_key={}&page=2", "0123456789abcdef"),
    "a token in a query": ("404 for https://example.com/a?page=2&token={}#x", "plainwords"),
    "a key in a query": ("GET https://maps.example.com/v1?key={}", "opensesame"),
    "a signed address": ("403 for https://bucket.example.com/a?X-Amz-Signature={}&x=1", "0a1b2c3d"),
    "a header": ("{{'Authorization': 'Bearer {}', 'Accept': '*/*'}}", "abc.def-ghi_123"),
    "a raw header": ("authorization: Basic {}", "YWRhOmh1bnRlcjI="),
    "another header": ("x-api-key: {}", "0123-4567"),
    "bytes": ("{{b'X-Auth-Token': b'{}'}}", "t0p-s3cret"),
    "JSON": ('{{"client_secret": "{}", "grant": "x"}}', "very-secret"),
    "JSON in JSON": ('"{{\\"password\\": \\"{}\\"}}"', "hunter2"),
    "an assignment": ("PASSWORD={} is wrong", "correcthorse"),
    "a cookie": ("Cookie: session={}; theme=dark", "a81bc81b-dead-4e5d"),
    "OpenAI": ("Incorrect API key provided: {}.", "sk-proj-abcdefghijklmnop0123456789"),
    "Anthropic": ("invalid x: {}", "sk-ant-api03-abcdefgh-ijklmnop"),
    "GitHub": ("bad credentials {}", "ghp_0123456789abcdefghijABCDEFGHIJ012345"),
    "AWS": ("{} is not valid", "AKIAIOSFODNN7EXAMPLE"),
    "Google": ("key {}", "AIzaSyA-0123456789abcdefghijklmnopqrstu"),
    "Slack": ("{} revoked", "xoxb-123456789012-abcdefGHIJKL"),
    "Stripe": ("No such key: {}", "sk_live_0123456789abcdefghij"),
    "a JWT": ("token {} expired", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"),
    "a private key": (
        "cannot read -----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        "MIIEowIBAAKCAQEA",
    ),
    "half a private key": ("cannot read -----BEGIN PRIVATE KEY-----\n{}", "MIIEowIBAAKCAQEA"),
}


@pytest.mark.parametrize("what", SECRETS)
def test_what_looks_like_a_secret_is_taken_out(what: str) -> None:
    text, secret = SECRETS[what]
    shown = redacted(text.format(secret))
    assert secret not in shown
    assert GONE in shown
    assert redacted(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'token'",
        "SyntaxError: unexpected token: ')'",
        "invalid key: 'name' is not in the table",
        "Basic authentication is not supported",
        "https://example.com/a/b?page=2&sort=key#secret",
        "mail to ada@example.com failed",
        "foreign key constraint fails",
        "ValueError: invalid literal for int() with base 10: 'x'",
        "HTTP 500 for https://example.com:8443/path@2x.png",
        "the password is too short",
        "primary key (id)=(7) already exists",
        "took 12 tokens, 3 left",
        "password: must have at least 8 characters",
        "credentials: not found; secret is missing",
        "the token expired. Basic authentication.",
        "Unexpected token undefined.",
        "duplicate key: 550e8400-e29b-41d4-a716-446655440000",
        "another task has the key offer-2024-000123, key=offer-2024-000123",
        "password=None, token=null",
        "authors: Ada Lovelace; secretary: none; passenger: 12; significant: 0.05",
        "no route to 10.0.0.7:5432 at 2026-11-16T03:00:00+00:00",
        "",
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "piece",
    ["a", "://", "key=", "token='", "Bearer ", "x-", "-----BEGIN ", "eyJ", "sk-", "secret_", "key=a1", "cookie=", " ",
     "@", "-----BEGIN PRIVATE KEY-----", "password: ", "eyJhbGciOi-", "SG.abcdefgh-"],
)  # fmt: skip
def test_no_text_takes_long(piece: str) -> None:
    """A server can answer with anything: what comes of it is read by a worker that has other things to do."""
    began = time.thread_time()
    redacted((piece * 10_000)[:10_000])
    assert time.thread_time() - began < 0.5
    text = (piece * 400_000)[:400_000]  # an answer in the trace of an error that is logged
    began = time.thread_time()
    redacted(text)
    assert time.thread_time() - began < 5


def test_what_the_environment_calls_a_secret_is_taken_out_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PROVIDER_TOKEN", "plainword")
    monkeypatch.setenv("SHOP_URL", "https://shop:p%40ssw0rd@example.com")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/etc/google.json")
    monkeypatch.setenv("SHORT_KEY", "abc")
    monkeypatch.setenv("LANG_NAME", "somebody")
    know_environment()
    assert redacted("it said plainword, p%40ssw0rd and p@ssw0rd") == f"it said {GONE}, {GONE} and {GONE}"
    assert redacted("plainwordsmith") == "plainwordsmith", "a plain word is not looked for in longer ones"
    assert redacted("no file /etc/google.json, abc, somebody") == "no file /etc/google.json, abc, somebody"


def test_a_process_can_be_told_what_is_secret() -> None:
    know_secret("swordfish-of-this-test")
    know_address("postgresql://ada:gr%C3%BCn-of-this-test@db/x?sslmode=require")
    know_address("host=db user=ada password=dsn-of-this-test")
    know_secret(None)
    assert redacted("swordfish-of-this-test grün-of-this-test dsn-of-this-test") == " ".join([GONE] * 3)


def test_values_of_a_log_line_are_looked_through() -> None:
    shown = redacted_value(
        {"headers": {"Authorization": "abc", "accept": "x"}, "urls": ["https://a:bcdefgh@x/"], "n": 7, "password": "x"}
    )
    assert shown == {
        "headers": {"Authorization": GONE, "accept": "x"},
        "urls": [f"https://{GONE}@x/"],
        "n": 7,
        "password": GONE,
    }


def test_an_address_that_is_none_is_shown_without_its_password() -> None:
    for address in ("mysql://ada:swordfish9@db/x", "ada:swordfish9@db"):
        with pytest.raises(ConfigError) as error:
            App(address)
        assert "swordfish9" not in str(error.value) or "://" not in address


# From end to end


def everything_stored(url: str, folder: Path) -> Iterator[bytes]:
    """All that a database holds, and all files beside it."""
    if url.startswith("postgres"):
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            for (table,) in rows:
                for row in connection.execute(f"SELECT * FROM {table}"):
                    yield repr([bytes(one) if isinstance(one, memoryview) else one for one in row]).encode()
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("said.log",):
            yield path.read_bytes()


@pytest.mark.parametrize(
    ("store", "form"),
    [
        ("sqlite", "json"),
        ("postgres", "text"),
        pytest.param("sqlite", "standard", marks=pytest.mark.torture),
        pytest.param("sqlite", "structlog", marks=pytest.mark.torture),
    ],
)
def test_no_secret_gets_into_the_database_the_log_or_the_command_line(
    request: pytest.FixtureRequest, store: str, form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url: str = request.getfixturevalue(f"migrated_{store}_url")
    url += f"&password={CANARY['database']}" if store == "postgres" else ""
    with app_on(url) as app:
        tasks = [app.enqueue(leak) for leak in LEAKS]
    environment = {
        **os.environ,
        DATABASE: url,
        "LEAKY_API_KEY": CANARY["environment"],
        "ONCEWARD_ALERT_WEBHOOK": WEBHOOK,
    }
    with (tmp_path / "said.log").open("wb") as said:
        command = [sys.executable, "-m", "tests.security.leaky", form]
        subprocess.run(command, cwd=ROOT, env=environment, stdout=said, stderr=said, check=True, timeout=100)
    log = (tmp_path / "said.log").read_text()
    with app_on(url) as app:
        told = [(app.task(task.id).reason or "") + repr(app.task(task.id).history) for task in tasks]
    assert all(GONE in reason for reason in told), told
    assert GONE in log
    assert "stage failed" in log
    assert WRITTEN in log
    shown = "".join(answers(url, tasks[0].id, capfd))
    assert GONE in shown
    for name, secret in CANARY.items():
        assert secret not in log, f"{name} is in the log"
        assert secret not in shown, f"{name} is shown by the command line"
        for stored in everything_stored(url, tmp_path):
            assert secret.encode() not in stored, f"{name} is stored"


COMMANDS = ("status", "tasks", "stats", "verify", "alerts", "sources", "budgets", "settings", "lineages", "why", "task")


def answers(url: str, task: int, capfd: pytest.CaptureFixture[str]) -> Iterator[str]:
    """What every command says that looks at a database, as a screen and as JSON."""
    for command in COMMANDS:
        for form in ((), ("--json",)):
            code = carried_out([command, *([str(task)] if command in ("task", "why") else []), "--db", url, *form])
            written = capfd.readouterr()
            assert code in (FINE, BAD_ANSWER), written
            yield written.out + written.err


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ada:{}@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?user=ada&password={}",
        "postgresql://ada:{}@127.0.0.1:port/x",
        "mysql://ada:{}@db/x",
        "host=127.0.0.1 password={}",
    ],
)
def test_the_command_line_says_no_password(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert carried_out(["status", "--debug", "--db", address.format("canary-of-an-address")]) != FINE
    written = capfd.readouterr()
    assert "onceward: " in written.err
    assert "canary-of-an-address" not in written.out + written.err


def test_what_an_application_stores_is_its_own(store_url: str) -> None:
    """Nothing is taken out of payloads and results: nobody could work with them."""
    from tests.security.leaky import Keeper

    with app_on(store_url) as app:
        task = app.enqueue(Keeper("sk-ant-api03-abcdefgh-ijklmnop")).id
        app.run(until_idle=True)
        done: Any = app.task(task)
        assert (done.payload.text, done.results) == (
            "sk-ant-api03-abcdefgh-ijklmnop",
            {"keep": "sk-ant-api03-abcdefgh-ijklmnop"},
        )
