"""The program that asks for work: it enqueues and opens batches. It also does what operators do: it sends signals,
cancels, retries, pauses, resumes, prunes, and raises limits and budgets."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from onceward import App
from onceward.errors import IllegalTransition, OutcomeUnknown, StoreUnavailable, TaskNotFound
from onceward.model.lineage import Limits
from tests.simulation import work
from tests.simulation.machine import Machine

if TYPE_CHECKING:
    from tests.simulation.world import World

MOST_REQUESTS = 9


class Program(Machine):
    """A process that only enqueues. When it dies it begins again, and does not know what it had done."""

    def __init__(self, world: World, name: str, app: Callable[[Machine], App]) -> None:
        super().__init__(world, name)
        self._make = app
        self.app = app(self)
        self._at = world.ms
        self._left = world.chance.randint(1, MOST_REQUESTS)
        self._batches = 0
        self.limits_usd = {work.usd.name: work.LIMIT_USD, work.allowance.name: work.ALLOWANCE_USD}
        """The limits of the budgets, as they were raised last."""
        self._restores = 0
        """How many restores there had been when it began to ask."""
        self._is_settling = False
        self.paused_since: dict[str, int] = {}
        """What is surely paused, and since when."""

    @property
    def is_done(self) -> bool:
        """Whether it has asked for everything."""
        return not self._left

    def die(self) -> None:
        """It is started again at once."""
        for session in self.sessions:
            session.discard()
        self.sessions.clear()
        self.app = self._make(self)
        self._at = self.world.ms + self.world.chance.randrange(1, 5_000)

    def settle_down(self) -> None:
        """Give everybody what he waits for, from here on."""
        self._is_settling = True
        self._at = self.world.ms

    def steps(self) -> list[Callable[[], None]]:
        if self._at > self.world.ms or self.is_busy("program") or not (self._left or self._is_settling):
            return []
        return [self._act]

    def next_at(self) -> int | None:
        return None if self.is_busy("program") or not (self._left or self._is_settling) else self._at

    def _act(self) -> None:
        world = self.world
        with self.running("program"):
            if self._is_settling:
                self._at = world.ms + 60_000
                self._help()
            else:
                self._at = world.ms + world.chance.choice((0, 10, 500, 5_000, 20_000))
                self._left -= 1
                self._restores = world.faults["restore"]
                try:
                    self._ask()
                except (StoreUnavailable, OutcomeUnknown, IllegalTransition, TaskNotFound) as error:
                    if isinstance(error, TaskNotFound) and not world.is_restored:
                        raise
                    world.tell(f"is told {type(error).__name__}")

    def _ask(self) -> None:
        chance = self.world.chance
        if chance.random() < 0.25:
            chance.choice((self._prune, self._see_to_task, self._see_to_task, self._see_to_lineage, self._hold))()
            return
        kinds = [kind for kind in self.app._registry.kinds if kind not in ("closing", "tick")]
        number = chance.randrange(20)
        match chance.choice(kinds):
            case "errand":
                if chance.random() < 0.3 and "closing" in self.app._registry.kinds:
                    self._open_batch()
                else:
                    count = chance.choice((1, 1, 4)) + (8 if self.world.plan.cancels else 0)
                    self._accepted(self.app.enqueue_many([work.Errand(number + more) for more in range(count)]))
            case "family":
                limits = chance.choice((None, None, Limits(max_tasks=4), Limits(deadline="40s")))
                self._enqueue(work.Family(number, chance.randint(0, 3), chance.randint(0, 2)), limits=limits)
            case "purchase":
                many = [work.Purchase(number + more) for more in range(chance.randint(1, 4))]
                self._accepted(self.app.enqueue_many(many))
            case "question":
                self._accepted(self.app.enqueue_many([work.Question(number), work.Question(number + 2)]))
            case "treat":
                self._accepted(self.app.enqueue_many([work.Treat(number), work.Treat(number + 1)]))
            case "brief":
                self._enqueue(work.Brief(number % 8))
            case "patience":
                self._enqueue(work.Patience(number))
            case "gathering":
                self._enqueue(work.Gathering(number))
            case "shared":
                self._enqueue(work.Shared(number % 4))

    def _enqueue(self, payload: Any, **options: Any) -> None:
        self._accepted([self.app.enqueue(payload, **options)])

    def _accepted(self, answers: Any) -> None:
        ids = {one.id for one in answers if one}
        self.world.tell(f"has enqueued {sorted(ids)}")
        self._told_of(ids)
        if self.world.plan.cancels:
            for task in sorted(ids)[:-1]:
                with suppress(IllegalTransition):  # it has ended meanwhile
                    self.app.tasks.cancel(task)
                    self.world.counts["tasks cancelled in line"] += 1

    def _open_batch(self) -> None:
        self._batches += 1
        name = f"batch {self.world.seed}-{self._batches}"
        deadline = self.world.chance.choice((None, None, "40s"))
        with self.app.batch(name, then=work.Closing(name), deadline=deadline) as batch:
            for number in range(self.world.chance.randint(1, 3)):
                batch.add(work.Errand(number))
        self.world.tell(f"has opened {name}: {batch.tasks}")
        self._told_of(set(batch.tasks))

    def _told_of(self, ids: set[int]) -> None:
        """Believe that tasks are durable. A restore while the reply was on its way may have lost them: of these the
        program believes in those that are there."""
        self.world.counts["tasks accepted"] += len(ids)
        if self.world.faults["restore"] > self._restores:
            there = {row[0] for row in self.world.database.ask("SELECT id FROM onceward_task")}
            self.world.counts["accepted tasks lost by a restore"] += len(ids - there)
            ids = ids & there
        self.world.ledger.truth.accepted |= ids

    def _see_to_task(self) -> None:
        chance = self.world.chance
        rows = self.world.database.ask("SELECT id, status FROM onceward_task ORDER BY id")
        if not rows:
            return
        task, status = chance.choice(rows)
        if status < 4 and chance.random() < 0.5:
            self.app.tasks.signal(task, "go")
            self.world.tell(f"has signalled {task}")
        elif status < 4:
            self.app.tasks.cancel(task)
            self.world.tell(f"has cancelled {task}")
        elif status > 4:
            fresh = chance.random() < 0.3
            self.app.tasks.retry(task, fresh=fresh)
            self.world.tell(f"has opened {task} again{', fresh' if fresh else ''}")

    def _see_to_lineage(self) -> None:
        """Do something to a task and all that descend from it."""
        chance = self.world.chance
        rows = self.world.database.ask("SELECT id, lineage FROM onceward_task ORDER BY id")
        if not rows:
            return
        task, lineage = chance.choice(rows)
        match chance.choice(("pause", "pause", "resume", "cancel", "retry", "raise")):
            case "pause":
                self.app.lineages.pause(task)
            case "resume":
                self.app.lineages.resume(task)
            case "cancel":
                self.app.lineages.cancel(task)
            case "retry":
                self.app.lineages.retry(task)
            case "raise":
                self.app.lineages.raise_limits(uuid.UUID(bytes=lineage), Limits(max_tasks=60, deadline="49h"))
        self.world.counts["lineages seen to"] += 1
        self.world.tell(f"has seen to the lineage of {task}")

    def _hold(self) -> None:
        """Pause something, or let what is paused go on."""
        chance = self.world.chance
        if (paused := self.app.workers.pauses()) and chance.random() < 0.5:
            self._let_go_on(chance.choice(paused).scope)
            return
        scopes = [{}, *({"pipeline": kind} for kind in self.app._registry.kinds)]
        scopes += [{"source": source} for source in sorted(self.app._registry.sources)]
        scope = self.app.workers.pause(**chance.choice(scopes))
        self.paused_since[scope] = self.world.ms
        self.world.counts["pauses"] += 1
        self.world.tell(f"has paused {scope}")

    def _let_go_on(self, scope: str) -> None:
        self.paused_since.pop(scope, None)
        what, _, name = scope.partition(":")
        self.app.workers.resume(**{what: name} if name else {})
        self.world.tell(f"has resumed {scope}")

    def _prune(self) -> None:
        gone = self.app.tasks.prune(self.world.chance.choice(("0s", "10s", "1m"))).tasks
        self.world.tell(f"has pruned {gone} tasks")

    def _help(self) -> None:
        self._left = 0
        if self.world.chance.random() < 0.3:
            self._prune()
        for task, waiting_for in self.world.database.ask(
            "SELECT id, waiting_for FROM onceward_task WHERE status = 3 AND waiting_for LIKE 'signal:%'"
        ):
            self.app.tasks.signal(task, waiting_for.removeprefix("signal:"))
        for pause in self.app.workers.pauses():
            self._let_go_on(pause.scope)
        while paused := self.world.database.ask(
            "SELECT min(id) FROM onceward_task WHERE paused = 1 HAVING count(*) > 0"
        ):
            self.app.lineages.resume(paused[0][0])
        waited_for = "SELECT DISTINCT waiting_for FROM onceward_task WHERE waiting_for LIKE 'budget:%'"
        for name in sorted({text.split(":")[1] for (text,) in self.world.database.ask(waited_for)}):
            self.limits_usd[name] += 2
            self.app.budgets.set_limit(name, self.limits_usd[name])
