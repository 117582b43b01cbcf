"""What becomes of a task when its stage has ended: every verdict and every error leads to one move."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from onceward import Failed, Filtered, Retry, Retryable, Skipped, Status, Waiting
from onceward.errors import ConfigError
from onceward.model.decide import after_crash, after_error, exhausted, safe_text
from onceward.model.outcome import NO_REASON, SchemaMismatch, Verdict, unwrapped
from onceward.model.task import NEVER, Crash, Defer, Finish, Lease, Move, Park, TryAgain
from tests.unit.values import NOW, lease

STEADY = Retry(base="10s", jitter=False, permanent=(PermissionError,))


def judged(error: BaseException, held: Lease | None = None, retry: Retry = STEADY) -> Move:
    move = after_error(error, held or lease(), "scrape", retry, "fingerprint", NOW, random.Random(0))
    # Which error it is has tests of its own.
    return msgspec.structs.replace(move, fingerprint=b"") if isinstance(move, TryAgain | Finish) else move


def passing(due_at: int, reason: str) -> TryAgain:
    """The move for an error that is known to pass."""
    return TryAgain("scrape", due_at, reason, is_transient=True)


@pytest.mark.parametrize(
    ("verdict", "move"),
    [
        (Filtered("five strikes"), Finish("scrape", None, Status.FILTERED, "five strikes")),
        (Skipped("seen before"), Finish("scrape", None, Status.SKIPPED, "seen before")),
        (Failed("no such page"), Finish("scrape", None, Status.FAILED, "no such page")),
        (Waiting(after="30s"), Defer("scrape", NOW + 30_000, "asked to be polled again")),
        (Waiting(until="approved"), Park("scrape", "signal:approved", NEVER, "waiting for the signal 'approved'")),
        (Waiting(until="go", after="7d", reason="a person looks"),
         Park("scrape", "signal:go", NOW + 7 * 86_400_000, "a person looks")),
        (SchemaMismatch("the payload"), Park("scrape", "code:fingerprint", NEVER, "the payload")),
        (Retryable("busy"), passing(NOW + 10_000, "busy")),
        (Retryable("busy", after="2m"), passing(NOW + 120_000, "busy")),
        (Retryable(after=0), passing(NOW, "asked to be retried")),
        (ValueError("odd"), TryAgain("scrape", NOW + 10_000, "ValueError: odd")),
        (SystemExit(1), TryAgain("scrape", NOW + 10_000, "SystemExit: 1")),
        (TimeoutError(), passing(NOW + 10_000, "TimeoutError")),
        (PermissionError("no"), Finish("scrape", None, Status.FAILED, "PermissionError: no")),
    ],
)  # fmt: skip
def test_every_outcome_has_its_move(verdict: BaseException, move: Move) -> None:
    assert judged(verdict) == move


def test_the_last_failure_tells_how_often_it_was_tried_again() -> None:
    held = lease(failures=3)
    assert judged(ValueError("odd"), held) == Finish(
        "scrape", None, Status.FAILED, "failed after 3 retries: ValueError: odd"
    )
    assert judged(Retryable("busy", after="1h"), held) == Finish(
        "scrape", None, Status.FAILED, "failed after 3 retries: busy"
    )


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_up_to_the_last_retry_it_is_tried_again(failures: int) -> None:
    move = judged(ValueError("odd"), lease(failures=failures))
    assert move == TryAgain("scrape", NOW + 10_000 * 2**failures, "ValueError: odd")


@pytest.mark.parametrize(("retries", "words"), [(0, "0 retries"), (1, "1 retry"), (2, "2 retries")])
def test_retries_are_counted_in_good_english(retries: int, words: str) -> None:
    assert exhausted(retries, "odd") == f"failed after {words}: odd"


def test_verdicts_do_not_ask_how_often_a_stage_has_failed() -> None:
    held = lease(failures=1_000)
    assert judged(Filtered("no"), held) == Finish("scrape", None, Status.FILTERED, "no")
    assert judged(Waiting(after="1s"), held) == Defer("scrape", NOW + 1_000, "asked to be polled again")


class Overloaded(Exception):
    retry_after = 45


def test_a_servers_wish_wins_over_the_backoff() -> None:
    assert judged(Overloaded()) == passing(NOW + 45_000, "Overloaded")


def test_a_server_cannot_put_a_task_off_for_ever() -> None:
    class Forever(Exception):
        retry_after = 10**9

    assert judged(Forever()) == passing(NOW + 86_400_000, "Forever")


def test_what_a_stage_or_a_server_asks_for_wins_over_the_cap() -> None:
    hasty = Retry(base="1s", cap="5s")
    assert judged(Overloaded(), retry=hasty) == passing(NOW + 45_000, "Overloaded")
    assert judged(Retryable("full", after="3d"), retry=hasty) == passing(NOW + 3 * 86_400_000, "full")


def test_an_application_may_have_verdicts_of_its_own() -> None:
    class FiveStrikes(Filtered):
        """Out."""

    class NotAgain(Skipped):
        """Known."""

    assert judged(FiveStrikes("out")) == Finish("scrape", None, Status.FILTERED, "out")
    assert judged(NotAgain("known")) == Finish("scrape", None, Status.SKIPPED, "known")


@pytest.mark.parametrize(
    ("given", "reason"),
    [(ValueError("no such page"), "ValueError: no such page"), (404, "404"), (None, NO_REASON), ("", NO_REASON)],
)
def test_a_verdict_has_a_reason_in_words_whatever_it_was_given(given: Any, reason: str) -> None:
    assert judged(Failed(given)) == Finish("scrape", None, Status.FAILED, reason)
    assert judged(Filtered(given)) == Finish("scrape", None, Status.FILTERED, reason)
    assert judged(Skipped(given)) == Finish("scrape", None, Status.SKIPPED, reason)
    assert judged(Retryable(given)) == passing(NOW + 10_000, reason)
    waits = judged(Waiting(after="1s", reason=given))
    assert waits == Defer("scrape", NOW + 1_000, reason if given else "asked to be polled again")


def test_a_verdict_of_an_application_need_not_say_why() -> None:
    class FiveStrikes(Filtered):
        def __init__(self) -> None: ...

    assert judged(FiveStrikes()) == Finish("scrape", None, Status.FILTERED, NO_REASON)


@pytest.mark.parametrize(("crashes", "move"), [
    (0, Crash("scrape", "was killed", Status.PENDING)),
    (1, Crash("scrape", "was killed", Status.PENDING)),
    (2, Crash("scrape", "lost 3 workers", Status.FAILED)),
])  # fmt: skip
def test_a_stage_that_kills_its_process_is_quarantined_at_the_third_time(crashes: int, move: Move) -> None:
    assert after_crash(lease(crashes=crashes), "scrape", 3, "was killed") == move


def test_one_allowed_death_is_one() -> None:
    assert after_crash(lease(), "scrape", 1, "was killed").reason == "lost 1 worker"


def test_a_reason_is_text_that_both_databases_hold() -> None:
    assert safe_text("a\x00b\ud800c") == "a\N{REPLACEMENT CHARACTER}b?c"
    assert len(safe_text("x" * 100_000)) == 2_000
    move = judged(Filtered("a\x00b"))
    assert isinstance(move, Finish)
    assert move.reason == "a\N{REPLACEMENT CHARACTER}b"


def test_a_verdict_alone_in_its_groups_is_the_verdict() -> None:
    verdict = Filtered("no")
    assert unwrapped(BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [verdict])])) is verdict
    assert unwrapped(verdict) is verdict


@pytest.mark.parametrize(
    "group",
    [
        BaseExceptionGroup("two verdicts", [Filtered("no"), Skipped("nor this")]),
        BaseExceptionGroup("the same verdict twice", [Filtered("no"), Filtered("no")]),
        BaseExceptionGroup("a verdict and an error", [Filtered("no"), ValueError("odd")]),
        BaseExceptionGroup("deep", [BaseExceptionGroup("down", [Filtered("no")]), ExceptionGroup("e", [OSError()])]),
    ],
)
def test_a_verdict_in_company_is_an_error(group: BaseException) -> None:
    error = unwrapped(group)
    assert not isinstance(error, Verdict)
    assert isinstance(judged(error), TryAgain)


def test_a_single_error_in_a_group_is_judged_by_its_own_class() -> None:
    error = unwrapped(ExceptionGroup("one", [PermissionError("no")]))
    assert judged(error) == Finish("scrape", None, Status.FAILED, "PermissionError: no")


def test_a_broad_except_cannot_swallow_a_verdict() -> None:
    verdicts = (Filtered("x"), Skipped("x"), Failed("x"), Retryable(), Waiting(after=1), SchemaMismatch("x"))
    assert not any(isinstance(verdict, Exception) for verdict in verdicts)


def test_waiting_for_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"after= .* until="):
        Waiting()
    for name in ("", "a\x00b", "\ud800", "a\nb"):
        with pytest.raises(ConfigError, match="no name of a signal"):
            Waiting(until=name)
