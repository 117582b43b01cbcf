"""Tokens of the dashboard and the audit log: secrets that are kept nowhere, names, expiry, and pruning."""

from __future__ import annotations

import pytest

from onceward import App, ConfigError
from onceward.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def app(store_url: str, clock: FakeClock) -> App:
    return App(store_url).on(store_url, clock=clock)


def test_a_token_is_known_by_its_secret_which_the_database_does_not_have(app: App) -> None:
    with app:
        assert not app.tokens.any()
        secret = app.tokens.add("ada", "operator", author="grace")
        assert app.tokens.any()
        grant = app.tokens.check(secret)
        assert grant is not None
        assert (grant.name, grant.role) == ("ada", "operator")
        assert app.tokens.check(secret[:-1]) is None
        rows = app.read(lambda connection: connection.execute("SELECT * FROM onceward_token").fetchall())
        assert secret not in str(rows)
        assert [(one.name, one.role, one.author) for one in app.tokens.list()] == [("ada", "operator", "grace")]


def test_a_token_ends_when_it_expires_or_is_revoked(app: App, clock: FakeClock) -> None:
    with app:
        short, long = app.tokens.add("short", expires="1h"), app.tokens.add("long")
        clock.advance("59m")
        assert app.tokens.check(short) is not None
        clock.advance("2m")
        assert app.tokens.check(short) is None
        assert app.tokens.check(long) is not None
        assert app.tokens.revoke("long")
        assert app.tokens.check(long) is None
        assert not app.tokens.revoke("long")


@pytest.mark.parametrize(
    ("name", "role", "said"),
    [
        ("", "viewer", "name=''"),
        ("a b", "viewer", "name='a b'"),
        ("ada", "root", "viewer"),
        ("taken", "viewer", "'taken'"),
    ],
)
def test_a_token_that_cannot_be_is_refused(app: App, name: str, role: str, said: str) -> None:
    with app:
        app.tokens.add("taken")
        with pytest.raises(ConfigError, match=said):
            app.tokens.add(name, role)
        assert [one.name for one in app.tokens.list()] == ["taken"]


def test_the_audit_log_is_read_newest_first_and_pruned_by_age(app: App, clock: FakeClock) -> None:
    with app:
        for number in range(5):
            app.audit.record(
                author="ada", role="admin", action="POST /x", target={"id": number}, note="a\0b" + "n" * 2_000
            )
            clock.advance("1d")
        newest = app.audit.list(limit=2)
        assert [one.target for one in newest] == ["id=4", "id=3"]
        assert [one.target for one in app.audit.list(before=newest[-1].id)] == ["id=2", "id=1", "id=0"]
        assert all(len(one.note) <= 1_000 and "\0" not in one.note for one in newest)
        app.tasks.prune("60h")
        assert [one.target for one in app.audit.list()] == ["id=4", "id=3"]
