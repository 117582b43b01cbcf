"""What `--json` prints of lineages, and of what holds a task back. Its keys are as stable as those of the others."""

from __future__ import annotations

from onceward.cli.documents import Document, iso
from onceward.model.lineage import Limits
from onceward.model.times import milliseconds
from onceward.views.lineage import Branch, Lineage, LineageSummary, Link, Refusal
from onceward.views.why import Why


def lineage_document(lineage: Lineage) -> Document:
    """A lineage or a part of it, as a tree."""
    return {
        "lineage": str(lineage.id),
        "whole": lineage.is_whole,
        "tasks": lineage.tasks,
        "counts": {status.word: count for status, count in lineage.counts.items()},
        "tasks_counted": lineage.tasks_counted,
        "max_tasks": lineage.max_tasks,
        "deepest": lineage.deepest,
        "max_depth": lineage.max_depth,
        "max_children": lineage.max_children,
        "deadline_at": iso(lineage.deadline_at),
        "refusals": lineage.refusals,
        "paused": lineage.is_paused,
        "paused_tasks": lineage.paused,
        "left_out": lineage.left_out,
        "cost_usd": float(lineage.cost),
        "tree": [branch_document(root) for root in lineage.roots],
    }


def branch_document(branch: Branch) -> Document:
    """A task in its lineage, with what descends from it."""
    return {
        "id": branch.id,
        "parent": branch.parent,
        "depth": branch.depth,
        "kind": branch.kind,
        "key": branch.key,
        "status": branch.status.word,
        "stage": branch.stage,
        "attempts": branch.attempts,
        "failures": branch.failures,
        "reason": branch.reason,
        "waiting_for": branch.waiting_for,
        "paused": branch.is_paused,
        "cost_usd": float(branch.cost),
        "due_at": iso(branch.due_at),
        "created_at": iso(branch.created_at),
        "ended_at": iso(branch.ended_at),
        "refusals": [refusal_document(one) for one in branch.refusals],
        "refusals_only_counted": branch.refusals_only_counted,
        "links": [link_document(one) for one in branch.links],
        "children": [branch_document(child) for child in branch.children],
    }


def refusal_document(refusal: Refusal) -> Document:
    """A child that was refused."""
    return {
        "parent": refusal.parent,
        "stage": refusal.stage,
        "kind": refusal.kind,
        "key": refusal.key,
        "rule": refusal.rule.value,
        "reason": refusal.reason,
        "ancestor": refusal.ancestor,
        "existing": refusal.existing,
        "at": iso(refusal.at),
    }


def link_document(link: Link) -> Document:
    """A task that was there already."""
    return {
        "task": link.task,
        "stage": link.stage,
        "lineage": str(link.lineage),
        "kind": link.kind,
        "key": link.key,
        "status": link.status.word,
    }


def summary_document(one: LineageSummary) -> Document:
    """A lineage in a list."""
    return {
        "lineage": str(one.id),
        "root": one.root,
        "kind": one.kind,
        "key": one.key,
        "status": one.status.word,
        "counts": {status.word: count for status, count in one.counts.items()},
        "tasks_counted": one.tasks_counted,
        "max_tasks": one.max_tasks,
        "deepest": one.deepest,
        "refusals": one.refusals,
        "paused": one.is_paused,
        "cost_usd": float(one.cost),
        "deadline_at": iso(one.deadline_at),
        "created_at": iso(one.created_at),
    }


def why_document(why: Why) -> Document:
    """What holds a task back."""
    return {
        "task": why.task,
        "status": why.status.word,
        "cause": why.cause.value,
        "sentence": why.sentence,
        "until": iso(why.until),
        "waiting_for": why.waiting_for,
        "paused_by": why.paused_by,
        "open_children": list(why.open_children),
        "ahead": why.ahead,
        "workers": list(why.workers),
        "gate": why.gate,
        "paused_scope": why.paused_scope,
        "command": why.command,
        "below": [why_document(one) for one in why.below],
        "before": list(why.before),
    }


def limits_document(limits: Limits) -> Document:
    """The limits of a lineage or a part of it."""
    return {
        "max_depth": limits.max_depth,
        "max_tasks": limits.max_tasks,
        "max_children": limits.max_children,
        "budget_usd": None if limits.budget is None else float(limits.budget),
        "deadline_s": None if limits.deadline is None else milliseconds(limits.deadline) / 1_000,
    }
