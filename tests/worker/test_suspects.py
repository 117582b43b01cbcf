"""A worker has died: who ran in it is a suspect, runs with half as many beside it, then alone; the culprit ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceward import Context, Payload, Pipeline, Source, Status
from onceward.model.task import Advance, Finish, Lease, Release, TryAgain, band_of, lane_of
from onceward.store.attempts import claims, workers
from onceward.store.lines import idle, pause_scopes
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.lines.memory import LineMemory
from tests.store.conftest import Hands
from tests.worker.conftest import Start, words

DONE = Finish("last", b"1", Status.SUCCEEDED, None)


class Page(Payload, kind="page"):
    number: int


class Fleet:
    """Workers, one after the other, that take suspects first and to themselves, as the real ones do."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self.groups: list[list[int]] = []

    def memory(self, *, suspects: bool) -> LineMemory:
        lanes = tuple(lane_of("default", kind, suspect=suspects) for kind in sorted(self.hands.kinds))
        return LineMemory(lanes, sweeps=self.hands.session.dialect == "postgres")

    def claim(self, worker: int, count: int = 100) -> list[Lease]:
        found = self.suspects(worker)
        return (
            found
            or self.hands.do(lambda: claims.claim(self.memory(suspects=False), worker, count, self.hands.now)).leases
        )

    def suspects(self, worker: int) -> list[Lease]:
        return self.hands.do(lambda: claims.claim_suspects(self.memory(suspects=True), worker, self.hands.now)).leases

    def work(self, is_deadly: Callable[[Lease], bool], count: int = 100) -> None:
        """Work until nothing is left; a worker dies when something deadly runs in it."""
        while leases := self.claim(worker := self.hands.worker(f"worker {len(self.groups)}"), count):
            tasks = [lease.task for lease in leases]
            self.groups.append(tasks)
            if any(is_deadly(lease) for lease in leases):
                self.hands.bury(worker, frozenset(tasks))
            else:
                self.hands.commit_all([(lease, DONE) for lease in leases])
            assert len(self.groups) < 100, "it ends"

    def statuses(self) -> dict[int, Status]:
        return {task: Status(status) for task, status in self.hands.sql("SELECT id, status FROM onceward_task")}

    def fact(self, task: int, column: str) -> object:
        return self.hands.sql(f"SELECT {column} FROM onceward_task WHERE id = ?", task)[0][0]


@pytest.fixture
def fleet(hands: Hands) -> Fleet:
    return Fleet(hands)


def test_suspects_run_in_halves_then_alone_and_the_culprit_is_quarantined(fleet: Fleet) -> None:
    tasks = fleet.hands.enqueue(16)
    culprit = tasks[5]
    fleet.work(lambda lease: lease.task == culprit)
    statuses = fleet.statuses()
    assert statuses.pop(culprit) is Status.FAILED
    assert set(statuses.values()) == {Status.SUCCEEDED}
    assert fleet.fact(culprit, "reason") == "lost 3 workers"
    sizes = [len(group) for group in fleet.groups if culprit in group]
    assert sizes == [16, 8, 4, 2, 1, 1, 1]
    crashes = fleet.hands.sql("SELECT task, count(*) FROM onceward_attempt WHERE event = 10 GROUP BY task")
    assert dict(crashes)[culprit] == 7


def test_bystanders_never_come_near_the_limit(fleet: Fleet) -> None:
    tasks = fleet.hands.enqueue(40)
    culprits = {tasks[0], tasks[13], tasks[39]}
    fleet.work(lambda lease: lease.task in culprits)
    for task, status in fleet.statuses().items():
        assert status is (Status.FAILED if task in culprits else Status.SUCCEEDED)
        assert fleet.fact(task, "crashes") == (3 if task in culprits else 0)


