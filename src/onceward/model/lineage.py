"""Where a task comes from, and what follows from that: its ancestors, the limits of its lineage, and the rules by
which a spawn is refused.

Ancestors are the strict ones, root first; the engine alone writes them. A limit is the lineage's, set at the root; a
child may narrow it for itself and its descendants, and only an operator widens it.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import msgspec

from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.arguments import shown
from onceward.model.budget import Amount, Counted, amount_of, read_amount
from onceward.model.secret_fields import masked_text
from onceward.model.status import Status
from onceward.model.times import Duration, duration_text, milliseconds

DEEPEST = 100
MOST_TASKS = 1_000_000_000
MOST_CHILDREN = 1_000_000
LONGEST_MS = 10 * 365 * 86_400_000

EVERYWHERE = bytes(16)
"""The scope of identities that are unique in the whole database; other scopes are lineages."""

_ANCESTOR = struct.Struct(">q16s16s")
ANCESTOR_SIZE = _ANCESTOR.size
"""How many bytes one ancestor takes; its number stands first."""


class Rule(StrEnum):
    """Why a spawn is refused."""

    DEPTH = "depth"
    CYCLE = "cycle"
    DUPLICATE = "duplicate"
    DONE = "done"
    STOPPED = "stopped"
    LIMIT = "limit"
    BUDGET = "budget"


REPEATS = frozenset({Rule.CYCLE, Rule.DUPLICATE, Rule.DONE})
"""Rules about work that is there already. A child that is made all the same, for an operator to approve of, does not
take the identity of that work: its holder keeps it."""

LIMITS = frozenset({Rule.DEPTH, Rule.LIMIT, Rule.BUDGET})
"""Rules about room: a batch of which they refuse a part is not whole. By the others it is there, or not wanted."""

_MORE_ROOM = {
    Rule.DEPTH: "enqueue its root with Limits(max_depth=…), or raise it: onceward limits ID --max-depth N",
    Rule.LIMIT: "enqueue its root, or open the batch, with Limits(max_tasks=…), or raise it: "
    "onceward limits ID --max-tasks N",
    Rule.BUDGET: "raise the budget: onceward budget NAME --limit N",
}

NOT_UNIQUE = "not unique"
"""What the log of a child says that took no identity, because its work may be there as often as one likes."""

LONGEST_SHOWN_KEY = 200
"""How many characters of a key a refusal says."""

NAMED_IN_LOG = 20
"""How many children the log of their parent names."""


class Ancestor(msgspec.Struct, frozen=True, gc=False):
    """One task above another: its id, its identity (kind and key), and its key alone, as hashes."""

    task: int
    identity: bytes
    key: bytes


class Alias(msgspec.Struct, frozen=True, gc=False):
    """Another key of a task, with the identity that it makes together with its kind."""

    identity: bytes
    key: str

    def of(self, task: int) -> Ancestor:
        """The task under this key, as it is looked for among ancestors."""
        return Ancestor(task, self.identity, codec.digest128(self.key.encode()))


def read_ancestry(data: bytes | None) -> list[Ancestor]:
    """The strict ancestors of a task, root first."""
    return [] if not data else [Ancestor(*fields) for fields in _ANCESTOR.iter_unpack(data)]


def ancestry_below(data: bytes | None, task: int, identity: bytes, key: bytes) -> bytes:
    """The ancestry of the children of a task."""
    return (data or b"") + _ANCESTOR.pack(task, identity, key)


class Bounds(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The limits that a task has from its lineage, narrowed on the way down. Stored with the task where they are not
    those of the configuration."""

    max_depth: int
    max_children: int
    deadline_ms: int
    max_tasks: int
    budget: int | None = None
    """What all of it may cost, in 10^-9 USD; None without a limit."""
    fails: bool = False
    """Whether tasks fail when that is spent."""

    def replaced(self, limits: Limits) -> Bounds:
        """These bounds with others put in, as only the root may."""
        checked_limits(limits)
        return Bounds(
            self.max_depth if limits.max_depth is None else limits.max_depth,
            self.max_children if limits.max_children is None else limits.max_children,
            self.deadline_ms if limits.deadline_ms is None else limits.deadline_ms,
            self.max_tasks if limits.max_tasks is None else limits.max_tasks,
            self.budget if limits.budget_amount is None else limits.budget_amount,
            self.fails if limits.when_spent is None else limits.when_spent == "fail",
        )

    def of_each(self, limits: Limits) -> Bounds | None:
        """The bounds of each lineage of a batch that has limits; None if these are they. The batch counts its tasks
        by itself, so that its `max_tasks` gives no lineage more room than it would have had; so is it with `budget`."""
        bounds = self.replaced(limits)
        most = min(bounds.max_tasks, self.max_tasks)
        bounds = msgspec.structs.replace(bounds, max_tasks=most, budget=self.budget, fails=self.fails)
        return None if bounds == self else bounds

    def narrowed(self, limits: Limits) -> Bounds:
        """These bounds with narrower ones put in; wider ones are refused."""
        wanted = self.replaced(limits)
        for name in ("max_depth", "max_children", "max_tasks", "deadline_ms"):
            asked, given = getattr(wanted, name), getattr(self, name)
            if asked > given:
                said = (duration_text(asked), duration_text(given)) if name == "deadline_ms" else (asked, given)
                raise ConfigError(
                    f"a child may narrow the limits of its lineage, not widen them: "
                    f"{name.removesuffix('_ms')}={said[0]} is more than {said[1]}"
                )
        if self.budget is not None and wanted.budget is not None and wanted.budget > self.budget:
            raise ConfigError(
                f"a child may narrow the limits of its lineage, not widen them: budget={read_amount(wanted.budget)} "
                f"is more than {read_amount(self.budget)}"
            )
        return wanted


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a lineage. What is left out is inherited; at the root, from the configuration.

    `max_depth` is the largest depth a task may have (the root has 0), `max_tasks` counts all tasks of the lineage with
    its root, `max_children` those of one task, `deadline` runs from the root's enqueue. `budget` is what all of them
    may cost together, in USD, as far as their stages have an estimate. When it is spent, tasks wait until it is raised;
    with `when_spent="fail"` they fail, so that whatever joins them goes on.
    """

    max_depth: int | None = None
    max_tasks: int | None = None
    max_children: int | None = None
    deadline: Duration | None = None
    budget: Amount | None = None
    when_spent: Literal["wait", "fail"] | None = None
    deadline_ms: int | None = field(init=False, repr=False)
    budget_amount: int | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("max_depth", self.max_depth, 0, DEEPEST),
            ("max_tasks", self.max_tasks, 1, MOST_TASKS),
            ("max_children", self.max_children, 0, MOST_CHILDREN),
        ):
            checked_number(name, value, least, most)
            object.__setattr__(self, name, None if value is None else int(value))  # as one of an enumeration is stored
        object.__setattr__(self, "deadline_ms", checked_deadline(self.deadline))
        amount = None if self.budget is None else amount_of(self.budget, "the budget of a lineage")
        object.__setattr__(self, "budget_amount", amount)
        if self.when_spent not in (None, "wait", "fail") or (self.when_spent is not None and amount is None):
            raise ConfigError(f"when_spent={shown(self.when_spent)}: it is 'wait' or 'fail', beside a budget")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is limited."""
        return (self.max_depth, self.max_tasks, self.max_children, self.deadline, self.budget) == (None,) * 5


