"""What the examples have in common: run an app until nothing is left, then tell what came to be and what did not."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from naive import Multiplied

from onceward import App, Event, Payload, Pipeline, Task


@dataclass(frozen=True)
class Refusal:
    """A spawn that was refused: by whom it was asked for, by which rule it was refused, and why."""

    task: int
    kind: str
    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} task {self.task} asked for a child; refused by the rule “{self.rule}”: {self.reason}"


@dataclass(frozen=True)
class Account:
    """Every task that came to be, oldest first, and every refusal."""

    tasks: list[Task]
    refusals: list[Refusal]
    notes: list[str] = field(default_factory=list)

    @property
    def by_kind(self) -> dict[str, int]:
        """How many tasks of each kind there are."""
        return dict(Counter(task.kind for task in self.tasks))

    @property
    def rules(self) -> list[str]:
        """The rules that have refused something."""
        return [refusal.rule for refusal in self.refusals]

    def of_kind(self, kind: str) -> list[Task]:
        """The tasks of one kind."""
        return [task for task in self.tasks if task.kind == kind]

    def lines(self) -> list[str]:
        """The account for people."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.by_kind.items())
        told = [f"ended by itself; {len(self.tasks)} tasks made ({kinds})"]
        told += [
            f"  {'  ' * task.depth}{task.kind} {task.id}: {task.status.word}, {task.reason}" for task in self.tasks
        ]
        return told + [f"  {line}" for line in (*self.refusals, *self.notes)]


def run(url: str, pipelines: Sequence[Pipeline], *roots: Payload) -> Account:
    """Enqueue, work until nothing is left, and give an account of everything."""
    app = App(url, pipelines=pipelines)
    try:
        app.enqueue_many(roots)
        app.run(until_idle=True)
        tasks = [app.tasks.get(task.id) for task in reversed(app.tasks.list(limit=1_000))]
    finally:
        app.close()
    refusals = [
        Refusal(task.id, task.kind, *(line.note or "").split(": ", 1))
        for task in tasks
        for line in task.history
        if line.event is Event.REFUSED
    ]
    return Account(tasks, refusals)


def show(title: str, naive: Callable[[], Multiplied], onceward: Callable[[str], Account]) -> None:
    """Run an example on both and print what happened. It leaves nothing behind."""
    logging.disable(logging.WARNING)  # a refusal is also a warning in the log; here it is told below
    print(title)
    print(f"\nA naive queue: {naive()}")
    with tempfile.TemporaryDirectory() as folder:
        print("\nOnceward:", "\n".join(onceward(f"sqlite:///{Path(folder) / 'loops.db'}").lines()))
