"""Tokens, audit rows and secret fields: who may use the dashboard and the HTTP API, and what they see and did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from onceward.store.op import Many, Op, Query


class TokenRow(NamedTuple):
    """A token without its secret, of which only the hash is kept."""

    name: str
    role: str
    created_at: int
    expires_at: int | None
    author: str


class AuditRow(NamedTuple):
    """One thing that a caller has changed, or was not allowed to."""

    id: int
    at: int
    author: str
    role: str
    action: str
    target: str
    concerned: int
    outcome: str
    note: str


def add_token(new: TokenRow, hashed: bytes) -> Op[bool]:
    """Add a token; returns whether its name was free."""
    values = {"name": new.name, "hash": hashed, "role": new.role, "now": new.created_at}
    rows = yield Query("add_token", {**values, "expires_at": new.expires_at, "author": new.author})
    return bool(rows)


def list_tokens() -> Op[list[TokenRow]]:
    """Read all tokens, by name."""
    return [TokenRow(*row) for row in (yield Query("list_tokens"))]


def find_token(hashed: bytes, now: int) -> Op[tuple[str, str] | None]:
    """Read the name and the role of the token with this hash, unless it has expired."""
    rows = yield Query("find_token", {"hash": hashed, "now": now})
    return (rows[0][0], rows[0][1]) if rows else None


def any_token() -> Op[bool]:
    """Read whether there is any token, expired ones included."""
    return bool((yield Query("any_token")))


def revoke_token(name: str) -> Op[bool]:
    """Delete a token; returns whether it was there."""
    return bool((yield Query("revoke_token", {"name": name})))


def record(row: AuditRow) -> Op[None]:
    """Append a row to the audit log; its `id` is given by the database."""
    values = row._asdict()
    del values["id"]
    values["now"] = values.pop("at")
    yield Query("record_audit", values)


def list_audit(before: int, limit: int) -> Op[list[AuditRow]]:
    """Read the newest rows of the audit log below an id."""
    return [AuditRow(*row) for row in (yield Query("list_audit", {"before": before, "limit": limit}))]


def prune_audit(before: int) -> Op[None]:
    """Delete the rows of the audit log that are older than that."""
    yield Query("prune_audit", {"before": before})


def declare_secret_fields(fields: Mapping[str, frozenset[str]]) -> Op[None]:
    """Store which fields of payloads are secret, by kind. What was secret once stays so: older tasks have it still."""
    rows = [(kind, field) for kind, secret in sorted(fields.items()) for field in ("", *sorted(secret))]
    yield Many("add_secret_fields", rows)
