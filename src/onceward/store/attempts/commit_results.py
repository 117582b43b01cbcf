"""The answers to commits, and the errors by which one asks for a transaction of its own."""

from __future__ import annotations

import msgspec

from onceward.model.lineage import Family


class GivenUp(msgspec.Struct, frozen=True):
    """The accepted retry has become the end of its task, which has failed the same way before; with the reason."""

    reason: str


CommitResult = bool | Family | GivenUp | Exception
"""True: accepted; a `Family`: accepted, with what the task knows of its children now. False: refused, the lease was
lost. An error: its domain rows could not be written."""


PAUSED = Family(is_paused=True)
"""Accepted, but the task is paused: its attempt goes on no further."""


class SendAlone(Exception):
    """The domain rows of a commit met a lock or lost the transaction: it has to be sent in one of its own."""


class SendApart(SendAlone):
    """A group of commits came to nothing again and again: each has to be sent by itself, while others go on."""


class SendLater(SendAlone):
    """No time was left in this transaction for the domain rows of a commit: it has to be sent with the next."""
