"""Secret fields of payloads: stored by kind, and masked for viewers wherever a payload or a key is shown."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import App, ConfigError, Context, Payload, Pipeline
from onceward.model.secret_fields import MASK, masked, masked_key
from onceward.web.roles import Caller, Role
from onceward.web.shown import shown_key, shown_key_of, shown_payload

VIEWER, OPERATOR, ADMIN = (Caller("ada", role) for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN))


class Login(Payload, kind="login", secret=("password",)):
    user: str
    password: str


class Packed(Payload, kind="packed", secret=("second",), array_like=True):  # type: ignore[call-arg]
    first: str
    second: str


class Renamed(Payload, kind="renamed", secret=("pass_word",), rename="camel"):  # type: ignore[call-arg]
    pass_word: str


class Note(Payload, kind="note"):
    text: str


def app_of(url: str, *classes: type[Payload]) -> App:
    pipelines = []
    for one in classes:
        pipeline: Pipeline[Any] = Pipeline(one)

        @pipeline.stage
        def work(ctx: Context[Any]) -> None:
            pass

        pipelines.append(pipeline)
    return App(url, pipelines)


@pytest.mark.parametrize("secret", ["password", ("passwort",), (7,)])
def test_a_secret_that_is_no_field_is_refused(secret: Any) -> None:
    with pytest.raises(ConfigError, match="secret"):

        class Odd(Payload, kind="odd", secret=secret):
            password: str


def test_a_viewer_sees_no_secret_field_and_an_operator_does(store_url: str) -> None:
    with app_of(store_url, Login, Packed, Renamed) as app:
        ids = [app.enqueue(one).id for one in (Login("ada", "hunter2"), Packed("a", "hunter2"), Renamed("hunter2"))]
        for number in ids:
            task = app.tasks.get(number)
            for caller in (OPERATOR, ADMIN):
                assert "hunter2" in str(shown_payload(task, caller))
                assert "hunter2" in shown_key(task, caller)
            assert "hunter2" not in str(shown_payload(task, VIEWER)) + shown_key(task, VIEWER)
        assert shown_payload(app.tasks.get(ids[0]), VIEWER) == {"user": "ada", "password": MASK}
        assert shown_payload(app.tasks.get(ids[1]), VIEWER) == ["a", MASK]
        assert shown_payload(app.tasks.get(ids[2]), VIEWER) == {"passWord": MASK}


def test_an_app_without_code_knows_what_a_worker_has_stored(store_url: str) -> None:
    with app_of(store_url, Login, Note) as app:
        login, note = app.enqueue(Login("ada", "hunter2")).id, app.enqueue(Note("hello")).id
        app.run(until_idle=True)
        assert app.tasks.secret_fields() == {"login": {"password"}, "note": frozenset()}
    with App(store_url) as app:
        assert shown_payload(app.tasks.get(login), VIEWER) == {"user": "ada", "password": MASK}
        assert [shown_payload(one, VIEWER) for one in app.tasks.list(kind="note")] == [{"text": "hello"}]
        assert shown_key(app.tasks.get(note), VIEWER) == '{"text":"hello"}'
        tree = app.lineages.get(login)
        secret = app.tasks.secret_fields()
        assert "hunter2" in tree.root.key
        assert "hunter2" not in shown_key_of(tree.root.kind, tree.root.key, VIEWER, secret)


def test_a_field_that_was_secret_once_stays_so(store_url: str) -> None:
    with app_of(store_url, Login) as app:
        number = app.enqueue(Login("ada", "hunter2")).id
        app.run(until_idle=True)

    class Open(Payload, kind="login"):
        user: str
        password: str

    with app_of(store_url, Open) as app:
        app.run(until_idle=True)
        assert shown_payload(app.tasks.get(number), VIEWER) == {"user": "ada", "password": MASK}


def test_of_a_kind_of_which_nothing_is_known_a_viewer_sees_no_value(store_url: str) -> None:
    with app_of(store_url, Note) as app:
        number = app.enqueue(Note("hunter2")).id
    with App(store_url) as app:
        task = app.tasks.get(number)
        assert shown_payload(task, VIEWER) == {"text": MASK}
        assert shown_payload(task, OPERATOR) == {"text": "hunter2"}
        assert "hunter2" not in shown_key(task, VIEWER)


def test_bytes_that_are_no_json_are_masked_whole() -> None:
    assert masked(b"not json hunter2", None) == MASK
    assert masked(b"not json hunter2", frozenset({"x"})) == MASK
    assert masked_key('{"a":"hunter2', frozenset({"a"})) == MASK
    assert masked_key('{"a":"b"}', frozenset()) == '{"a":"b"}'
    assert masked_key("a key of its own", None) == "a key of its own"
