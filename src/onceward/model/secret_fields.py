"""What viewers see of payloads: everything but their secret fields, and of an unknown kind no value at all."""

from __future__ import annotations

from typing import Any

import msgspec

from onceward.model import codec

MASK = "••••••"
"""What stands in the place of a value that is not shown."""


def masked(payload: bytes, secret: frozenset[str] | None) -> Any:
    """Return a stored payload without the values of its secret fields; of an unknown kind without any value."""
    try:
        value = codec.decoder(Any)(payload)
    except codec.UNREADABLE:
        return MASK
    if isinstance(value, dict):
        return {name: MASK if secret is None or name in secret else one for name, one in value.items()}
    if isinstance(value, list):
        return [MASK if secret is None or str(place) in secret else one for place, one in enumerate(value)]
    return MASK


def masked_key(key: str, secret: frozenset[str] | None) -> str:
    """Return a key without secrets. One that is made of all the fields of a payload is masked as the payload is.

    A key of its own is what the payload class says: no secret belongs there. One that only looks like fields, and of
    which the end is missing, cannot be told apart from them, and is not shown.
    """
    if (secret is not None and not secret) or key[:1] not in ("{", "["):
        return key
    try:
        msgspec.json.decode(key)
    except (msgspec.DecodeError, RecursionError):
        return MASK
    return msgspec.json.encode(masked(key.encode(), secret)).decode()


def masked_text(payload: bytes, secret: frozenset[str]) -> str:
    """Return a stored payload as text, without the values of its secret fields."""
    return msgspec.json.encode(masked(payload, secret)).decode() if secret else payload.decode()
