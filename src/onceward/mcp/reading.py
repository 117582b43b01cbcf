"""The tools that only look: each asks the app one thing and returns a short text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from onceward.errors import ConfigError
from onceward.mcp.causes import call, facts_of, held_back
from onceward.mcp.payloads import filter_for, key_text, key_text_of, payload_text, result_lines
from onceward.mcp.texts import MOST_LISTED, ago, command, counted, listed, stored
from onceward.model.status import Status
from onceward.model.times import moment

if TYPE_CHECKING:
    from onceward.app import App
    from onceward.views.lineage import Branch
    from onceward.views.task import Task
    from onceward.views.why import Why

MOST_EVENTS = 20
"""How many of the newest events of a task are shown."""
MOST_BRANCHES = 40

TaskNumber = Annotated[int, Field(description="The number of a task.", ge=1)]
Limit = Annotated[int, Field(description="How many rows at most.", ge=1, le=MOST_LISTED)]
Filter = Annotated[
    str,
    Field(
        description=(
            'Conditions that all hold, such as: status:failed kind:page error:"timeout" cost>0.1 lineage:ID '
            "payload.url~example.com. A hyphen in front negates; status:failed,cancelled is either. Empty: all tasks."
        )
    ),
]


class Reading:
    """The tools that only look."""

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def _now(self) -> datetime:
        return moment(self._app._store.clock.now())

    def status(self) -> str:
        """Say how everything stands and, if work does not run, why not. Call this first: it names every cause that
        holds work back, the command that takes it away, and the next tool to call."""
        facts = facts_of(self._app)
        counts = ", ".join(f"{count:,} {status.word}" for status, count in facts.counts.items() if count)
        lines = [f"Tasks: {counts or 'none'}."]
        ready = facts.backlog.ready_tasks
        oldest = facts.backlog.oldest_ready_ms(round(facts.now.timestamp() * 1_000))
        waiting = "" if oldest is None else f", the oldest since {ago(moment(_ms(facts.now) - oldest), facts.now)}"
        lines.append(f"In line: {ready:,} could run now{waiting}; {facts.backlog.later_tasks:,} have a later time.")
        lines.append(f"Workers: {len(facts.alive)} alive, holding {sum(one.holds for one in facts.alive):,} tasks.")
        hour = self._app.stats.hour()
        lines.append(
            f"Claimed in the last minute: {hour.claims:,}. In the last hour{'' if hour.is_whole else ' at least'}: "
            f"{hour.ended:,} ended, {hour.failed:,} failed."
        )
        if alerts := self._app.alerts.list(limit=MOST_LISTED):
            lines.append(
                f"Open alerts: {len(alerts)}{'+' if len(alerts) == MOST_LISTED else ''}. Next: {call('alerts')}"
            )
        if facts.counts[Status.FAILED]:
            lines.append(f"Failed: {facts.counts[Status.FAILED]:,}. Next: {call('errors')}")
        causes = held_back(facts)
        if not causes:
            return "\n".join([*lines, "Nothing holds work back."])
        lines.append("What holds work back, the worst first:")
        for number, one in enumerate(causes[:MOST_LISTED], 1):
            lines.append(f"{number}. {one.sentence}")
            lines += [f"   unblock: {command(one.command)}"] if one.command else []
            lines += [f"   next: {one.look}"] if one.look else []
        return "\n".join(lines)

    def why(self, task: TaskNumber) -> str:
        """Say why a task is not running, until when, which command unblocks it, and why those are not that it waits
        for."""
        found = self._app.why(task)
        lines = [f"Task {found.task}, {found.status.word}: {stored(found.sentence)}", f"cause: {found.cause.value}"]
        lines += [f"until: {ago(found.until, self._now)}"] if found.until else []
        lines += [f"ahead of it in its line: {found.ahead:,}"] if found.ahead else []
        lines += [f"unblock: {command(found.command)}"] if found.command else []
        lines += [f"earlier: {stored(one)}" for one in found.before[-5:]]
        return "\n".join([*lines, *listed(_below(found))])

    def task(self, task: TaskNumber) -> str:
        """Show a task: where it stands, its payload, what its stages returned, its newest events and its last error."""
        found, now = self._app.tasks.get(task), self._now
        lines = [
            f"Task {found.id}, kind {stored(found.kind, 80)}, key {key_text(found, 300)}",
            f"status: {found.status.word}, stage {stored(found.stage or '–', 80)}, run {found.run}, "
            f"{found.failures} failures, {found.crashes} crashes",
            f"lineage: {found.lineage}, parent {found.parent or '–'}, depth {found.depth}",
            f"created {ago(found.created_at, now)}; started {ago(found.started_at, now)}; ended "
            f"{ago(found.ended_at, now) if found.ended_at else 'not yet'}",
            f"cost: {found.cost:f} USD",
            f"payload: {payload_text(found)}",
        ]
        lines += [f"reason: {stored(found.reason)}"] if found.reason else []
        lines += ["results:", *result_lines(found)] if found.results else []
        newest = found.history[-MOST_EVENTS:]
        left = len(found.history) - len(newest)
        lines.append(f"newest events{f' ({left} earlier ones left out)' if left else ''}:")
        for one in newest:
            note = f" {stored(one.note)}" if one.note else ""
            stage = f" {stored(one.stage, 80)}" if one.stage else ""
            lines.append(f"  {one.at:%m-%d %H:%M:%S} {one.event.word}{stage}{note}")
        trace = next((one.trace for one in reversed(found.history) if one.trace), None)
        lines += [f"last traceback: {stored(' ⏎ '.join(trace.splitlines()), 2_000)}"] if trace else []
        if not found.status.is_terminal:
            lines.append(f"Next: {call('why', task=found.id)}")
        return "\n".join(lines)

    def tasks(
        self,
        filter: Filter = "",
        cursor: Annotated[str | None, Field(description="What an answer named to go on with older tasks.")] = None,
        limit: Limit = 20,
    ) -> str:
        """List the newest tasks that fit a filter, a line for each."""
        page = self._app.tasks.search(filter_for(self._app, filter), cursor, limit)
        lines = [_task_line(one, self._now) for one in page.tasks]
        if not lines:
            lines.append("No task fits." if page.next is None else "No task fits so far.")
        if page.next is not None:
            back = "" if page.searched_back_to is None else f", older than {ago(page.searched_back_to, self._now)}"
            total = self._app.tasks.count(filter_for(self._app, filter))
            lines.append(f"… of {total} in all. To go on{back}: {call('tasks', filter=filter, cursor=page.next)}")
        return "\n".join(lines)

    def errors(self, filter: Filter = "", limit: Limit = 20) -> str:
        """Group failed tasks by what their errors have in common: how many, since when, what they have cost, and how
        to list them. With a filter that names a status, tasks of that status."""
        groups, now = self._app.tasks.groups(filter_for(self._app, filter)), self._now
        lines = []
        for one in groups[:limit]:
            kinds = ", ".join(stored(kind, 60) for kind in one.kinds[:5])
            lines.append(
                f"{'' if one.is_whole else 'at least '}{counted(one.tasks, 'task')} of kind {kinds}, first "
                f"{ago(one.first_seen, now)}, last {ago(one.last_seen, now)}, cost {one.cost:f} USD: "
                f"{stored(one.message)}"
            )
            lines.append(f"   next: {call('task', task=one.example)} or {call('tasks', filter=one.filter)}")
        return "\n".join([*lines, *_more(len(groups) - limit, "group")]) or "No task has failed."

    def lineage(
        self, id: Annotated[str, Field(description="The id of a lineage, or the number of any task in it.")]
    ) -> str:
        """Show a lineage as a tree: statuses, costs, limits, and which spawns were refused by which rule."""
        found, now = self._app.lineages.get(id, limit=MOST_BRANCHES), self._now
        secret = self._app.tasks.secret_fields()
        counts = ", ".join(f"{count:,} {status.word}" for status, count in found.counts.items() if count)
        lines = [
            f"Lineage {found.id}: {counts}; cost {found.cost:f} USD"
            + (f"; {found.paused:,} tasks are paused" if found.paused else ""),
            f"limits: {found.tasks_counted:,} of {found.max_tasks:,} tasks, "
            f"depth {found.deepest} of {found.max_depth}, "
            f"{found.max_children:,} children a task, may spawn until {ago(found.deadline_at, now)}",
            f"refused spawns: {found.refusals:,}",
        ]
        for root in found.roots:
            lines += [line for branch in root.walk() for line in _branch_lines(branch, secret)]
        return "\n".join([*lines[: MOST_BRANCHES * 3], *_more(found.left_out, "task")])

    def budgets(
        self, name: Annotated[str | None, Field(description="A budget; all of them without it.")] = None
    ) -> str:
        """Show budgets: limit, spent, set aside, left, when they begin anew, and how many tasks wait for them."""
        found, now = self._app.budgets.list(name), self._now
        lines = []
        for one in found[:MOST_LISTED]:
            whose = f" of {stored(one.scope, 80)}" if one.scope else ""
            anew = "" if one.resets_at is None else f", begins anew {ago(one.resets_at, now)}"
            shut = ", closed because a charge was above its estimate" if one.is_closed else ""
            lines.append(
                f"{stored(one.name, 80)}{whose}: {one.left} of {one.limit} {stored(one.unit, 20)} left; {one.spent} "
                f"spent, {one.reserved} set aside{shut}{anew}; tasks that wait: {one.waiting:,}"
            )
        if any(one.waiting or one.is_closed for one in found):
            lines.append("unblock: onceward budgets NAME --limit AMOUNT; a waiting task's `why` says how much it needs")
        return "\n".join([*lines, *_more(len(found) - MOST_LISTED, "budget")]) or "There is no budget."

    def sources(
        self, name: Annotated[str | None, Field(description="A source or one instance of it; all without it.")] = None
    ) -> str:
        """Show outside services: whether they let work pass, why not, their failures, rates, and who waits."""
        found, now = self._app.sources.list() if name is None else self._app.sources.get(name), self._now
        worst_first = sorted(found, key=lambda one: (one.is_healthy, -one.waiting, one.name))
        lines = []
        for one in worst_first[:MOST_LISTED]:
            until = f" until {ago(one.paused_until, now)}" if one.paused_until else ""
            why = f", because {stored(one.why)}" if one.why else ""
            error = f"; last error {ago(one.last_failure_at, now)}: {stored(one.last_error)}" if one.last_error else ""
            places = "" if one.concurrency is None else f", {one.inside} of {one.concurrency} places taken"
            tokens = "" if one.tokens is None else f", {one.tokens} of {one.burst} tokens"
            lines.append(
                f"{stored(one.name, 80)}: {one.state.value}{until}{why}; {one.streak} failures in a row, "
                f"{one.failures:,} of {one.calls:,} calls failed{places}{tokens}; "
                f"tasks in line: {one.waiting:,}{error}"
            )
            if not one.enabled or one.paused_until:
                lines.append(f"   unblock: {command(f'onceward source {quote(one.name)} --enable')}")
        return "\n".join([*lines, *_more(len(found) - MOST_LISTED, "source")]) or "No source was used yet."

    def alerts(
        self, open_only: Annotated[bool, Field(description="False lists those that are over, too.")] = True
    ) -> str:
        """List alerts: what the rules of the engine and the watches of the app have found, and what they advise."""
        found, now = self._app.alerts.list(open_only=open_only, limit=MOST_LISTED + 1), self._now
        lines = [
            f"{stored(one.rule, 80)}, {'open' if one.is_open else 'over'}, since {ago(one.raised_at, now)}: "
            f"{stored(one.sentence)} Advice: {stored(one.advice)}"
            + (f" Tasks: {', '.join(map(str, one.tasks[:10]))}" if one.tasks else "")
            for one in found[:MOST_LISTED]
        ]
        return "\n".join([*lines, *_more(len(found) - MOST_LISTED, "alert", at_least=True)]) or "No alert is open."

    def verify(self) -> str:
        """Check every promise of the engine on the database as it is now. It reads every task: minutes on a large
        database."""
        report = self._app.verify()
        if report.ok:
            return f"All {len(report.checks)} rules hold for {report.tasks:,} tasks and {report.events:,} events."
        broken = [check for check in report.checks if check.broken]
        lines = [f"{len(broken)} of {len(report.checks)} rules are broken:"]
        for check in broken:
            lines.append(f"{check.name}, {check.broken:,} times: {check.meaning}")
            lines += [f"  {stored(one.sentence)}" for one in check.breaches[:5]]
        return "\n".join(lines)

    def envelope(self) -> str:
        """Say what one root task and one hour can come to at worst, by the configuration: tasks, attempts, calls and
        money."""
        if not self._app._registry.kinds:
            raise ConfigError(
                "the worst case follows from the code, which this server does not know: start it with --app"
            )
        found = self._app.envelope(measured=True)
        lines = [*str(found).splitlines(), *("  ".join(row) for row in found.hourly.rows), *found.hourly.sentences]
        return "\n".join(stored(line, 400) for line in lines)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)


def _more(count: int, noun: str, *, at_least: bool = False) -> list[str]:
    if count <= 0:
        return []
    return [f"… and more {noun}s" if at_least else f"… and {counted(count, noun)} more"]


def _below(found: Why) -> Iterable[str]:
    for one in found.below:
        unblock = f"; unblock: {command(one.command)}" if one.command else ""
        yield f"it waits for task {one.task}: {stored(one.sentence)}{unblock}"
        yield from _below(one)


def _task_line(one: Task, now: datetime) -> str:
    when = f"ended {ago(one.ended_at, now)}" if one.ended_at else f"created {ago(one.created_at, now)}"
    reason = f": {stored(one.reason, 160)}" if one.reason and one.status is not Status.SUCCEEDED else ""
    stage = f" at {stored(one.stage, 60)}" if one.stage else ""
    return f"{one.id} {one.status.word} {stored(one.kind, 60)} {key_text(one)}{stage}, {when}{reason}"


def _branch_lines(branch: Branch, secret: Mapping[str, frozenset[str]]) -> Sequence[str]:
    indent = "  " * min(branch.depth + 1, 12)
    reason = f": {stored(branch.reason, 120)}" if branch.reason and branch.status is not Status.SUCCEEDED else ""
    cost = f", {branch.cost:f} USD" if branch.cost else ""
    paused = ", paused" if branch.is_paused else ""
    what = f"{stored(branch.kind, 60)} {key_text_of(branch.kind, branch.key, secret)}"
    lines = [f"{indent}{branch.id} {branch.status.word} {what}{cost}{paused}{reason}"]
    lines += [
        f"{indent}  refused by rule {one.rule.name.lower()}: {stored(one.kind, 60)}: {stored(one.reason, 160)}"
        for one in branch.refusals[:3]
    ]
    left = len(branch.refusals) - 3 + branch.refusals_only_counted
    return [*lines, f"{indent}  … and {left:,} more refusals"] if left > 0 else lines
