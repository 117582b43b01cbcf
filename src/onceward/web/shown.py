"""What a caller sees of payloads and keys. Pages, the JSON API, exports and assistants all ask here.

Operators and admins see every value: they retry and cancel by what they read. Viewers see no secret field
(`Payload`'s `secret=`), and no value at all of a kind of which the code and the database know nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from onceward.model.secret_fields import MASK, masked, masked_key
from onceward.views.task import shown
from onceward.web.roles import Caller, Role

if TYPE_CHECKING:
    from onceward.views.branches import Drawn, LineageTree
    from onceward.views.details import TaskDetails
    from onceward.views.task import Task

__all__ = [
    "MASK",
    "sees_secrets",
    "shown_details",
    "shown_key",
    "shown_key_of",
    "shown_lineage",
    "shown_payload",
    "shown_task",
]


def sees_secrets(caller: Caller) -> bool:
    """Return whether a caller sees the values of secret fields."""
    return caller.may(Role.OPERATOR)


def shown_payload(task: Task, caller: Caller) -> Any:
    """Return the payload of a task as plain values, without what the caller may not see."""
    if sees_secrets(caller):
        return shown(task._raw_payload)
    return masked(task._raw_payload, task._secret) if task._secret != frozenset() else shown(task._raw_payload)


def shown_key(task: Task, caller: Caller) -> str:
    """Return the key of a task, without what the caller may not see: without a key of its own it is all its fields."""
    return task.key if sees_secrets(caller) or task._has_own_key else masked_key(task.key, task._secret)


def shown_task(task: Task, caller: Caller) -> Task:
    """Return a task with the key that the caller may see, for a list."""
    return task if sees_secrets(caller) else replace(task, key=shown_key(task, caller))


def shown_details(details: TaskDetails, caller: Caller, secret: Mapping[str, frozenset[str]]) -> TaskDetails:
    """Return a task and what belongs to it, without the secret fields of its payload and of its children."""
    if sees_secrets(caller):
        return details
    fields = secret.get(details.task.kind)
    children = tuple(replace(one, key=masked_key(one.key, secret.get(one.kind))) for one in details.children)
    payload = details.payload if fields == frozenset() else msgspec.json.encode(masked(details.payload, fields))
    key = details.task.key if details.task._has_own_key else masked_key(details.task.key, fields)
    return replace(details, task=replace(details.task, key=key), payload=payload, children=children)


def shown_lineage(
    tree: LineageTree, drawn: Drawn, caller: Caller, secret: Mapping[str, frozenset[str]]
) -> tuple[LineageTree, Drawn]:
    """Return a lineage and what is drawn of it, with the keys that the caller may see."""
    if sees_secrets(caller):
        return tree, drawn

    def seen(kind: str, key: str | None) -> str | None:
        return None if key is None else masked_key(key, secret.get(kind))

    refused = tuple(replace(one, key=seen(one.kind, one.key)) for one in tree.refused)
    tasks = {
        id: replace(one, key=seen(tree.tasks[id].kind, one.key) or "") if id in tree.tasks else replace(one, key="")
        for id, one in drawn.tasks.items()
    }
    refusals = {
        id: tuple(replace(one, key=seen(one.kind, one.key)) for one in several)
        for id, several in drawn.refusals.items()
    }
    links = {
        id: tuple(replace(one, key=seen(one.kind, one.key) or "") for one in several)
        for id, several in drawn.links.items()
    }
    return replace(tree, refused=refused), replace(drawn, tasks=tasks, refusals=refusals, links=links)


def shown_key_of(kind: str, key: str, caller: Caller, secret: Mapping[str, frozenset[str]]) -> str:
    """Return a key that stands without its task, as in a tree; `secret` is what `app.tasks.secret_fields()` returns."""
    return key if sees_secrets(caller) else masked_key(key, secret.get(kind))
