"""When a failed stage is tried again: backoff, its bounds, what a server asks for, and which errors are for good."""

from __future__ import annotations

import random
from email.message import Message
from email.utils import formatdate
from typing import Any
from urllib.error import HTTPError

import pytest
from hypothesis import given
from hypothesis import strategies as some

from onceward import ConfigError, Retry
from onceward.model.retry import backoff_ms, error_text, retry_after_ms
from onceward.model.times import HUNDRED_YEARS_MS
from tests.unit.values import NOW

policies = some.builds(
    Retry,
    base=some.integers(0, 600),
    factor=some.floats(1, 100),
    cap=some.integers(600, 86_400),
    jitter=some.booleans(),
)


@given(policies, some.integers(1, 10_000), some.integers())
def test_a_delay_is_never_negative_and_never_beyond_the_cap(retry: Retry, failures: int, seed: int) -> None:
    assert 0 <= backoff_ms(retry, failures, random.Random(seed)) <= retry.cap_ms


@given(some.integers(1, 30), some.integers())
def test_a_delay_lies_anywhere_up_to_the_doubled_one(failures: int, seed: int) -> None:
    retry = Retry(base="1s")
    longest = min(86_400_000, 1_000 * 2 ** (failures - 1))
    assert 0 <= backoff_ms(retry, failures, random.Random(seed)) <= longest


def test_full_jitter_uses_the_whole_room() -> None:
    retry, dice = Retry(base="1s"), random.Random(7)
    delays = [backoff_ms(retry, 3, dice) for _ in range(2_000)]
    assert min(delays) < 100
    assert max(delays) > 3_900
    assert 1_900 < sum(delays) / len(delays) < 2_100


@pytest.mark.parametrize(("failures", "delay_s"), [(1, 10), (2, 20), (3, 40), (4, 80), (5, 100), (60, 100), (900, 100)])
def test_without_jitter_delays_double_up_to_the_cap(failures: int, delay_s: int) -> None:
    retry = Retry(base="10s", cap="100s", jitter=False)
    assert backoff_ms(retry, failures, random.Random()) == delay_s * 1_000


def test_the_default_is_three_retries_from_a_second_up_to_a_day() -> None:
    retry = Retry()
    assert (retry.retries, retry.base_ms, retry.factor, retry.cap_ms, retry.jitter) == (3, 1_000, 2.0, 86_400_000, True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"retries": -1}, "whole number from 0"),
        ({"factor": 0.5}, "factor=0.5"),
        ({"factor": float("nan")}, "factor=nan"),
        ({"factor": 101}, "factor=101"),
        ({"base": "1h", "cap": "1m"}, "shorter than base"),
        ({"base": "soon"}, "'soon' is not a duration"),
        ({"permanent": [ValueError]}, "tuple of classes"),
        ({"permanent": ValueError}, "tuple of classes"),
        ({"transient": ("ValueError",)}, "tuple of classes"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Retry(**options)


def test_an_error_is_permanent_if_its_class_is_named_and_no_transient_one_is() -> None:
    retry = Retry(permanent=(OSError,), transient=(ConnectionError,))
    assert retry.is_permanent(OSError())
    assert retry.is_permanent(FileNotFoundError())
    assert not retry.is_permanent(ConnectionResetError())
    assert not retry.is_permanent(ValueError())


def test_without_names_every_error_is_tried_again() -> None:
    assert not any(Retry().is_permanent(error) for error in (ValueError(), OSError(), SystemExit(), TimeoutError()))


class Response:
    def __init__(self, headers: Any) -> None:
        self.headers = headers


class HttpError(Exception):
    def __init__(self, headers: Any) -> None:
        super().__init__("429")
        self.response = Response(headers)


class SdkError(Exception):
    def __init__(self, retry_after: Any) -> None:
        super().__init__("overloaded")
        self.retry_after = retry_after


class Tricky(Exception):
    @property
    def response(self) -> Any:
        raise RuntimeError("no response was received")

    @property
    def retry_after(self) -> Any:
        raise RuntimeError("nor this")


IN_A_MINUTE = formatdate(NOW / 1_000 + 60, usegmt=True)
A_MINUTE_AGO = formatdate(NOW / 1_000 - 60, usegmt=True)


@pytest.mark.parametrize(
    ("error", "wait_ms"),
    [
        (SdkError(7), 7_000),
        (SdkError(0.5), 500),
        (SdkError(-3), 0),
        (HttpError({"retry-after": "120"}), 120_000),
        (HttpError({"Retry-After": "120"}), 120_000),
        (HttpError({"retry-after": "1.5"}), 1_500),
        (HttpError({"retry-after": 3}), 3_000),
        (HttpError({"retry-after": "-5"}), 0),
        (HttpError({"retry-after-ms": "250", "retry-after": "9"}), 250),
        (HttpError({"retry-after-ms": "soon", "retry-after": "9"}), 9_000),
        (HttpError({"retry-after": IN_A_MINUTE}), 60_000),
        (HttpError({"retry-after": A_MINUTE_AGO}), 0),
        (HttpError({"retry-after": IN_A_MINUTE.replace("GMT", "-0000")}), 60_000),
    ],
)
def test_a_server_is_heard_in_every_form_it_may_use(error: Exception, wait_ms: int) -> None:
    assert retry_after_ms(error, NOW) == wait_ms


@pytest.mark.parametrize(
    "error",
    [
        SdkError(1e306),
        SdkError(10**400),
        HttpError({"retry-after": "1e306"}),
        HttpError({"retry-after-ms": "1e306"}),
        HttpError({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}),
    ],
)
def test_an_absurd_wish_is_a_number_that_can_be_stored(error: Exception) -> None:
    assert retry_after_ms(error, NOW) == HUNDRED_YEARS_MS


def test_a_server_is_heard_that_answers_urllib() -> None:
    headers = Message()
    headers["Retry-After"] = "7"
    with HTTPError("http://shop.example", 429, "slow down", headers, None) as error:
        assert retry_after_ms(error, NOW) == 7_000


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no server at all"),
        Tricky("no server at all"),
        SdkError(None),
        SdkError(True),
        SdkError("7"),
        SdkError(float("nan")),
        SdkError(float("inf")),
        HttpError({}),
        HttpError(None),
        HttpError([("retry-after", "3")]),
        HttpError({"retry-after": "soon"}),
        HttpError({"retry-after": "nan"}),
        HttpError({"retry-after": "inf"}),
        HttpError({"retry-after-ms": "nan"}),
        HttpError({"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}),
        HttpError({"retry-after": "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"}),
        HttpError({"retry-after": 10**400}),
    ],
)
def test_what_is_no_answer_of_a_server_leaves_the_delay_to_the_policy(error: Exception) -> None:
    assert retry_after_ms(error, NOW) is None


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("too\n  many   lines"), "ValueError: too many lines"),
        (KeyError("name"), "KeyError: 'name'"),
        (TimeoutError(), "TimeoutError"),
        (Mute(), "Mute"),
    ],
)
def test_an_error_is_described_in_one_line(error: Exception, words: str) -> None:
    assert error_text(error) == words


def test_an_endless_description_is_cut() -> None:
    assert len(error_text(ValueError("x" * 10_000_000))) == 1_000
