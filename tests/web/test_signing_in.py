"""Signing in: what a caller who is not known sees, and where a token leads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from html import unescape

import pytest

from onceward import App
from onceward.web.roles import Role
from tests.web.conftest import Client, client_of


@pytest.fixture
def app(store_url: str) -> Iterator[App]:
    with App(store_url) as app:
        yield app


@pytest.fixture
def public(app: App, runner: asyncio.Runner) -> Client:
    return client_of(app, runner, Role.NONE)


def footer(text: str) -> str:
    return re.findall(r'<footer class="foot">.*?</footer>', text, re.DOTALL)[0]


def test_a_caller_who_is_not_known_does_not_learn_which_database_it_is(app: App, public: Client) -> None:
    secret = app.tokens.add("ada", "viewer")
    known = footer(public.with_token(secret).get("/tasks").text)
    place = re.findall(r"<span>([^<]+) · ", known)[0]
    for answer in (
        public.get("/login"),
        public.form("/login", {"token": "onceward_guessed"}),
        public.get("/tasks"),
        public.get("/nothing-like-it"),
    ):
        assert place not in answer.text
        assert " · " not in footer(answer.text)


@pytest.mark.parametrize("root", ["", "/onceward"])
def test_a_token_leads_to_the_page_that_was_asked_for_with_its_question(app: App, public: Client, root: str) -> None:
    asked = public.ask("GET", f"{root}/tasks?filter=status%3Afailed", root=root)
    [back] = re.findall(r'name="back" value="([^"]*)"', asked.text)
    form = f"token={app.tokens.add('ada', 'viewer')}&back={unescape(back).replace('%', '%25')}".encode()
    typed = {"content-type": "application/x-www-form-urlencoded"}
    answer = public.ask("POST", f"{root}/login", form, typed, root=root)
    assert (answer.status, answer.header("location")) == (303, f"{root}/tasks?filter=status%3Afailed")


def test_a_program_is_told_whether_its_token_is_missing_or_not_good(app: App, public: Client) -> None:
    app.tokens.add("ada", "viewer")
    assert "send a token as a bearer" in public.get("/api/v1/tasks").json["detail"]
    wrong = public.with_token("onceward_guessed").get("/api/v1/tasks")
    assert wrong.status == 401
    assert "is not known, has expired or was revoked" in wrong.json["detail"]
