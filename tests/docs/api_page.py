"""Writes docs/reference/api.md from signatures and docstrings: `python -m tests.docs.api_page`. A test compares."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import cache, cached_property
from typing import Any, get_type_hints

import onceward
from onceward import testing, tracing
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "api.md"

DEFINING = (
    "Payload", "Pipeline", "Stage", "Isolation", "Retry", "Limits", "Budget", "Source", "Breaker", "Cron", "StopList",
    "Setting", "Watch", "Config", "Migration", "Connection", "sql",
)  # fmt: skip
VERDICTS = ("Filtered", "Skipped", "Failed", "Retryable", "Waiting")
TICKS = ("HttpTrigger", "LambdaTrigger", "SubprocessTrigger", "NextTick")
HOPS = ("incoming", "outgoing_headers")
FOR_PROGRAMS = {
    "Payload": {"key"},
    "Pipeline": {"stage", "at_expiry"},
    "Connection": {"execute", "executemany"},
    **{name: set() for name in (*DEFINING, *TICKS) if name not in ("Payload", "Pipeline", "Connection")},
}
"""The methods of what programs declare that are for programs; the others are the engine's."""
PROVISIONAL = ("app.tokens", "app.audit", "app.bulk")
"""Namespaces that are new and may still change in a minor version; everything else here is stable."""

HEAD = """\
# Public names

Everything a program needs comes from `onceward`, what tests need from `onceward.testing`, and traces from
`onceward.tracing`. Other modules are Onceward's own and may change. This page is made from signatures and docstrings by
`python -m tests.docs.api_page`.

**Awaited forms.** Every method that waits for the database has an awaited form with `a` in front and the same
arguments: `app.tasks.get(7)` and `await app.tasks.aget(7)`, `ctx.call(…)` and `await ctx.acall(…)`. Here such a method
is marked *awaited too*. A blocking method that is called on a running event loop says so once in the log, and names
its awaited form.

**Where a task is asked for**, its number will do, a `Task`, or the `Enqueued` that `enqueue` has returned.

**Stable.** From 0.1.0 on a name on this page changes only as
[What may change](../how-to/deploy-changes.md#what-may-change) says, except in namespaces marked *provisional*.
"""


def page() -> str:
    """Return the text of the page."""
    return "\n".join(line.rstrip() for line in "\n".join(_parts()).split("\n")).rstrip() + "\n"


def _parts() -> Iterator[str]:
    yield HEAD
    yield "## Defining work\n"
    for name in DEFINING:
        yield from _described(name, getattr(onceward, name))
    yield "## Verdicts\n"
    yield "A stage raises them. [When to use which](configuration.md#of-a-pipeline).\n"
    for name in VERDICTS:
        yield from _described(name, getattr(onceward, name))
    yield "## `Context`\n"
    yield _doc(onceward.Context) + "\n"
    yield from _members("ctx", onceward.Context)
    yield "## `App`\n"
    yield _call("App", onceward.App)
    yield _doc(onceward.App) + "\n"
    yield from _members("app", onceward.App)
    for name, space in namespaces().items():
        new = "; *provisional*" if f"app.{name}" in PROVISIONAL else ""
        yield f"## `app.{name}`\n"
        yield f"{_doc(space).partition(': ')[2].capitalize()}{new}\n"
        yield from _members(f"app.{name}", space)
    yield "## Ticks and hops\n"
    for name in (*TICKS, *HOPS):
        yield from _described(name, getattr(onceward, name))
    shown = {*DEFINING, *VERDICTS, *TICKS, *HOPS, "App", "Context"}
    rest = {name: getattr(onceward, name) for name in onceward.__all__ if name not in shown}
    yield "## Values\n"
    yield "What methods return and take; all of it is frozen.\n"
    for name, value in rest.items():
        if not _is_error(value) and not issubclass(value, Enum):
            yield from _described(name, value, signature=False)
    yield "## Words\n"
    for name, value in rest.items():
        if issubclass(value, Enum):
            yield f"### `{name}`\n"
            yield _doc(value) + "\n"
            yield ", ".join(f"`{one.name}`" for one in value) + ".\n"
    yield "## Errors\n"
    yield "[The tree of errors, and what to do about each](errors.md).\n"
    yield "\n".join(f"- `{name}`: {_doc(value).splitlines()[0]}" for name, value in rest.items() if _is_error(value))
    yield "\n## `onceward.testing`\n"
    yield "[How to use them](../how-to/test-your-pipelines.md).\n"
    for name in testing.__all__:
        yield from _described(name, getattr(testing, name))
    yield "## `onceward.tracing`\n"
    yield "[How to use it](../how-to/tracing.md); *provisional*.\n"
    for name in tracing.__all__:
        yield from _described(name, getattr(tracing, name))