def checked_number(name: str, value: Any, least: int, most: int) -> None:
    """Refuse a limit that is no number, or an absurd one."""
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(f"{name}={shown(value)}: it is a whole number from {least} to {most:,}")


def checked_limits(limits: Any) -> None:
    """Refuse as the limits of a lineage what is none."""
    if not isinstance(limits, Limits):
        raise ConfigError(f"limits={shown(limits)}: they are given as in Limits(max_tasks=500)")


def checked_deadline(deadline: Duration | None) -> int | None:
    """A deadline in milliseconds."""
    if deadline is None:
        return None
    given = milliseconds(deadline)
    if not 1 <= given <= LONGEST_MS:
        raise ConfigError(f"a deadline of {deadline!r}: it lies between 1 ms and ten years")
    return given


class Sort(msgspec.Struct, frozen=True, gc=False):
    """What children of one sort have in common. A stage that spawns many mostly asks for one sort."""

    kind: str
    version: int
    queue: str
    band: int
    unique: str
    cycle: str = "identity"
    """What must not come back among the ancestors."""
    due_at: int = 0
    """When it may run; a time that is over is the time of the commit."""
    fresh_for_ms: int | None = None
    policies: tuple[tuple[Rule, str], ...] = ()
    gates: str | None = None
    """What its first stage has to pass."""
    estimate: int | None = None
    """What its first stage may cost at most."""
    counted: tuple[Counted, ...] = ()
    """The budgets that count it."""
    secret: frozenset[str] = frozenset()
    """The fields of its payload that no refusal says."""

    def policy(self, rule: Rule) -> str:
        """What its pipeline wants if a rule refuses it: to be told ("refuse"), an error, or an operator asked."""
        return next((policy for one, policy in self.policies if one == rule), "refuse")

    def lets_part_in(self, rule: Rule) -> bool:
        """Whether its pipeline says that a batch may have a part of such children, where a rule refuses others."""
        return any(one == rule for one, _ in self.policies)


