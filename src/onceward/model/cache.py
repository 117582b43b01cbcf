"""The response cache: what is known of an answer before its source is asked for it.

An answer belongs to a source and a key. While one attempt asks for it no other does: they wait, for a moment where they
are, then out of the way. The row names the token of the attempt that asks, so one that died keeps no task waiting.
"""

from __future__ import annotations

from typing import Any

import msgspec

from onceward.model import codec

NOTED_EVERY_MS = 60_000
"""How often it is noted that an answer is still in use."""


class Cached(msgspec.Struct, frozen=True, gc=False):
    """What the cache holds for a key."""

    value: bytes | None
    """The answer; None while an attempt asks for it, and after that has failed."""
    stored_at: int
    expires_at: int
    """When the answer is too old, or when the attempt that asks for it has had time enough."""
    used_at: int
    is_being_filled: bool
    """Whether an attempt that still holds its task asks for it."""

    def is_fresh(self, now: int) -> bool:
        """Whether there is an answer that is not too old."""
        return self.value is not None and now < self.expires_at

    def is_on_its_way(self, now: int) -> bool:
        """Whether it is worth waiting for the answer."""
        return self.value is None and self.is_being_filled and now < self.expires_at


class AnswerTaken(Exception):
    """Another attempt asks for the answer, or has it by now: look again."""


def hash_of(key: Any) -> bytes:
    """A key as the cache knows it: of a text, or of anything else that can be stored."""
    return codec.digest128(codec.encoded(key, "the key of a cached answer"))
