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

from onceward import App, ConfigError
from onceward.cli.exits import BAD_ANSWER, FINE, carried_out
from onceward.support import redaction
from onceward.support.redaction import know_address, know_environment, know_secret, redacted, redacted_value
from onceward.support.secret_forms import FORMS, GONE, Form
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
    "a name with a prefix": ("AWS_SECRET_ACCESS_KEY={}", "wJalr-of-this-test"),
    "a name in camel case": ('{{"dbPassword":"{}"}}', "correcthorse"),
    "a connection string": ("AccountName=a;AccountKey={};EndpointSuffix=x", "c29tZXRoaW5n=="),
    "a header of a gateway": ("Ocp-Apim-Subscription-Key: {}", "0123456789abcdef"),
    "a value with spaces": ("connect(password='{}', port=1)", "correct horse battery"),
    "a value with an escaped quote": (r"{{'password': '{}'}}", r"it\'s mine"),
    "a value that begins like a sentence": ("password=no-{}", "way-1"),
    "many spaces": ("password     :     {}", "correcthorse"),
    "the next line": ("password:\n  {}", "correcthorse"),
    "an arrow": ("'password' => '{}'", "correcthorse"),
    "a tuple": ("('password', '{}')", "correcthorse"),
    "a list of variables": ('{{"name": "DB_PASSWORD", "value": "{}"}}', "correcthorse"),
    "attributes": ('<add key="ClearTextPassword" value="{}" />', "correcthorse"),
    "a form": ("user%3Dada%26password%3D{}", "correcthorse"),
    "a JWT": ("token {} expired", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"),
    "a private key": (
        "cannot read -----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        "MIIEowIBAAKCAQEA",
    ),
    "half a private key": ("cannot read -----BEGIN PRIVATE KEY-----\n{}", "MIIEowIBAAKCAQEA"),
}


