"""Writes docs/reference/http-api.md from the table of operations: `python -m tests.docs.http_page`. A test compares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from onceward.web import api
from onceward.web.api.operation import PREFIX, Operation
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "http-api.md"
HEAD = """# HTTP API

What `onceward web`, and `app.asgi()` in a program of yours, answer below `/api/v1`. The OpenAPI 3.1 document of the
same is at `/api/v1/openapi.json`; `python -m tests.docs.http_page` writes this page from the table that both are made
of.

- **Tokens**: `Authorization: Bearer …`, made by `onceward token add NAME --role viewer`. A viewer looks, an operator
  acts on work, an admin changes settings and limits and reads the audit log. Without any token in the database,
  `onceward web` on loopback lets callers of this machine do everything.
- **Values**: JSON. Numbers of 64 bits (`"id": "4711"`) and amounts (`"cost": "0.0125"`) are texts, times are RFC 3339
  in UTC. A member keeps its name and its meaning; new ones may join.
- **Lists of tasks** take [a filter](../how-to/filters.md) and go on at `next`: `?cursor=…`. A filter that no index
  answers says in `searched_back_to` how far it has looked.
- **Errors** are `application/problem+json` (RFC 9457): `status`, a sentence in `detail`, and `at` for the parameter
  or the place in the body, `position` for the character of a filter.
- **Stale views**: a task has a `version`, which is also its `ETag`. An action with `If-Match` (or `version` in its
  body) is refused with 412 if the task has moved since.
- **Bodies** are `application/json` of at most 1 MiB, of `POST /api/v1/tasks` 8 MiB, sent within 30 s.
- **Lineage**: a task that is enqueued under the `baggage` header of [`outgoing_headers`](../how-to/spawn-work.md) is
  a child of the task that it names.
- **Audit**: every change, and every attempt that the role does not allow, is a line of `GET /api/v1/audit`. An
  enqueue is none: its task is the record.
- **Secret fields** of payloads (`class Login(Payload, kind="login", secret=("password",))`) are masked for viewers,
  in exports too.
"""
SECTIONS = {
    "tasks": "Tasks", "bulk": "Many tasks at once", "lineages": "Lineages", "batches": "Batches", "sources": "Sources",
    "budgets": "Budgets", "holds": "Budgets", "schedules": "Schedules", "cron": "Schedules", "settings": "Settings",
    "pauses": "Pauses", "stats": "Figures", "envelope": "Figures", "alerts": "Alerts", "workers": "Workers",
    "audit": "Records", "openapi": "Records",
}  # fmt: skip


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_sections(), *_examples()])


def _sections() -> Iterator[str]:
    by_section: dict[str, list[Operation]] = {}
    for one in api.OPERATIONS:
        first = one.path.strip("/").partition("/")[0].partition(".")[0]
        by_section.setdefault(SECTIONS[first], []).append(one)
    for name, operations in by_section.items():
        yield f"## {name}\n\n| | | role | parameters |\n|---|---|---|---|"
        for one in operations:
            yield f"| `{one.method} {PREFIX}{one.plain_path}` | {one.about} | {one.role.word} | {_parameters(one)} |"
        yield ""


def _parameters(one: Operation) -> str:
    described = api.openapi.document([one])["paths"][PREFIX + one.plain_path][one.method.lower()]
    names = [f"`{each['name']}`" for each in described.get("parameters", []) if each["in"] != "path"]
    if one.body is not None:
        schema = api.openapi.document([one])["components"]["schemas"].get(one.body.__name__, {})
        inside = ", ".join(f"`{name}`" for name in schema.get("properties", {}))
        names += [f"in the body: {inside}"] if inside else []
    return ", ".join(names)


def _examples() -> Iterator[str]:
    yield "## Examples of bodies\n\n| | |\n|---|---|"
    for one in api.OPERATIONS:
        if one.example:
            yield f"| `{one.method} {PREFIX}{one.plain_path}` | `{_plain(one.example)}` |"
    yield ""


def _plain(value: Any) -> str:
    return json.dumps(value).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
