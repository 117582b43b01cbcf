"""The dashboard: serving it, and the tokens by which it knows its callers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.text import Text

from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.documents import Document
from onceward.cli.exits import FINE
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Output, Where
from onceward.cli.tables import table
from onceward.cli.target_app import database
from onceward.errors import ConfigError
from onceward.operations.tokens import TokenStatus

PORT = 8300


@command_line.command(
    sort_key=2.5,
    help_epilogue=example(
        "onceward web shop.tasks:app",
        "onceward web --db sqlite:///shop.db --port 9000",
        "onceward web shop.tasks:app --host 0.0.0.0 --host-name jobs.example.com --base-path /onceward",
    ),
)
def web(
    app: Annotated[
        str | None, Parameter(name="APP", help="The app, as module:app or path/to/file.py:app. Or give --db.")
    ] = None,
    /,
    *,
    host: Annotated[str, Parameter(help="The address to listen on. Any but this machine's own needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, Parameter(validator=Number(gte=0, lt=65_536), help="The port to listen on.")] = PORT,
    base_path: Annotated[str, Parameter(help="Where a proxy mounts it, such as /onceward.")] = "",
    host_name: Annotated[
        list[str] | None, Parameter(help="A further name under which browsers reach it. May be repeated.")
    ] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Serve the dashboard and the JSON API, until Ctrl-C."""
    from onceward.web.serving import serve

    if app is not None:
        if where.app is not None:
            raise ConfigError("the app is named twice; leave out --app")
        where = Where(app=app, db=where.db)
    with database(where) as found:
        name = "" if where.app is None else where.app.rpartition(":")[0].rpartition(".")[2].rpartition("/")[2]
        shown = "localhost" if host in ("127.0.0.1", "::1") else host
        answer(
            output,
            lambda: {"url": f"http://{shown}:{port}{base_path}/"},
            lambda: [Text.assemble("dashboard  ", (f"http://{shown}:{port}{base_path}/", "bold"), "   Ctrl-C ends it")],
        )
        serve(found, host, port, base_path=base_path, host_names=host_name, name=name)
    return FINE


@command_line.command(
    sort_key=9.5,
    help_epilogue=example(
        "onceward token list --db sqlite:///shop.db",
        "onceward token add ada --role operator --expires 90d --app shop.tasks:app",
        "onceward token revoke ada --app shop.tasks:app",
    ),
)
def token(
    action: Annotated[Literal["list", "add", "revoke"], Parameter(name="ACTION", help="list, add or revoke.")],
    name: Annotated[str | None, Parameter(name="NAME", help="Whose token it is, as the audit log names them.")] = None,
    /,
    *,
    role: Annotated[
        Literal["viewer", "operator", "admin"],
        Parameter(help="viewer looks, operator acts on work, admin changes settings and limits."),
    ] = "viewer",
    expires: Annotated[str | None, Parameter(help="With add: after how long it ends, such as 90d.")] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Make, list and revoke the tokens of the dashboard. From the first one on every caller needs a token."""
    if (name is None) != (action == "list"):
        raise ConfigError("list takes no name" if action == "list" else f"whose token? onceward token {action} NAME")
    with database(where) as app:
        if name is None:
            found = app.tokens.list()
            answer(output, lambda: {"tokens": [_document(one) for one in found]}, lambda: _screen(found))
        elif action == "add":
            secret = app.tokens.add(name, role, expires=expires)
            answer(output, lambda: {"name": name, "role": role, "token": secret}, lambda: _made(name, role, secret))
        elif not app.tokens.revoke(name):
            raise ConfigError(f"there is no token {name!r}")
        else:
            answer(output, lambda: {"revoked": name}, lambda: [Text.assemble(("revoked ", "green"), name)])
    return FINE


def _document(one: TokenStatus) -> Document:
    return {
        "name": one.name,
        "role": one.role,
        "created_at": one.created_at,
        "expires_at": one.expires_at,
        "author": one.author,
    }


def _made(name: str, role: str, secret: str) -> Iterable[Any]:
    yield Text(secret, "bold")
    yield Text(f"the token of {name}, {role}; it is shown this once, the database keeps only its hash", "dim")


def _screen(found: Sequence[TokenStatus]) -> Iterable[Any]:
    if not found:
        yield Text("there is no token: only callers on this machine may use the dashboard", "dim")
        return
    yield table(("name", "role", "made", "expires", "by"), map(_row, found), cut=("name",))


def _row(one: TokenStatus) -> tuple[str, ...]:
    expires = "never" if one.expires_at is None else f"{one.expires_at:%Y-%m-%d}"
    return one.name, one.role, f"{one.created_at:%Y-%m-%d}", expires, one.author
