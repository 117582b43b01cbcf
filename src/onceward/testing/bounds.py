"""Whether one root stays within a bound, and if not, how it grew: the assertion behind `Harness.assert_bounded`."""

from __future__ import annotations

from collections.abc import Callable

from onceward.app import App
from onceward.model.lineage import MOST_TASKS, Limits, checked_number
from onceward.model.payload import Payload
from onceward.store.lineage.growth import Branch, Growth, lower_task_limit, read_growth
from onceward.views.envelope import Envelope

POLLS_ALLOWED = 1_000
"""How many attempts more than the envelope has may be begun, by tasks that are put off, before it is called endless."""


def bounded(
    app: App, payload: Payload | None, most: int, limits: Limits | None, drain: Callable[[int], bool]
) -> Growth:
    """Raise `AssertionError` if a root can make more tasks than that, or this one does."""
    checked_number("most", most, 1, MOST_TASKS)
    envelope = app.envelope(limits)
    if (payload is None or limits is not None) and envelope.exceeds(most):
        raise AssertionError(_too_wide(envelope, most))
    if payload is None:
        return Growth([], [])
    before = sum(app.stats.counts().values())
    # With limits of its own its lineage has a row from the start. What it may give to its children stays as it is.
    root = app.enqueue(payload, limits=limits or Limits(max_tasks=app.config.max_tasks))
    if not root:
        return Growth([], [])
    lineage = app.tasks.get(root.id).lineage
    app._transact(lambda: lower_task_limit(lineage, min(most + 1, envelope.max_tasks)))
    worst = max(one.attempts_per_task or POLLS_ALLOWED for one in envelope.pipelines)
    has_ended = drain((most + 1) * worst + POLLS_ALLOWED)
    grown = app._ask(lambda: read_growth(lineage))
    made = sum(app.stats.counts().values()) - before
    if made > most:
        raise AssertionError(_too_many(payload, grown, made, most, envelope))
    if not has_ended:
        raise AssertionError(_endless(payload, grown))
    return grown


def _too_wide(envelope: Envelope, most: int) -> str:
    return (
        f"{envelope.sentence}, and {most:,} are allowed here: lower max_tasks in the Config of the app, or enqueue its "
        f"roots with limits=Limits(max_tasks={most})\n{envelope}"
    )


def _too_many(payload: Payload, grown: Growth, made: int, most: int, envelope: Envelope) -> str:
    largest = max(grown.branches, key=lambda branch: branch.tasks)
    lines = [f"{payload!r} made more than {most:,} tasks, and was stopped at {made:,}"]
    if made > grown.tasks:
        lines.append(f"{made - grown.tasks:,} of them are outside of its lineage: stages began them with root=True")
    if largest.parent is not None:
        each = largest.tasks / largest.parents
        lines.append(
            f"what multiplied is {largest.kind}: {largest.tasks:,} tasks, {each:.3g} from each {largest.parent}"
        )
    lines += _tree(grown)
    lines.append(f"without this test it could go on: {envelope.sentence}")
    return "\n".join(lines)


def _endless(payload: Payload, grown: Growth) -> str:
    first = (
        f"{payload!r} does not come to an end: its tasks are not too many, but they are put off again and again "
        "(Waiting(after=…) is no attempt, and nothing limits it)"
    )
    return "\n".join([first, *_tree(grown)])


def _tree(grown: Growth) -> list[str]:
    lines = ["how it grew:", *(f"  {_told(branch)}" for branch in grown.branches)]
    if grown.refusals:
        lines.append("what was refused on the way:")
    lines += [f"  {one.kind}, by the rule {one.rule}, {one.times:,} times: {one.reason}" for one in grown.refusals]
    return lines


def _told(branch: Branch) -> str:
    if branch.parent is None:
        return f"{branch.kind}: the root"
    return f"{branch.parent} → {branch.kind}: {branch.tasks:,} tasks from {branch.parents:,}"
