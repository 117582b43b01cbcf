"""Values as they come out of either database."""

from __future__ import annotations

import json
import uuid
from typing import Any


def as_uuid(value: Any) -> uuid.UUID:
    """A UUID from a row: PostgreSQL returns one, SQLite its bytes."""
    return value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=bytes(value))


def as_bytes(value: Any) -> bytes:
    """The sixteen bytes of a UUID from a row."""
    return value.bytes if isinstance(value, uuid.UUID) else value


def as_ids(value: Any) -> list[int]:
    """A list of ids from a row: PostgreSQL returns one, SQLite a JSON text."""
    return json.loads(value) if isinstance(value, str) else list(value)
