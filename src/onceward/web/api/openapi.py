"""The OpenAPI 3.1 document of the API, made of the table of operations and the types that they name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.responses import Response

from onceward.web.api.operation import JSON, PREFIX, Call, NoBody, NoQuery, Operation
from onceward.web.roles import Role

PROBLEM = "application/problem+json"
EVERYWHERE = (400, 401, 403, 408, 413, 421, 500, 503)
"""What any operation may answer when it goes wrong."""
OF_BODIES = (415,)
PARAMETERS = {
    "id": "The number of a task; for a lineage also its id.",
    "name": "A name as lists show it; it may hold slashes.",
}
ABOUT = """Tasks, lineages and what governs them. Send a token: `Authorization: Bearer …` (`onceward token add`).

Numbers of 64 bits and amounts are texts. Times are RFC 3339. Lists go on at the cursor `next`. Errors are
`application/problem+json` with a sentence in `detail`. Viewers look, operators act, admins change
settings and limits."""


class Problem(msgspec.Struct):
    """What is wrong."""

    type: str
    title: str
    status: int
    detail: str
    """A sentence that says what is wrong and what to do."""
    at: str | None = None
    """Where the mistake stands: a parameter, or a place in the body."""
    position: int | None = None
    """The character at which a filter cannot be read, from 0."""
    length: int | None = None


def operation(others: Sequence[Operation]) -> Operation:
    """Return the operation that answers with the document of all others and of itself."""

    async def show(call: Call[NoQuery, None]) -> Response:
        return Response(_encoded(), media_type=JSON)

    @cache
    def _encoded() -> bytes:
        return msgspec.json.encode(document([*others, itself]))

    itself = Operation("GET", "/openapi.json", show, "Show this document.", dict[str, Any])
    return itself


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of some operations."""
    types = [one for operation in operations for one in (operation.answer, operation.query, operation.body) if one]
    _, components = msgspec.json.schema_components([Problem, *types], ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(PREFIX + one.plain_path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Onceward", "version": version("onceward"), "description": ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: Operation) -> dict[str, Any]:
    parameters = [_of_path(name) for name in one.parameters] + _of_query(one.query)
    if one.checks_version:
        about = "The `version` of the task that was looked at; 412 if it has moved since."
        parameters.append({"name": "If-Match", "in": "header", "schema": {"type": "string"}, "description": about})
    described: dict[str, Any] = {
        "operationId": _name(one),
        "summary": one.about,
        "description": f"Needs the role {one.role.word}.",
        "x-role": one.role.word,
        "tags": [one.path.strip("/").partition("/")[0].partition(".")[0]],
        "responses": _answers(one),
    }
    if one.role is Role.NONE:
        described["security"] = []
    if parameters:
        described["parameters"] = parameters
    if one.body is not None:
        content: dict[str, Any] = {"schema": _schema(one.body)}
        if one.example is not None:
            content["example"] = one.example
        required = one.body is not NoBody and bool(_required(one.body))
        described["requestBody"] = {"required": required, "content": {JSON: content}}
    return described


def _answers(one: Operation) -> dict[str, Any]:
    fine: dict[str, Any] = {"description": HTTPStatus(one.status).phrase}
    if one.answer is not None:
        fine["content"] = {JSON: {"schema": _schema(one.answer)}}
    elif one.media:
        fine["content"] = {media: {"schema": {"type": "string"}} for media in one.media.split(", ")}
    statuses = {*EVERYWHERE, *one.errors, *(OF_BODIES if one.body is not None else ())}
    wrong = {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted(statuses)
    }
    return {str(one.status): fine, **wrong}


def _of_path(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema, "description": PARAMETERS.get(name, "")}


def _of_query(expected: type[Any]) -> list[dict[str, Any]]:
    whole = msgspec.json.schema(expected)
    properties = whole["$defs"][expected.__name__].get("properties", {})
    needed = whole["$defs"][expected.__name__].get("required", [])
    return [
        {
            "name": name,
            "in": "query",
            "required": name in needed,
            "schema": _without_null(schema),
            "description": schema.get("description", ""),
        }
        for name, schema in properties.items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter, which is left out where it is nothing."""
    kinds = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
    found = {**schema, **kinds[0]} if len(kinds) == 1 else dict(schema)
    found.pop("anyOf", None)
    if found.get("default", 0) is None:
        del found["default"]
    return found


def _required(expected: type[Any]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(expected) if field.required]


def _schema(expected: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([expected], ref_template="#/components/schemas/{name}")
    return schema


def _name(one: Operation) -> str:
    """Return a name of an operation that programs made of the document can use: `post_tasks_id_retry`."""
    words = one.plain_path.strip("/").replace("{", "").replace("}", "").replace(".", "_").split("/")
    return "_".join([one.method.lower(), *words])