HEX = "0a1b2c3d" * 8
"""Keys of providers are put together from a prefix and this, so that the source has none that looks real."""
SAMPLES = {
    "private key": "-----BEGIN PGP {} BLOCK-----\nlQdGBF\n-----END PGP {} BLOCK-----".replace("{}", "PRIVATE KEY"),
    "PuTTY key": "PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 1\nlQdGBF\nPrivate-MAC: 00",
    "user in an address": "https://lQdGBF@example.com/repo.git",
    "password with a slash in an address": "svc://ada:ab/lQdGBF@example.com/x",
    "password with spaces in an address of a database": "postgresql://ada:ab lQdGBF cd@example.com:port/x",
    "cookie": "Cookie: a=lQdGBF; b=c",
    "named value": "passphrase: lQdGBF",
    "XML element": "<ns:Password type='x'>lQdGBF</ns:Password>",
    "option of a command": "tool --token lQdGBF --verbose",
    "password joined to an option": "mysql -uada -plQdGBF01",
    "user of a command": "curl -u ada:lQdGBF https://example.com",
    "password in a sentence": "the password is lQdGBF01",
    "parameter of an address": "https://example.com/?a=1&pass=lQdGBF",
    "code in an address": "https://example.com/?code=lQdGBFlQdGBF",
    "token": "token=lQdGBF012345",
    "scheme of a header": "bearer lQdGBF01",
    "JSON web token": "eyJhbGciOiJI.lQdGBF01",
    "Slack hook": "https://hooks.slack.com/" + "services/T0/B0/lQdGBF",
    "Discord hook": "https://discord.com/api/webhooks/1/lQdGBF",
    "Teams hook": "https://x.webhook.office.com/webhookb2/lQdGBF",
    "Telegram bot": "https://example.com/bot1234567:" + "AA" + "lQdGBF" * 6 + "/send",
    "Azure client secret": "x " + "abc8" + "Q~" + "lQdGBF0" * 5,
    "Mailchimp": "0a1b2c3d" * 4 + "-us21",
    "Terraform": "lQdGBF01234567." + "atlasv1." + "lQdGBF0" * 9,
    "MaxMind": "lQdGBF_" + "lQdGBF0" * 4 + "l_mmk",
}
TAILS = {
    **dict.fromkeys(("AKIA", "ASIA", "ABIA", "ACCA", "A3T"), "IOSFODNN" * 2),
    "AIza": "Sy" + HEX[:33], "API-": "IOSFODNN" * 3 + "AB", "SG.": f"{HEX[:22]}.{HEX[:43]}", "pat": f"{HEX[:14]}.{HEX}",
    "pat.": f"{HEX[:22]}.{HEX[:24]}.{HEX[:20]}", "sat.": f"{HEX[:22]}.{HEX[:24]}.{HEX[:20]}",
    "re_": f"{HEX[:8]}_{HEX[:24]}",
    "A3-": "ABCDEF-ABCDEF-ABCDE-ABCDE-ABCDE-ABCDE", "v1.0-": f"{HEX[:24]}-{HEX}{HEX}", "t1.": f"{HEX}.{HEX}{HEX[:22]}",
    "bedrock-api-key-": "YmVkcm9jay" * 4,
    "access-": f"production-{HEX[:8]}-{HEX[:4]}-{HEX[:4]}-{HEX[:4]}-{HEX[:12]}",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_each_form_takes_out_what_no_other_form_takes_out(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SAMPLES.get(form.name) or f"refused: {form.name}{TAILS.get(form.name, HEX)}."
    secret = "lQdGBF" if form.name in SAMPLES else TAILS.get(form.name, HEX)
    secret = HEX[:32] if form.name == "Mailchimp" else secret
    shown = redacted(text)
    assert secret not in shown
    assert GONE in shown
    assert redacted(shown) == shown
    monkeypatch.setattr(redaction, "HINTS", [(hint, one) for hint, one in redaction.HINTS if one is not form])
    assert secret in redacted(text), "another form takes it out as well: this sample proves nothing"


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
        "primary_key=7, sort_key: name, idempotency_key=a-1, cache_key='x'",
        "max_tokens: 4096, tokens=12, pass=12 fail=2, --port 8080 -p8080",
        "onceward: task-force-1234567890 in risk-assessment-2026 of /srv/disk-images/a.img",
        "no such column: passwords, secretary, compass=north",
        "no route to 10.0.0.7:5432 at 2026-11-16T03:00:00+00:00",
        "",
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "piece",
    ["a", "://", "key=", "token='", "Bearer ", "x-", "-----BEGIN ", "eyJ", "sk-", "secret_", "key=a1", "cookie=", " ",
     "@", "-----BEGIN PRIVATE KEY-----", "password: ", "eyJhbGciOi-", "SG.abcdefgh-", "password", "a_", "a_token",
     "<password ", "<a:password>", "postgres://a:b ", "a://b:c/", "password='a", "'password', 'a", " -pa1", "--token ",
     "-u a:", "password is ", "1:AA", "12345678", "abc1Q~", "?code=", "t1.a", "access_key", "PuTTY-User-Key-File-1"],
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
    monkeypatch.setenv("PGPASSWORD", "otherword")
    monkeypatch.setenv("PWD", "/of/a/folder")
    monkeypatch.setenv("LANG_NAME", "somebody")
    know_environment()
    assert redacted("it said plainword, p%40ssw0rd and p@ssw0rd") == f"it said {GONE}, {GONE} and {GONE}"
    assert redacted("otherword in /of/a/folder") == f"{GONE} in /of/a/folder"
    assert redacted("plainwordsmith") == "plainwordsmith", "a plain word is not looked for in longer ones"
    assert redacted("no file /etc/google.json, abc, somebody") == "no file /etc/google.json, abc, somebody"


def test_a_process_can_be_told_what_is_secret() -> None:
    know_secret("swordfish-of-this-test")
    know_address("postgresql://ada:gr%C3%BCn-of-this-test@db/x?sslmode=require")
    know_address("host=db user=ada password=dsn-of-this-test")
    know_address("host=db user=ada password='two of this test' sslpassword=ssl-of-this-test")
    know_address("postgresql://ada:ab cd/e@f@db/x")
    know_secret(None)
    for secret in ("swordfish-of-this-test", "grün-of-this-test", "dsn-of-this-test", "two of this test",
                   "ssl-of-this-test", "ab cd/e@f"):  # fmt: skip
        assert redacted(f"it said {secret}.") == f"it said {GONE}."


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
        told = [(app.tasks.get(task.id).reason or "") + repr(app.tasks.get(task.id).history) for task in tasks]
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
    for password in ("canary-of-an-address", "canary of an address", "can/ry", "pw1"):
        if " " in password and "=" in address:
            continue  # in a query or a list of words it ends at the space
        assert carried_out(["status", "--debug", "--db", address.format(password)]) != FINE
        written = capfd.readouterr()
        assert "onceward: " in written.err
        assert password not in written.out + written.err


def test_what_an_application_stores_is_its_own(store_url: str) -> None:
    """Nothing is taken out of payloads and results: nobody could work with them."""
    from tests.security.leaky import Keeper

    with app_on(store_url) as app:
        task = app.enqueue(Keeper("sk-ant-api03-abcdefgh-ijklmnop")).id
        app.run(until_idle=True)
        done: Any = app.tasks.get(task)
        assert (done.payload.text, done.results) == (
            "sk-ant-api03-abcdefgh-ijklmnop",
            {"keep": "sk-ant-api03-abcdefgh-ijklmnop"},
        )
