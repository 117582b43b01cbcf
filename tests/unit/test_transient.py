"""Which errors are known to pass, by the real classes of the clients that people call outside services with."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from typing import Any

import botocore.exceptions as botocore
import httpx2
import openai
import pytest
import requests
import urllib3

from onceward import CallTimeout, ConfigError, PayloadError, Retry, SpawnRefused
from onceward.model.retry import is_transient

TRANSIENT = (408, 425, 429, 500, 502, 503, 504, 529, 599)
PERMANENT = (301, 400, 401, 403, 404, 409, 410, 418, 422, 451)
REQUEST = httpx2.Request("GET", "http://shop.example")


def answering(status: int, body: dict[str, Any]) -> httpx2.Client:
    return httpx2.Client(transport=httpx2.MockTransport(lambda _request: httpx2.Response(status, json=body)))


def of_httpx(status: int) -> None:
    answering(status, {}).get("http://shop.example").raise_for_status()


def of_requests(status: int) -> None:
    answer = requests.Response()
    answer.status_code = status
    answer.raise_for_status()
    raise requests.TooManyRedirects("a redirect is no error to raise_for_status", response=answer)


def of_urllib(status: int) -> None:
    raise urllib.error.HTTPError("http://shop.example", status, "as it says", Message(), None)


def of_openai(status: int) -> None:
    client = openai.OpenAI(api_key="none", max_retries=0, http_client=answering(status, {"error": {"message": "no"}}))
    client.models.list()


def of_botocore(status: int) -> None:
    answer: Any = {"Error": {"Code": "Odd"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    raise botocore.ClientError(answer, "GetObject")


class AioHttp(Exception):
    """As aiohttp has it."""

    def __init__(self, status: int) -> None:
        self.status = status


def of_aiohttp(status: int) -> None:
    raise AioHttp(status)


CLIENTS = (of_httpx, of_requests, of_urllib, of_openai, of_botocore, of_aiohttp)


def raised(function: Callable[[], object]) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_status_decides_whatever_the_client(client: Callable[[int], None]) -> None:
    errors = {status: raised(lambda status=status: client(status)) for status in (*TRANSIENT, *PERMANENT)}  # type: ignore[misc]
    assert {status for status, error in errors.items() if is_transient(error, Retry())} == set(TRANSIENT)


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    "get",
    [
        lambda url: urllib.request.urlopen(url, timeout=5),
        lambda url: requests.get(url, timeout=5),
        lambda url: urllib3.PoolManager().request("GET", url, timeout=5, retries=1),
        lambda url: urllib3.PoolManager().request("GET", url, timeout=5, retries=False),
        lambda url: httpx2.get(url, timeout=5),
        lambda url: openai.OpenAI(api_key="none", max_retries=0, base_url=url).models.list(),
    ],
    ids=["urllib", "requests", "urllib3", "urllib3 alone", "httpx", "openai"],
)
def test_a_refused_connection_passes_whatever_the_client(get: Callable[[str], object]) -> None:
    assert is_transient(raised(lambda: get(f"http://127.0.0.1:{closed_port()}/")), Retry())


class Asked(Exception):
    retry_after = 3


def said(kind: str, status: int) -> Exception:
    """What a provider says in the middle of a stream that has begun with 200, or beside a status."""
    answer = httpx2.Response(status, request=REQUEST)
    return openai.APIStatusError("no", response=answer, body={"error": {"type": kind}})


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        CallTimeout("slow"),
        ConnectionResetError(),
        BrokenPipeError(),
        socket.gaierror(socket.EAI_AGAIN, "no such name now"),
        OSError(errno.EHOSTUNREACH, "no route"),
        OSError(errno.ENETUNREACH, "no network"),
        ssl.SSLEOFError("cut"),
        subprocess.TimeoutExpired("fetch", 3),
        http.client.IncompleteRead(b"half"),
        http.client.RemoteDisconnected("cut"),
        urllib.error.URLError(TimeoutError()),
        urllib.error.URLError(socket.gaierror(socket.EAI_AGAIN, "no such name now")),
        requests.ConnectTimeout(),
        requests.ReadTimeout(),
        requests.exceptions.ChunkedEncodingError(),
        requests.exceptions.ProxyError(),
        urllib3.exceptions.ProtocolError("cut"),
        urllib3.exceptions.ReadTimeoutError(None, "/", "slow"),  # type: ignore[arg-type]
        httpx2.ReadTimeout("slow"),
        httpx2.PoolTimeout("busy"),
        httpx2.RemoteProtocolError("cut"),
        openai.APITimeoutError(REQUEST),
        openai.APIError("overloaded", REQUEST, body={"type": "server_error"}),
        botocore.EndpointConnectionError(endpoint_url="http://shop.example"),
        botocore.ReadTimeoutError(endpoint_url="http://shop.example"),
        botocore.ClientError({"Error": {"Code": "ThrottlingException"}, "ResponseMetadata": {"HTTPStatusCode": 400}},
                             "Invoke"),  # type: ignore[arg-type, typeddict-item]
        said("overloaded_error", 200),
        said("rate_limit_error", 200),
        Asked("slow down"),
        ExceptionGroup("both", [TimeoutError(), ConnectionError()]),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_what_passes(error: Exception) -> None:
    assert is_transient(error, Retry())
    assert not is_transient(error, Retry(permanent=(Exception,)))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("my parser"),
        KeyError("price"),
        FileNotFoundError(errno.ENOENT, "no such file"),
        PermissionError(errno.EACCES, "mine"),
        OSError("unspecified"),
        http.client.InvalidURL("a b"),
        urllib.error.URLError("unknown url type: htp"),
        requests.exceptions.InvalidURL("a b"),
        requests.exceptions.MissingSchema("shop.example"),
        requests.exceptions.JSONDecodeError("no JSON", "", 0),
        requests.TooManyRedirects(),
        httpx2.UnsupportedProtocol("shop.example"),
        httpx2.LocalProtocolError("a header with a line break"),
        httpx2.DecodingError("no gzip"),
        openai.APIResponseValidationError(httpx2.Response(200, request=REQUEST), None),
        said("invalid_request_error", 200),
        botocore.NoCredentialsError(),
        PayloadError("a bad payload"),
        ConfigError("a bad setting"),
        SpawnRefused("depth"),
        SystemExit(130),
        ExceptionGroup("both", [TimeoutError(), ValueError()]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_not_known_to_pass(error: BaseException) -> None:
    assert not is_transient(error, Retry())
    assert is_transient(error, Retry(transient=(BaseException,)))
