"""One SQL text for both databases: parameters are `:name`, as SQLite takes them; PostgreSQL's driver gets `%(name)s`.

Nothing else of the text is changed, and nothing of the connection: what the two databases say differently has to be
said differently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from onceward.errors import ConfigError
from onceward.model.arguments import shown
from onceward.model.connection import Connection, Dialect

LONGEST_NAME = 60
_PARTS = re.compile(
    r"""--[^\n]*
    | /\*.*?\*/
    | [Ee]'(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | (?P<dollar>\$\w*\$).*?(?P=dollar)
    | ::
    | (?<!\w):(?P<name>[A-Za-z_]\w*)""",
    re.S | re.X,
)
"""What a colon means nothing in, and parameters."""


class Sql:
    """A statement with parameters like `:name`. Called with a connection and their values it runs there."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(f"sql({shown(text)}): it takes the text of a statement")
        self.text = text
        words = " ".join(text.split())
        # As of a function: by these it is named where it fails.
        self.__name__ = f"sql({words if len(words) <= LONGEST_NAME else words[: LONGEST_NAME - 1] + '…'!r})"
        self.__qualname__ = f"sql({text!r})"
        self.names = frozenset(found["name"] for found in _PARTS.finditer(text) if found["name"])

    def __call__(self, connection: Connection, values: Mapping[str, Any] | None = None) -> None:
        """Run it, as a function given to `ctx.write` or inside one."""
        connection.execute(self.on(connection.dialect), self.checked(values))

    def rows(self, connection: Connection, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run it, and return all rows that it finds."""
        return connection.execute(self.on(connection.dialect), self.checked(values)).fetchall()

    def on(self, dialect: Dialect) -> str:
        """The text as the driver of a database takes it."""
        return self._for_postgres if dialect == "postgres" else self.text

    def checked(self, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The values for its parameters, if that is what they are."""
        if values is not None and not isinstance(values, Mapping):
            raise ConfigError(f"{self.__name__} takes its values by name, such as {{'id': 7}}, not {shown(values)}")
        given = dict(values or {})
        missing = sorted(self.names - given.keys())
        unknown = sorted(map(str, given.keys() - self.names))
        if missing or unknown:
            said = [f"no value for :{name}" for name in missing] + [f"no parameter :{name}" for name in unknown]
            raise ConfigError(f"{self.__name__}: {', '.join(said)}")
        return given

    @cached_property
    def _for_postgres(self) -> str:
        doubled = self.text.replace("%", "%%")  # its driver looks for parameters in strings and comments, too
        return _PARTS.sub(lambda found: f"%({found['name']})s" if found["name"] else found[0], doubled)

    def __repr__(self) -> str:
        return self.__name__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sql) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def run_text(connection: Connection, text: str, values: Mapping[str, Any] | None = None) -> None:
    """Run a statement that has come from another process."""
    Sql(text)(connection, values)


def sql(text: str) -> Sql:
    """A statement for both databases: `add = sql("INSERT INTO shelf VALUES (:book, :place)")`, then
    `ctx.write(add, {"book": "Emma", "place": 3})`, or `add(connection, {…})` inside a function."""
    return Sql(text)
