"""The program that asks for work: it enqueues, opens batches, sends signals, cancels, prunes, and raises the budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onceward import App
from onceward.errors import IllegalTransition, OutcomeUnknown, StoreUnavailable, TaskNotFound
from onceward.model.lineage import Limits
from tests.simulation import work
from tests.simulation.machine import Machine

if TYPE_CHECKING:
    from tests.simulation.world import World

MOST_REQUESTS = 7


class Program(Machine):
    """A process that only enqueues. When it dies it begins again, and does not know what it had done."""

    def __init__(self, world: World, name: str, app: Callable[[Machine], App]) -> None:
        super().__init__(world, name)
        self._make = app
        self.app = app(self)
        self._at = world.ms
        self._left = world.chance.randint(1, MOST_REQUESTS)
        self._batches = 0
        self.limit_usd = work.LIMIT_USD
        self._is_settling = False

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
                try:
                    self._ask()
                except (StoreUnavailable, OutcomeUnknown, IllegalTransition, TaskNotFound) as error:
                    if isinstance(error, TaskNotFound) and not world.is_restored:
                        raise
                    world.tell(f"is told {type(error).__name__}")

    def _ask(self) -> None:
        chance = self.world.chance
        if chance.random() < 0.15:
            self._operate()
            return
        kinds = [kind for kind in self.app.registry.kinds if kind not in ("closing", "tick")]
        number = chance.randrange(20)
        match chance.choice(kinds):
            case "errand":
                if chance.random() < 0.3 and "closing" in self.app.registry.kinds:
                    self._open_batch()
                else:
                    count = chance.choice((1, 1, 4))
                    self._accepted(self.app.enqueue_many([work.Errand(number + more) for more in range(count)]))
            case "family":
                limits = Limits(max_tasks=4) if chance.random() < 0.3 else None
                self._enqueue(work.Family(number, chance.randint(0, 3), chance.randint(0, 2)), limits=limits)
            case "purchase":
                many = [work.Purchase(number + more) for more in range(chance.randint(1, 4))]
                self._accepted(self.app.enqueue_many(many))
            case "question":
                self._accepted(self.app.enqueue_many([work.Question(number), work.Question(number + 2)]))
            case "patience":
                self._enqueue(work.Patience(number))
            case "gathering":
                self._enqueue(work.Gathering(number))
            case "shared":
                self._enqueue(work.Shared(number % 2))

    def _enqueue(self, payload: Any, **options: Any) -> None:
        self._accepted([self.app.enqueue(payload, **options)])

    def _accepted(self, answers: Any) -> None:
        ids = {one.id for one in answers if one}
        self.world.tell(f"has enqueued {sorted(ids)}")
        self.world.counts["tasks accepted"] += len(ids)
        self.world.ledger.truth.accepted |= ids

    def _open_batch(self) -> None:
        self._batches += 1
        name = f"batch {self.world.seed}-{self._batches}"
        with self.app.batch(name, then=work.Closing(name)) as batch:
            for number in range(self.world.chance.randint(1, 3)):
                batch.add(work.Errand(number))
        self.world.tell(f"has opened {name}: {batch.tasks}")
        self.world.counts["tasks accepted"] += len(batch.tasks)
        self.world.ledger.truth.accepted |= set(batch.tasks)

    def _operate(self) -> None:
        chance = self.world.chance
        if chance.random() < 0.3:
            self._prune()
            return
        rows = self.world.database.ask("SELECT id, status FROM onceward_task ORDER BY id")
        if not rows:
            return
        task, status = chance.choice(rows)
        if status < 4 and chance.random() < 0.5:
            self.app.signal(task, "go")
            self.world.tell(f"has signalled {task}")
        elif status < 4:
            self.app.cancel(task)
            self.world.tell(f"has cancelled {task}")
        elif status > 4:
            self.app.retry(task)
            self.world.tell(f"has opened {task} again")

    def _prune(self) -> None:
        gone = self.app.prune(self.world.chance.choice(("0s", "10s", "1m"))).tasks
        self.world.tell(f"has pruned {gone} tasks")

    def _help(self) -> None:
        self._left = 0
        if self.world.chance.random() < 0.3:
            self._prune()
        for task, waiting_for in self.world.database.ask(
            "SELECT id, waiting_for FROM onceward_task WHERE status = 3 AND waiting_for LIKE 'signal:%'"
        ):
            self.app.signal(task, waiting_for.removeprefix("signal:"))
        if self.world.database.ask("SELECT 1 FROM onceward_task WHERE waiting_for LIKE 'budget:%'"):
            self.limit_usd += 2
            self.app.raise_budget("usd", self.limit_usd)
