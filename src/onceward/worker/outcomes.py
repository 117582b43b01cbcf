"""What has come of an attempt, in a word."""

from __future__ import annotations

from onceward.model.task import Crash, Defer, Expire, Finish, HandOver, Move, Park, Release, TryAgain

_OUTCOMES: dict[type[Move], str] = {
    Release: "released",
    TryAgain: "retryable",
    Defer: "deferred",
    HandOver: "handed over",
    Park: "waiting",
    Crash: "crashed",
    Expire: "expired",
}


def outcome(move: Move) -> str:
    """What has come of an attempt, in a word."""
    return move.status.word if isinstance(move, Finish) else _OUTCOMES.get(type(move), "lost")
