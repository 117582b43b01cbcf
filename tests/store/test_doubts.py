"""A commit whose reply is lost, where the database cannot be asked about it either: nobody is told that it failed."""

from __future__ import annotations

import pytest

from onceward.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.op import Query, Request, Rows
from tests.store.conftest import Hands


@pytest.mark.untroubled("it makes its own trouble")
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    "trouble",
    [StoreFull("no space"), StoreUnavailable("no way in"), ConnectionLost("gone"), TryAgainLater("locked")],
    ids=lambda trouble: type(trouble).__name__,
)
def test_what_keeps_us_from_asking_does_not_decide_a_commit(hands: Hands, trouble: Exception, committed: bool) -> None:
    session = hands.session
    commit, run = session.commit, session.run

    def lose_the_reply() -> None:
        session.commit, session.run = commit, refuse_to_say  # type: ignore[method-assign]
        if committed:
            run(Query("commit"))
        raise ConnectionLost("no reply")

    def refuse_to_say(request: Request) -> Rows:
        raise trouble

    session.commit = lose_the_reply  # type: ignore[method-assign]
    with session.without_waiting(), pytest.raises(OutcomeUnknown) as doubt:
        hands.enqueue()
    session.run = run  # type: ignore[method-assign]
    assert session.settle(doubt.value) is committed
    assert len(hands.sql("SELECT id FROM onceward_task")) == committed
