"""Answers made of what the app returns, as one caller may see it."""

from __future__ import annotations

from collections.abc import Mapping

from onceward.model.lineage import Limits
from onceward.views.lineage import Branch, Lineage, LineageSummary
from onceward.views.task import Task
from onceward.views.why import Why
from onceward.web.api import schemas
from onceward.web.roles import Caller
from onceward.web.shown import shown_key, shown_key_of, shown_payload

Secret = Mapping[str, frozenset[str]]


def summary(task: Task, caller: Caller) -> schemas.TaskSummary:
    """Return a task as it is listed."""
    return schemas.of(schemas.TaskSummary, task, key=shown_key(task, caller))


def detail(task: Task, caller: Caller) -> schemas.TaskDetail:
    """Return a task with all that is stored of it."""
    history = [schemas.of(schemas.Happening, one, event=one.event.word) for one in task.history]
    progress = None if task.progress is None else schemas.of(schemas.ProgressShown, task.progress)
    return schemas.of(
        schemas.TaskDetail,
        task,
        key=shown_key(task, caller),
        payload=shown_payload(task, caller),
        history=history,
        progress=progress,
    )


def why_shown(why: Why) -> schemas.WhyShown:
    """Return why a task is not running, with what it waits for."""
    return schemas.of(
        schemas.WhyShown,
        why,
        cause=str(why.cause),
        below=[why_shown(one) for one in why.below],
        before=list(why.before),
    )


def lineage_summary(one: LineageSummary, caller: Caller, secret: Secret) -> schemas.LineageShown:
    """Return a lineage as it is listed."""
    key = shown_key_of(one.kind, one.key, caller, secret)
    return schemas.of(schemas.LineageShown, one, key=key, counts=schemas.counts_shown(one.counts))


def lineage_tree(tree: Lineage, caller: Caller, secret: Secret) -> schemas.LineageTree:
    """Return a lineage as lists: its tasks, what they were refused, and what they were linked to."""
    branches = list(tree.walk())
    refused = [
        schemas.of(schemas.RefusalShown, one, rule=str(one.rule), key=_key(one.kind, one.key, caller, secret))
        for branch in branches
        for one in branch.refusals
    ]
    links = [schemas.of(schemas.LinkShown, one, parent=str(branch.id)) for branch in branches for one in branch.links]
    return schemas.of(
        schemas.LineageTree,
        tree,
        counts=schemas.counts_shown(tree.counts),
        tasks=[_branch(one, caller, secret) for one in branches],
        refused=refused,
        links=links,
    )


def limits_of(given: schemas.LimitsGiven) -> Limits:
    """Return the limits of a lineage that a request asks for; what cannot be meant is an error that says so."""
    return Limits(given.max_depth, given.max_tasks, given.max_children, given.deadline, given.budget, given.when_spent)


def _branch(one: Branch, caller: Caller, secret: Secret) -> schemas.BranchShown:
    return schemas.of(schemas.BranchShown, one, key=shown_key_of(one.kind, one.key, caller, secret))


def _key(kind: str, key: str | None, caller: Caller, secret: Secret) -> str | None:
    return None if key is None else shown_key_of(kind, key, caller, secret)