class Spawn(msgspec.Struct, frozen=True, gc=False):
    """A child that a stage asks for, before anything is decided."""

    sort: Sort
    key: str | None
    identity: bytes
    payload: bytes
    key_hash: bytes | None = None
    """Its key as a hash, where that must not come back, whatever its kind."""
    bounds: Bounds | None = None
    """Its own limits, where they are narrower than its parent's."""
    scope: uuid.UUID | None = None
    """A new scope in which the tasks and the money of its subtree are counted, and which ends it at its deadline, if it
    has narrower limits on them."""
    stopped: str | None = None
    """What the stop list says of it."""
    batch: str | None = None
    """The name of the batch to which it is added, if its stage opens one."""
    follows: str | None = None
    """The name of the batch whose end it waits for."""

    @property
    def shown_key(self) -> str:
        """Its key as a refusal says it: not endless, and on one line. Without a key of its own, all its fields."""
        key = masked_text(self.payload, self.sort.secret) if self.key is None else self.key
        return repr(key if len(key) <= LONGEST_SHOWN_KEY else f"{key[:LONGEST_SHOWN_KEY]}…")

    @property
    def in_words(self) -> str:
        """The work that it is, as a refusal says it."""
        return f"{self.sort.kind} {self.shown_key}"

    def added_to(self, batch: str) -> Spawn:
        """This child in a batch, which has one counter for all its tasks."""
        return msgspec.structs.replace(self, batch=batch, scope=None)

    def following(self, batch: str) -> Spawn:
        """This child after a batch. It waits already, so that no operator can be asked about it: where another child
        would wait for approval, it is refused."""
        policies = tuple((rule, "refuse" if policy == "park" else policy) for rule, policy in self.sort.policies)
        return msgspec.structs.replace(self, follows=batch, sort=msgspec.structs.replace(self.sort, policies=policies))


class StageBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch that a stage opens."""

    name: str
    deadline_ms: int | None = None
    max_tasks: int | None = None
    """How many tasks it may have, with all that they spawn."""
    budget: int | None = None
    """What all of them may cost, in 10^-9 USD."""
    fails: bool = False
    """Whether tasks fail when that is spent."""


class Spawns(msgspec.Struct, frozen=True, gc=False):
    """The children that a stage asks for, with what is to be known of the task that asks."""

    key_hash: bytes
    """Its key, as a hash."""
    defaults: Bounds
    """The limits of a lineage for which none were set."""
    asked: tuple[Spawn, ...]
    aliases: tuple[Alias, ...] = ()
    """Further keys of the task itself."""
    batches: tuple[StageBatch, ...] = ()
    unique: str = "lineage"
    """Where its own identity is unique, and its aliases with it."""
    fresh_for_ms: int | None = None
    """For how long one that has succeeded keeps them everywhere."""


class Child(msgspec.Struct, frozen=True, gc=False):
    """What a stage knows of a child that an earlier stage asked for."""

    task: int | None
    identity: bytes
    kind: str
    key: str | None
    status: int | None
    reason: str | None
    rule: str | None = None
    is_own: bool = True
    value: bytes | None = None
    is_other_name: bool = False
    """Whether it is one that is there already, by a key that it was not asked for by."""

    @property
    def is_listed(self) -> bool:
        """Whether it is one of the tasks that came of it all."""
        return self.rule is None and not self.is_other_name


class Descent(msgspec.Struct, frozen=True, gc=False):
    """Where a task comes from, as far as a stage that spawns must know at once."""

    ancestry: bytes | None = None
    limits: bytes | None = None
    children: int = 0


NO_DESCENT = Descent()
"""That of a root which has not run yet."""


class Family(msgspec.Struct, frozen=True, gc=False):
    """What a task that has asked for children knows of them. It is always true, like the verdict it comes with."""

    children: tuple[Child, ...] = ()
    is_paused: bool = False
    """Whether the task is paused: its attempt goes on no further."""

    @property
    def open_ones(self) -> list[int]:
        """Those of them that had not ended."""
        found = [(child.task, child.status) for child in self.children]
        return [task for task, status in found if task is not None and status is not None and status < Status.SUCCEEDED]


class Refused(msgspec.Struct, frozen=True, gc=False):
    """A spawn that was refused: by which rule, in words, and whom it met."""

    rule: Rule
    reason: str
    ancestor: int | None = None
    existing: int | None = None


def spawn_note(children: Sequence[int], depth: int, lineage: uuid.UUID) -> str:
    """What the log of a task says of children that one of its stages has spawned."""
    named = ", ".join(map(str, children[:NAMED_IN_LOG]))
    others = f" and {len(children) - NAMED_IN_LOG} more" if len(children) > NAMED_IN_LOG else ""
    what = "task" if len(children) == 1 else f"{len(children)} tasks"
    return f"{what} at depth {depth} of lineage {lineage}: {named}{others}"


def stays(status: Status, ended_at: int | None, fresh_for_ms: int | None, now: int) -> bool:
    """Whether a task keeps an identity that is unique everywhere: while it is open, or fresh."""
    if not status.is_terminal:
        return True
    return status is Status.SUCCEEDED and fresh_for_ms is not None and (ended_at or 0) > now - fresh_for_ms


def parked_note(refusals: Iterable[Refused]) -> str:
    """What the log of a new child says that waits for approval: the rules that refuse it, and why they do."""
    found = list(refusals)
    return f"{', '.join(one.rule for one in found)}: {'; '.join(one.reason for one in found)}"


def rules_in(note: str) -> frozenset[Rule]:
    """The rules that such a note names; none, if it is a note about something else."""
    named = frozenset(note.partition(": ")[0].split(", "))
    return frozenset(map(Rule, named)) if named <= frozenset(Rule) else frozenset()


def refused_by_depth(depth: int, deepest: int) -> Refused | None:
    """Whether a task may stand at a depth."""
    if depth <= deepest:
        return None
    return Refused(Rule.DEPTH, f"it would have depth {depth}, and the lineage's max_depth is {deepest}")


def refused_by_ancestors(spawn: Spawn, family: list[Ancestor]) -> Refused | None:
    """Whether a spawn would repeat an ancestor or the spawning task, which is the last of the family. A task with
    several keys is there with each of them."""
    for ancestor in family:
        by_key = spawn.key_hash is not None
        if ancestor.key == spawn.key_hash if by_key else ancestor.identity == spawn.identity:
            who = (
                "the spawning task itself"
                if ancestor.task == family[-1].task
                else f"its ancestor, task {ancestor.task},"
            )
            what = f"has the same key {spawn.shown_key}" if by_key else f"is the same work ({spawn.in_words})"
            return Refused(Rule.CYCLE, f"{who} {what}", ancestor.task)
    return None


def cannot_take_all(name: str | None, wanted: int, refused: Refused) -> str:
    """The error of a stage whose batch has no room for all that was added to it."""
    rule = refused.rule
    return (
        f"batch {name!r} cannot take all of its {wanted:,} tasks: {refused.reason}; {_MORE_ROOM[rule]}; or let a part "
        f"of it in with Pipeline(…, refused={{{rule.value!r}: 'refuse'}})"
    )


def refused_by_children(children: int, most: int) -> Refused | None:
    """Whether a task may have one more child."""
    if children < most:
        return None
    return Refused(Rule.LIMIT, f"the spawning task has {children} children, and max_children is {most}")