def test_only_deaths_alone_count(fleet: Fleet) -> None:
    """Kills from outside, as many as one likes, hit groups: nobody is blamed for them."""
    tasks = fleet.hands.enqueue(12)
    for number in range(6):
        worker = fleet.hands.worker(f"unlucky {number}")
        leases = fleet.claim(worker)
        if len(leases) == 1:
            fleet.hands.commit(leases[0], DONE)
            continue
        fleet.hands.bury(worker, frozenset(lease.task for lease in leases))
    assert {fleet.fact(task, "crashes") for task in tasks} == {0}
    fleet.work(lambda lease: False)
    assert set(fleet.statuses().values()) == {Status.SUCCEEDED}


def test_a_stage_that_is_killed_from_outside_while_it_runs_alone_is_not_blamed(fleet: Fleet) -> None:
    [task] = fleet.hands.enqueue()
    for number in range(5):
        worker = fleet.hands.worker(f"unlucky {number}")
        assert [lease.task for lease in fleet.claim(worker)] == [task]
        fleet.hands.bury(worker, frozenset([task]), by_outsider=True)
        assert (fleet.statuses()[task], fleet.fact(task, "crashes")) == (Status.PENDING, 0)
    fleet.work(lambda lease: False)
    assert fleet.statuses()[task] is Status.SUCCEEDED


def test_there_is_an_end_to_kills_from_outside_too(fleet: Fleet) -> None:
    [task] = fleet.hands.enqueue()
    deaths = 0
    while leases := fleet.claim(worker := fleet.hands.worker(f"unlucky {deaths}")):
        fleet.hands.bury(worker, frozenset(lease.task for lease in leases), by_outsider=True)
        deaths += 1
        assert deaths <= workers.OUTSIDE_KILLS_ALLOWED, "it ends"
    assert deaths == workers.OUTSIDE_KILLS_ALLOWED
    assert (fleet.statuses()[task], fleet.fact(task, "reason")) == (Status.FAILED, "lost 10 workers")


def test_a_stage_that_comes_to_its_end_has_survived_its_kills(fleet: Fleet) -> None:
    [task] = fleet.hands.enqueue()
    for round_ in range(3):
        for number in range(workers.OUTSIDE_KILLS_ALLOWED - 1):
            worker = fleet.hands.worker(f"unlucky {round_} {number}")
            fleet.claim(worker)
            fleet.hands.bury(worker, frozenset([task]), by_outsider=True)
        [lease] = fleet.claim(fleet.hands.worker(f"lucky {round_}"))
        fleet.hands.commit(lease, Advance(f"stage {round_}", b"1", f"stage {round_ + 1}", None))
        fleet.hands.commit(lease, Release())
    assert fleet.statuses()[task] is Status.PENDING


def test_what_was_leased_but_had_not_started_is_no_suspect(fleet: Fleet) -> None:
    tasks = fleet.hands.enqueue(4)
    worker = fleet.hands.worker("ant")
    fleet.claim(worker)
    reclaimed = fleet.hands.bury(worker, frozenset(tasks[:1]))
    assert reclaimed is not None
    assert (reclaimed.released, reclaimed.suspects) == (3, 1)
    assert [fleet.fact(task, "crashes") for task in tasks] == [1, 0, 0, 0]
    other = fleet.hands.worker("bee")
    assert [lease.task for lease in fleet.suspects(other)] == tasks[:1]
    assert [lease.task for lease in fleet.claim(other)] == tasks[1:]


def test_where_the_culprit_is_unknown_all_are_suspects(fleet: Fleet) -> None:
    tasks = fleet.hands.enqueue(4)
    worker = fleet.hands.worker("far away")
    fleet.claim(worker)
    reclaimed = fleet.hands.bury(worker, None)
    assert reclaimed is not None
    assert (reclaimed.released, reclaimed.suspects) == (0, 4)
    assert [fleet.fact(task, "crashes") for task in tasks] == [0] * 4


def test_a_stage_that_ignored_its_time_limit_has_failed_and_its_neighbours_have_not(fleet: Fleet) -> None:
    tasks = fleet.hands.enqueue(3)
    worker = fleet.hands.worker("ant")
    fleet.claim(worker)
    reclaimed = fleet.hands.bury(worker, frozenset(tasks), overdue=frozenset(tasks[:1]))
    assert reclaimed is not None
    assert (reclaimed.released, reclaimed.suspects, reclaimed.timed_out) == (2, 0, 1)
    assert [fleet.fact(task, "failures") for task in tasks] == [1, 0, 0]
    assert [fleet.fact(task, "crashes") for task in tasks] == [0, 0, 0]
    assert fleet.statuses()[tasks[0]] is Status.RETRYABLE


