"""Children by hand: what a stage asks for, and a commit that asks for it."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from onceward.authoring.child_builder import key_hash
from onceward.model.lineage import Alias, Bounds, Limits, Rule, Sort, Spawn, Spawns
from onceward.model.payload import identity
from onceward.model.task import Commit, HandOver, Lease, Move, band_of
from onceward.store.attempts import commits
from tests.store.conftest import Hands

DEFAULTS = Bounds(max_depth=10, max_children=1_000, deadline_ms=48 * 3_600_000, max_tasks=10_000)
ASKS: dict[str, Any] = {"policies": tuple((rule, "park") for rule in Rule)}
"""About such a child an operator is asked, whichever rule refuses it."""


def child(key: str, kind: str = "note", *, due_at: int = 0, max_tasks: int | None = None, **options: Any) -> Spawn:
    """A child to ask for. With `max_tasks` it has a narrower limit of its own."""
    wanted: dict[str, Any] = {"payload": b"{}", **options}
    if max_tasks is not None:
        wanted["bounds"] = DEFAULTS.replaced(Limits(max_tasks=max_tasks))
        wanted["scope"] = uuid.uuid4()
    own = {name: wanted.pop(name) for name in list(wanted) if name in Sort.__struct_fields__}
    sort = Sort(kind, 1, "default", band_of(0), **{"unique": "lineage", "due_at": due_at, **own})
    return Spawn(sort=sort, key=key, identity=identity(kind, key), **wanted)


def together(key: str, *children: Spawn, defaults: Bounds = DEFAULTS) -> Spawns:
    """What the stage of a task with this key asks for."""
    return Spawns(key_hash(key), defaults, children)


def known_as(spawns: Spawns, *keys: str, kind: str = "note", unique: str = "lineage") -> Spawns:
    """The same, of a stage that gives its task further keys."""
    aliases = tuple(Alias(identity(kind, key), key) for key in keys)
    return msgspec.structs.replace(spawns, aliases=aliases, unique=unique)


def commit(hands: Hands, lease: Lease, key: str, move: Move, *children: Spawn) -> commits.CommitAnswer:
    """Hand in a move of a task with this key, and what it asks for."""
    [verdict] = hands.do(lambda: commits.commit([Commit(lease, move, (), together(key, *children))], hands.now))
    return verdict


def joining(stage: str, next_stage: str) -> HandOver:
    """The stage is done, and the next one waits for the children."""
    return HandOver(stage, b"1", next_stage, "default", joins=True)
