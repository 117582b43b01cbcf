"""Tokens: secrets by which the dashboard and the HTTP API know their callers. Only their hashes are stored."""

from __future__ import annotations

import builtins
import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime

from onceward.client.awaited import awaited
from onceward.client.namespace import Namespace
from onceward.errors import ConfigError
from onceward.model import arguments
from onceward.model.times import Duration, milliseconds, moment
from onceward.operations.settings import checked_author
from onceward.store.operations import access
from onceward.store.operations.access import TokenRow

ROLES = ("viewer", "operator", "admin")
_NAME = re.compile(r"[\w.@+-]{1,60}")


@dataclass(frozen=True, slots=True)
class TokenStatus:
    """A token, without the secret itself."""

    name: str
    role: str
    """`viewer` looks, `operator` acts on work, `admin` changes settings and limits."""
    created_at: datetime
    expires_at: datetime | None
    author: str
    """Who has made it."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a secret stands for."""

    name: str
    role: str


class Tokens(Namespace):
    """`app.tokens`: who may use the dashboard and the HTTP API."""

    def add(
        self, name: str, role: str = "viewer", *, expires: Duration | None = None, author: str | None = None
    ) -> str:
        """Make a token and return its secret, which is shown this once: the database keeps only a hash."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(f"name={arguments.shown(name)}: letters, digits and . @ + - _, 60 at most")
        arguments.checked_word("role", role, ROLES)
        by, now = checked_author(author), self._client._store.clock.now()
        until = None if expires is None else now + milliseconds(expires)
        secret = f"onceward_{secrets.token_urlsafe(32)}"
        new = TokenRow(name, role, now, until, by)
        if not self._client._transact(lambda: access.add_token(new, _hash(secret))):
            raise ConfigError(f"there is a token {name!r}; revoke it, or choose another name")
        return secret

    aadd = awaited(add)

    def list(self) -> builtins.list[TokenStatus]:
        """All tokens, by name, those that have expired included."""
        return [
            TokenStatus(row.name, row.role, moment(row.created_at), _moment(row.expires_at), row.author)
            for row in self._client._ask(access.list_tokens)
        ]

    alist = awaited(list)

    def check(self, secret: str) -> Grant | None:
        """What a secret stands for; None if it is not known, has expired or was revoked."""
        now = self._client._store.clock.now()
        found = self._client._ask(lambda: access.find_token(_hash(secret), now))
        return None if found is None else Grant(*found)

    acheck = awaited(check)

    def any(self) -> bool:
        """Whether there is any token: from then on every caller needs one."""
        return self._client._ask(access.any_token)

    aany = awaited(any)

    def revoke(self, name: str) -> bool:
        """Delete a token, whose secret is refused from then on; returns whether there was one."""
        sought = arguments.text_of(name, "name of a token")
        return self._client._transact(lambda: access.revoke_token(sought))

    arevoke = awaited(revoke)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _moment(at: int | None) -> datetime | None:
    return None if at is None else moment(at)
