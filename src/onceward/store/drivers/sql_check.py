"""Checks the SQL that an application runs on a connection of the engine, for what it must not do there.

For PostgreSQL, which has no authorizer like SQLite's. The text is cut into the tokens that the server would see: no
comment, quote or spelling of a name hides anything. SQL that the server sees only while it runs a statement (the body
of a function or trigger, dynamic SQL) cannot be checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

OWN_PREFIX = "onceward_"
OWN_TABLES = "the tables onceward_… are the engine's own; ctx.write may only read them"
_SPACE = r"(?:[ \t\n\r\f\v]|--[^\n\r]*)"
_LETTER = r"[^\x00-\x40\x5b-\x5e\x60\x7b-\x7f]"
"""A letter, an underscore or a sign beyond ASCII. By exclusion: a range up to U+10FFFF takes long to compile."""
_TAG = r"[^\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]"
"""The same, or a digit."""
_TOKEN = re.compile(
    rf"""{_SPACE}+
    | (?P<comment> /\*)
    | [Uu]&"(?P<coded>(?:[^"]|"")*)"(?:{_SPACE}*(?i:UESCAPE){_SPACE}*'(?P<escape>.)')?
    | "(?P<name>(?:[^"]|"")*)"
    | (?P<escaped> [Ee]'(?:[^'\\]|\\.|'')*' (?:{_SPACE}*'(?:[^'\\]|\\.|'')*')*)
    | (?:[BNXbnx]|[Uu]&)?'(?P<text>(?:[^']|'')*)'
    | (?P<dollar> \$(?:{_LETTER}{_TAG}*)?\$)
    | (?P<word> {_LETTER}(?:{_TAG}|\$)*)
    | (?P<sign> .)""",
    re.S | re.X,
)
_COMMENT_ENDS = re.compile(r"/\*|\*/")
_PLACEHOLDER = re.compile(r"%\([^)]*\)")
_CODED = r"(?:([0-9a-f]{4})|\+([0-9a-f]{6}))"

_TRANSACTION = frozenset(
    ("begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare", "attach", "detach")
)
_SESSION = frozenset(("set", "reset", "discard", "listen", "unlisten", "load"))
_LASTING = frozenset(("set", "listen", "load", "declare", "create", "do", "call"))
_ROWS = frozenset(
    ("select", "with", "insert", "update", "delete", "merge", "values", "table", "explain", "declare", "fetch", "move",
     "close", "execute", "call", "show", "notify", "do", "set")
)  # fmt: skip
"""Statements of rows: they may name a table of the engine, but not write it; others may not name it."""
_MAY_READ = frozenset(("table", "view", "materialized", "function", "procedure", "recursive"))
"""Objects that may be created from the engine's tables, under another name."""
_BEFORE_NAME = _MAY_READ | {"or", "replace", "temp", "temporary", "unlogged", "global", "local", "if", "not", "exists"}
_NOT_LOCAL = re.compile("statement_timeout|lock_timeout|idle|transaction|default_transaction|role|session|search_path")
"""Settings that change the engine's own statements in the same transaction."""
_SESSION_LOCKS = frozenset(
    f"pg_{what}{shared}"
    for what in ("advisory_lock", "try_advisory_lock", "advisory_unlock")
    for shared in ("", "_shared")
) | {"pg_advisory_unlock_all"}


class _Token(NamedTuple):
    kind: Literal["word", "name", "text", "sign"]
    text: str
    """A word in lower case, a name as the server knows it, or a string without its quotes."""

    @property
    def is_own(self) -> bool:
        """Whether it names a table or another object of the engine."""
        return self.kind in ("word", "name") and self.text.startswith(OWN_PREFIX)


_Statement = Sequence[_Token]


@lru_cache(maxsize=1_024)
def objection(sql: str) -> str | None:
    """Why a text may not run inside a transaction of the engine; None if it may.

    It must not begin, end or split a transaction, nor write, lock or change a table of the engine.
    """
    statements = _statements(sql)
    for statement in statements:
        if (command := _command(statement)) in _TRANSACTION:
            return f"{command.upper()} is not allowed in ctx.write: the engine commits these rows with the stage"
    return OWN_TABLES if any(map(_changes_own, statements)) else None


@lru_cache(maxsize=1_024)
def session_objection(sql: str) -> str | None:
    """Why a text may not run on a shared connection; None if it may.

    It must change nothing for the next user of the connection, nor for later statements of the engine's transaction.
    """
    others = "the connection is the engine's, for others as well"
    for statement in _statements(sql):
        command = _command(statement)
        if command == "do":
            return (
                "DO is not allowed in ctx.write: what its code does cannot be looked at; say its statements one by one"
            )
        if command in _SESSION and not _is_for_itself(statement):
            return f"{command.upper()} is not allowed in ctx.write: {others}"
        for place, token in enumerate(statement):
            if token.kind in ("word", "name") and token.text in _SESSION_LOCKS:
                return f"{token.text} is not allowed in ctx.write, pg_advisory_xact_lock is: {others}"
            if token.text == "set_config" and token.kind != "text" and not _sets_own(statement[place + 1 : place + 3]):
                return (
                    "set_config is allowed in ctx.write for settings of your own, as in "
                    f"set_config('shop.customer', %s, true): {others}"
                )
    return None


