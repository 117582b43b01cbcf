"""Schemathesis over the OpenAPI document: whatever it sends, no answer is a failure of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import urlencode

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck

from onceward.web import api
from tests.web.conftest import Client, client_of
from tests.web.shop import fill, shop

DOCUMENT = api.openapi.document(api.OPERATIONS)
OPERATIONS = [(path, method) for path, ones in DOCUMENT["paths"].items() for method in ones]


@cache
def schema() -> Any:
    """The document, read once."""
    return schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The site of an app in which much has happened; what is sent changes it on and on."""
    url = f"sqlite:///{tmp_path_factory.mktemp('fuzzed') / 'onceward.db'}"
    with asyncio.Runner() as runner, shop(url) as app:
        fill(app)
        yield client_of(app, runner)


def ask_all(client: Client, path: str, method: str, examples: int) -> None:
    """Send examples to an operation: such as fit the document, and such as do not."""
    operation = schema()[path][method.upper()]
    settings = hypothesis.settings(
        max_examples=examples, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    for mode in schemathesis.GenerationMode:
        try:
            strategy = operation.as_strategy(generation_mode=mode)
        except Exception:  # nothing about it can be wrong
            continue

        @settings
        @hypothesis.given(case=strategy)
        def one(case: Any) -> None:
            send(client, case)

        try:
            one()
        except hypothesis.errors.Unsatisfiable:
            continue


def send(client: Client, case: Any) -> None:
    names = dict(case.query or {})
    query = urlencode(names, doseq=True, errors="replace")
    body = (
        b""
        if case.body is None or type(case.body).__name__ == "NotSet"
        else json.dumps(case.body, default=str).encode()
    )
    headers = {"content-type": "application/json"}
    for name, value in (case.headers or {}).items():
        headers[name.lower()] = str(value).encode("latin-1", "replace").decode("latin-1")
    path = case.path.format(**{name: str(value) for name, value in (case.path_parameters or {}).items()})
    answer = client.ask(case.method, f"{path}?{query}" if query else path, body, headers)
    assert answer.status < 500, (case.method, path, query, body, answer.text)
    if answer.status >= 400:
        assert answer.header("content-type") in ("application/problem+json", "text/html; charset=utf-8"), answer.text


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_request_makes_the_server_fail(client: Client, path: str, method: str) -> None:
    ask_all(client, path, method, 3)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_none_of_many_requests_makes_the_server_fail(client: Client, path: str, method: str) -> None:
    ask_all(client, path, method, 200)