@pytest.mark.parametrize(
    ("move", "crashes"), [(Advance("first", b"1", "last"), 0), (TryAgain("first", 0, "an error"), 1)]
)
def test_a_suspect_that_lives_to_say_something_is_none_any_more(fleet: Fleet, move: object, crashes: int) -> None:
    [task] = fleet.hands.enqueue()
    worker = fleet.hands.worker("ant")
    fleet.claim(worker)
    fleet.hands.bury(worker, frozenset({task}))
    worker = fleet.hands.worker("bee")
    [lease] = fleet.suspects(worker)
    assert (lease.crashes, lease.company) == (1, 1)
    assert fleet.hands.commit(lease, move) is True  # type: ignore[arg-type]
    assert (fleet.fact(task, "crashes"), fleet.fact(task, "company")) == (crashes, 0)
    if isinstance(move, Advance):
        fleet.hands.commit(lease, DONE)
    else:
        assert fleet.suspects(worker) == []
        [again] = fleet.claim(worker)
        fleet.hands.commit(again, DONE)


def test_a_suspect_that_is_given_back_stays_one(fleet: Fleet) -> None:
    tasks = fleet.hands.enqueue(4)
    worker = fleet.hands.worker("ant")
    fleet.claim(worker)
    fleet.hands.bury(worker, frozenset(tasks))
    worker = fleet.hands.worker("bee")
    pair = fleet.suspects(worker)
    assert len(pair) == 2
    fleet.hands.commit_all([(lease, Release()) for lease in pair])
    assert {lease.company for lease in fleet.suspects(worker)} == {2}


def test_an_old_place_in_line_takes_no_suspect_into_company(fleet: Fleet) -> None:
    hands = fleet.hands
    [task] = hands.enqueue()
    again = Placement(task, lane_of("default", "note"), band_of(0), 0, hands.now)
    hands.do(lambda: put_in_line([again], hands.now))  # as when it is paused and resumed
    ant, bee = hands.worker("ant"), hands.worker("bee")
    fleet.claim(ant, 1)
    hands.bury(ant, frozenset({task}))
    ordinary = fleet.memory(suspects=False)
    assert hands.do(lambda: claims.claim(ordinary, bee, 10, hands.now)).leases == []
    assert [lease.task for lease in fleet.suspects(bee)] == [task]


def test_a_suspect_that_had_not_started_when_its_worker_died_stays_one(fleet: Fleet) -> None:
    tasks = fleet.hands.enqueue(4)
    worker = fleet.hands.worker("ant")
    fleet.claim(worker)
    fleet.hands.bury(worker, frozenset(tasks))
    worker = fleet.hands.worker("bee")
    pair = [lease.task for lease in fleet.suspects(worker)]
    fleet.hands.bury(worker, frozenset())
    assert [fleet.fact(task, "company") for task in pair] == [2, 2]
    assert fleet.claim(fleet.hands.worker("cat"), 1)[0].company == 2


def test_a_worker_that_has_seen_suspects_sees_those_who_stand_nearer_to_the_front(fleet: Fleet) -> None:
    """Suspects of a smaller group stand before those of a larger one: a reader must not start after the last it saw."""
    eight = fleet.hands.enqueue(8)
    worker = fleet.hands.worker("ant")
    fleet.claim(worker)
    fleet.hands.bury(worker, frozenset(eight))
    bee = fleet.hands.worker("bee")
    memory = fleet.memory(suspects=True)

    def suspects() -> list[Lease]:
        return fleet.hands.do(lambda: claims.claim_suspects(memory, bee, fleet.hands.now)).leases

    for _ in range(2):
        leases = suspects()
        assert len(leases) == 4
        fleet.hands.commit_all([(lease, DONE) for lease in leases])
    assert suspects() == []
    [single] = fleet.hands.enqueue()
    cat = fleet.hands.worker("cat")
    fleet.claim(cat)
    fleet.hands.bury(cat, frozenset({single}))
    [lease] = suspects()
    assert lease.task == single
    fleet.hands.commit(lease, DONE)