def namespaces() -> dict[str, type]:
    """Return the namespaces of an app, by name."""
    return {
        name: get_type_hints(value.func, vars(sys.modules["onceward.app"]) | _namespace_types())["return"]
        for name, value in vars(onceward.App).items()
        if isinstance(value, cached_property) and not name.startswith("_")
    }


def _namespace_types() -> dict[str, Any]:
    from importlib import import_module

    source = ast.parse(inspect.getsource(sys.modules["onceward.app"]))
    found = {}
    for node in ast.walk(source):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onceward.operations."):
            found.update({one.name: getattr(import_module(str(node.module)), one.name, None) for one in node.names})
    return found


def _described(name: str, value: Any, *, signature: bool = True) -> Iterator[str]:
    yield f"### `{name}`\n"
    if callable(value) and signature and value is not onceward.Payload and not _is_plain(value):
        yield _call(name, value)
    yield (_doc(value) or repr(value)) + "\n"
    if inspect.isclass(value):
        yield from _members(name, value, fields=not signature or value in (testing.Harness,))


def _members(owner: str, kind: type, *, fields: bool = True) -> Iterator[str]:
    if fields:
        said = _attribute_docs(kind)
        names = [*getattr(kind, "__struct_fields__", ()), *getattr(kind, "__dataclass_fields__", ())]
        properties = [
            name for name in dir(kind) if isinstance(inspect.getattr_static(kind, name), property | cached_property)
        ]
        rows = [(name, said.get(name, "")) for name in names if not name.startswith("_")]
        rows += [(name, _doc(inspect.getattr_static(kind, name))) for name in properties if not name.startswith("_")]
        spaces = set(namespaces()) if kind is onceward.App else set()
        lines = [f"- `{name}`{': ' if text else ''}{_line(text)}" for name, text in rows if name not in spaces]
        if lines:
            yield "\n".join(lines) + "\n"
    for name in sorted(dir(kind)):
        method = inspect.getattr_static(kind, name)
        method = method.__func__ if isinstance(method, staticmethod | classmethod) else method
        if name.startswith("_") or not inspect.isfunction(method) or _is_awaited_form(kind, name):
            continue
        if method.__module__.split(".")[0] != "onceward" or name not in FOR_PROGRAMS.get(kind.__name__, {name}):
            continue
        too = " · *awaited too*" if hasattr(kind, f"a{name}") else ""
        yield f"#### `{owner}.{name}`{too}\n"
        yield _call(f"{owner}.{name}", method)
        yield _doc(method) + "\n"


def _is_awaited_form(kind: type, name: str) -> bool:
    return name.startswith("a") and hasattr(kind, name[1:])


def _is_plain(value: Any) -> bool:
    return inspect.isclass(value) and (issubclass(value, Enum) or getattr(value, "_is_protocol", False))


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def _call(name: str, value: Any) -> str:
    """Write how something is called, over several lines where one is too long."""
    signature = inspect.signature(value)
    pieces, is_keyword_only = [], False
    for one in signature.parameters.values():
        if one.name in ("self", "cls") or one.name.startswith("_"):
            continue
        if one.kind is one.KEYWORD_ONLY and not is_keyword_only:
            is_keyword_only = True
            pieces.append("*")
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = "" if one.annotation is one.empty else f": {_type(one.annotation)}"
        usual = "" if one.default is one.empty else f"{' = ' if kind else '='}{_value(one.default)}"
        pieces.append(f"{star}{one.name}{kind}{usual}")
    returned = signature.return_annotation
    ends = "" if inspect.isclass(value) or returned is signature.empty else f" -> {_type(returned)}"
    line = f"{name}({', '.join(pieces)}){ends}"
    if len(line) > 100:
        line = f"{name}(\n" + "".join(f"    {one},\n" for one in pieces) + f"){ends}"
    return f"```\n{line}\n```\n"


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z_])", "", text)


def _value(default: Any) -> str:
    if default is sys.executable:  # which is another path on every machine
        return "sys.executable"
    return default.__name__ if inspect.isfunction(default) else repr(default).replace("'", '"')


def _doc(value: Any) -> str:
    return textwrap.dedent(inspect.getdoc(value) or "").strip()


def _line(text: str) -> str:
    return " ".join(text.split())


@cache
def _attribute_docs(kind: type) -> dict[str, str]:
    """Return the texts that stand below the fields of a class."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.split(".")[0] != "onceward":
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0]
        assert isinstance(body, ast.ClassDef)
        for node, after in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                found[node.target.id] = str(after.value.value)
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
