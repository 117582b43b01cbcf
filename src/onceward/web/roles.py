"""What a caller of the dashboard may do: look, act on work, or change what all work goes by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """A role may do what it names and all that the roles below it may."""

    NONE = 0
    """No token is needed: the page that asks for one, and the files of the pages."""
    VIEWER = 1
    OPERATOR = 2
    """Retries, cancels, approves, signals, pauses and resumes."""
    ADMIN = 3
    """Changes settings and limits, and reads the audit log."""

    @property
    def word(self) -> str:
        """The name of the role in messages and on the command line."""
        return self.name.lower()


ROLE_NAMED = {role.word: role for role in Role if role}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the audit log names them, and what they may do."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Return whether the caller has this role, or a higher one."""
        return self.role >= role


NOT_KNOWN = Caller("", Role.NONE)