def test_finishing_a_stage_clears_what_a_task_is_blamed_for(fleet: Fleet) -> None:
    [task] = fleet.hands.enqueue()
    for deaths in (1, 2):
        worker = fleet.hands.worker(f"unlucky {deaths}")
        fleet.claim(worker)
        fleet.hands.bury(worker, frozenset({task}))
        assert fleet.fact(task, "crashes") == deaths
    worker = fleet.hands.worker("lucky")
    [lease] = fleet.claim(worker)
    fleet.hands.commit(lease, Advance("first", b"1", "last"))
    fleet.hands.bury(worker, frozenset({task}))
    assert (fleet.fact(task, "crashes"), fleet.statuses()[task]) == (1, Status.PENDING)


def test_an_operator_lets_a_quarantined_task_run_again(start: Start) -> None:
    class Poison(Payload, kind="poison"):
        n: int = 1

    poison: Pipeline[Poison] = Pipeline(Poison)

    @poison.stage
    def swallow(ctx: Context[Poison]) -> int:
        return ctx.task.run

    harness = start(poison)
    task = harness.enqueue(Poison())
    harness.crash("before swallow", times=3)
    harness.drain()
    done = harness.task(task)
    assert harness.crashes == 3
    assert (done.status, done.reason) == (Status.FAILED, "lost 3 workers")
    assert words(harness, task) == ["crashed"] * 3
    harness.app.tasks.retry(task.id)
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


def test_deaths_in_company_quarantine_no_task(start: Start) -> None:
    class Crowd(Payload, kind="crowd"):
        n: int

    crowd: Pipeline[Crowd] = Pipeline(Crowd)

    @crowd.stage
    def stand(ctx: Context[Crowd]) -> int:
        return ctx.payload.n

    harness = start(crowd)
    tasks = [harness.enqueue(Crowd(n)) for n in range(8)]
    harness.crash("after claim", times=3)
    harness.drain()
    assert harness.crashes == 3
    assert [harness.task(task).status for task in tasks] == [Status.SUCCEEDED] * 8


@pytest.mark.parametrize("point", ["before fetch", "after fetch"])
def test_a_drain_ends_the_suspects_behind_a_gate_too(start: Start, point: str) -> None:
    page: Pipeline[Page] = Pipeline(Page)

    @page.stage(source=Source("web", rate="1/s", burst=2))
    def fetch(ctx: Context[Page]) -> int:
        return ctx.payload.number

    harness = start(page)
    tasks = [harness.enqueue(Page(number)) for number in range(2)]
    harness.crash(point)

    assert harness.drain()

    assert [harness.task(task).status for task in tasks] == [Status.SUCCEEDED] * 2


def test_a_child_for_suspects_stays_while_one_of_its_own_waits_at_a_gate(fleet: Fleet) -> None:
    """Behind a closed gate it stands among what is due within a minute. Otherwise a child would begin and end for it
    once a second."""
    hands = fleet.hands
    mine, other = (lane_of("default", kind, suspect=True) for kind in ("mine", "other"))

    def is_coming() -> bool:
        return hands.do(lambda: idle.suspects_soon([mine], hands.now))

    def put(lane: str, due_in_ms: int) -> None:
        [task] = hands.enqueue()
        hands.do(lambda: put_in_line([Placement(task, lane, 2, 1, hands.now + due_in_ms)], hands.now))

    put(other, 0)
    assert not is_coming(), "this one is for another app"
    put(mine, 3_600_000)
    assert not is_coming(), "it will be started again in an hour"
    put(mine, 30_000)
    assert is_coming()
    hands.do(lambda: pause_scopes.pause("pipeline:mine", "ant", hands.now))
    assert not is_coming(), "nothing begins before an operator resumes it"