@lru_cache(maxsize=1_024)
def leaves_trace(sql: str) -> bool:
    """Whether a text may change a connection for its next user."""
    return any(
        _command(statement) in _LASTING or any(token.text == "set_config" for token in statement)
        for statement in _statements(sql)
    )


def _command(statement: _Statement) -> str:
    return next((token.text for token in statement if token.kind == "word"), "")


def _is_for_itself(statement: _Statement) -> bool:
    """Whether a SET ends with the transaction and does not affect the engine."""
    what = [token.text for token in statement[1:3]]
    if what[:1] == ["constraints"]:
        return True
    return what[:1] == ["local"] and len(what) == 2 and what[1] != "to" and not _NOT_LOCAL.match(what[1])


def _sets_own(arguments: _Statement) -> bool:
    """Whether set_config sets a name with a dot, which is a setting of the application."""
    is_call = len(arguments) == 2 and arguments[0].text == "("
    return is_call and arguments[1].kind == "text" and re.match(r"\w+\.", arguments[1].text) is not None


def _changes_own(statement: _Statement) -> bool:
    command = _command(statement)
    if any(token.is_own for token in _written(statement)):
        return True
    if command in _ROWS:
        return False
    if command == "create" and (kinds := {token.text for token in statement[1:4]} & _MAY_READ):
        after = (token for token in statement[1:] if token.text not in _BEFORE_NAME)
        return bool(kinds) and _names_own(after)
    return any(token.is_own and not _is_reference(statement, place) for place, token in enumerate(statement))


def _is_reference(statement: _Statement, place: int) -> bool:
    """Whether a name follows REFERENCES, perhaps with its schema."""
    if place >= 2 and statement[place - 1].text == ".":
        place -= 2
    return place >= 1 and statement[place - 1] == ("word", "references")


def _names_own(tokens: Iterator[_Token]) -> bool:
    """Whether the name at this point, perhaps with its schema, is an object of the engine."""
    for token in tokens:
        if token.is_own:
            return True
        if next(tokens, None) != ("sign", "."):
            return False
    return False


def _written(statement: _Statement) -> Iterator[_Token]:
    """The names of all tables that a statement writes, with their schemas."""
    for place, token in enumerate(statement):
        is_delete = token == ("word", "from") and place and statement[place - 1] == ("word", "delete")
        if not (is_delete or token in (("word", "into"), ("word", "update"))):
            continue
        behind = place + 1
        while behind < len(statement) and statement[behind] in (("word", "only"), ("sign", "(")):
            behind += 1
        yield from statement[behind : behind + 1]
        while statement[behind + 1 : behind + 2] == [("sign", ".")]:
            behind += 2
            yield from statement[behind : behind + 1]


def _statements(sql: str) -> list[list[_Token]]:
    """Split a text into statements; a function body, BEGIN ATOMIC … END, is part of one."""
    statements: list[list[_Token]] = [[]]
    depth = 0
    for token in _tokens(_PLACEHOLDER.sub("%", sql)):
        current = statements[-1]
        if token == ("word", "atomic") and current and current[-1] == ("word", "begin"):
            depth += 1
        elif depth and token.kind == "word" and token.text in ("case", "end"):
            depth += 1 if token.text == "case" else -1
        if token == ("sign", ";") and not depth:
            statements.append([])
        else:
            current.append(token)
    return statements


def _tokens(sql: str) -> Iterator[_Token]:
    """The tokens that the server would see: no spaces, no comments, names without quotes."""
    place = 0
    while place < len(sql):
        found = _TOKEN.match(sql, place)
        assert found is not None  # any sign is a token
        place = found.end()
        match found.lastgroup:
            case "comment":
                place = _after_comment(sql, place)
            case "dollar":
                end = sql.find(found[0], place)
                place = len(sql) if end < 0 else end + len(found[0])
                yield _Token("text", "")
            case "coded" | "escape":
                yield _Token("name", _decoded(found["coded"], found["escape"] or "\\"))
            case "name":
                yield _Token("name", found["name"].replace('""', '"'))
            case "text":
                yield _Token("text", found["text"])
            case "word":
                yield _Token("word", found["word"].lower())
            case "sign":
                yield _Token("sign", found["sign"])
            case "escaped":
                yield _Token("text", "")


def _after_comment(sql: str, place: int) -> int:
    """The end of a comment, which may contain others."""
    depth = 1
    for found in _COMMENT_ENDS.finditer(sql, place):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(sql)


def _decoded(name: str, escape: str) -> str:
    """Decode a name written with Unicode escapes."""
    coded = re.compile(re.escape(escape) + _CODED, re.I)
    plain = name.replace('""', '"').replace(escape * 2, "\x00")
    return coded.sub(lambda found: chr(int(found[1] or found[2], 16) % 0x110000), plain).replace("\x00", escape)
