"""The transition table: every event on every pair of statuses is legal exactly where the specification says so."""

from __future__ import annotations

from itertools import product

import pytest

from onceward import Event, IllegalTransition, Status
from onceward.model.status import ACTIVE, CLAIMABLE, TERMINAL, TRANSITIONS, check_transition

PENDING, RUNNING, RETRYABLE, WAITING = Status.PENDING, Status.RUNNING, Status.RETRYABLE, Status.WAITING
SUCCEEDED, FILTERED, SKIPPED = Status.SUCCEEDED, Status.FILTERED, Status.SKIPPED
FAILED, CANCELLED = Status.FAILED, Status.CANCELLED

LEGAL = {
    (Event.STAGE_COMMITTED, RUNNING, RUNNING),
    (Event.PROGRESSED, RUNNING, RUNNING),
    (Event.FINISHED, RUNNING, SUCCEEDED),
    (Event.FINISHED, RUNNING, FILTERED),
    (Event.FINISHED, RUNNING, SKIPPED),
    (Event.FINISHED, RUNNING, FAILED),
    (Event.RETRY_SCHEDULED, RUNNING, RETRYABLE),
    (Event.TIMED_OUT, RUNNING, RETRYABLE),
    (Event.DEFERRED, RUNNING, PENDING),
    (Event.RELEASED, RUNNING, PENDING),
    (Event.HANDED_OVER, RUNNING, PENDING),
    (Event.RECLAIMED, RUNNING, PENDING),
    (Event.CRASHED, RUNNING, PENDING),
    (Event.CRASHED, RUNNING, FAILED),
    (Event.PARKED, RUNNING, WAITING),
    (Event.PARKED, PENDING, WAITING),
    (Event.PARKED, RETRYABLE, WAITING),
    (Event.WOKEN, WAITING, PENDING),
    (Event.CANCELLED, PENDING, CANCELLED),
    (Event.CANCELLED, RUNNING, CANCELLED),
    (Event.CANCELLED, RETRYABLE, CANCELLED),
    (Event.CANCELLED, WAITING, CANCELLED),
    (Event.EXPIRED, PENDING, FAILED),
    (Event.EXPIRED, RUNNING, FAILED),
    (Event.EXPIRED, RETRYABLE, FAILED),
    (Event.EXPIRED, WAITING, FAILED),
    (Event.EXPIRED, PENDING, PENDING),
    (Event.EXPIRED, RUNNING, PENDING),
    (Event.EXPIRED, RETRYABLE, PENDING),
    (Event.EXPIRED, WAITING, PENDING),
    (Event.REOPENED, SUCCEEDED, PENDING),
    (Event.REOPENED, FILTERED, PENDING),
    (Event.REOPENED, SKIPPED, PENDING),
    (Event.REOPENED, FAILED, PENDING),
    (Event.REOPENED, CANCELLED, PENDING),
    (Event.REOPENED, WAITING, PENDING),
    (Event.IMPORTED, PENDING, PENDING),
    (Event.IMPORTED, PENDING, SUCCEEDED),
    (Event.IMPORTED, PENDING, FILTERED),
    (Event.IMPORTED, PENDING, SKIPPED),
    (Event.IMPORTED, PENDING, FAILED),
    (Event.IMPORTED, PENDING, CANCELLED),
}
"""Written out from the specification, not taken from the table under test."""

EVERY_MOVE = list(product(Event, Status, Status))


def test_every_legal_move_passes() -> None:
    for event, before, after in LEGAL:
        check_transition(event, before, after)


def test_every_other_move_is_refused_and_names_both_statuses() -> None:
    for event, before, after in EVERY_MOVE:
        if (event, before, after) in LEGAL:
            continue
        with pytest.raises(IllegalTransition) as refused:
            check_transition(event, before, after)
        assert f"is {before.word} cannot become {after.word}" in str(refused.value)
        assert event.word in str(refused.value)


def test_only_an_operators_retry_leads_out_of_a_terminal_status() -> None:
    ways_out = {event for event, (leaves, _) in TRANSITIONS.items() if leaves & TERMINAL}
    assert ways_out == {Event.REOPENED}


def test_a_terminal_status_is_reached_from_running_by_cancelling_by_a_deadline_or_from_outside() -> None:
    for event, (leaves, reaches) in TRANSITIONS.items():
        if reaches & TERMINAL:
            assert leaves == {RUNNING} or event in (Event.CANCELLED, Event.EXPIRED, Event.IMPORTED)


def test_signals_and_refused_commits_move_nothing() -> None:
    assert set(Event) - set(TRANSITIONS) == {
        Event.SIGNALLED, Event.LOST, Event.SPAWNED, Event.REFUSED, Event.PAUSED, Event.RESUMED, Event.LIMITS_RAISED,
    }  # fmt: skip


def test_active_and_terminal_statuses_are_everything_and_have_nothing_in_common() -> None:
    assert set(Status) == ACTIVE | TERMINAL
    assert set() == ACTIVE & TERMINAL
    assert {SUCCEEDED, FILTERED, SKIPPED, FAILED, CANCELLED} == TERMINAL
    assert {PENDING, RETRYABLE} == CLAIMABLE
    assert all(status.is_terminal == (status in TERMINAL) for status in Status)


def test_stored_numbers_never_change_their_meaning() -> None:
    assert [(status.value, status.word) for status in Status] == [
        (0, "pending"), (1, "running"), (2, "retryable"), (3, "waiting"), (4, "succeeded"), (5, "filtered"),
        (6, "skipped"), (7, "failed"), (8, "cancelled"),
    ]  # fmt: skip
    assert [(event.value, event.word) for event in Event] == [
        (1, "stage committed"), (2, "progressed"), (3, "finished"), (4, "retry scheduled"), (5, "deferred"),
        (6, "parked"), (7, "released"), (8, "handed over"), (9, "reclaimed"), (10, "crashed"), (11, "timed out"),
        (12, "woken"), (13, "signalled"), (14, "cancelled"), (15, "reopened"), (16, "lost"),
        (17, "spawned"), (18, "refused"), (19, "expired"), (20, "paused"), (21, "resumed"),
        (22, "limits raised"), (23, "imported"),
    ]  # fmt: skip
