"""Fair share: one huge lineage or batch stands in line like everybody else."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field

import pytest

from onceward.model.lineage import Bounds
from onceward.model.payload import identity
from onceward.model.source import GateLimits
from onceward.model.status import Status
from onceward.model.task import Commit, Finish, NewTask, band_of, lane_of
from onceward.store.attempts import claims, commits
from onceward.store.lineage import batches
from onceward.store.lines.memory import LimitsOf, LineMemory
from tests.store.children import child, together
from tests.store.conftest import Hands

ROOMY = Bounds(10, 1_000_000, 86_400_000, 1_000_000)
ENDED = Finish("only", None, Status.SUCCEEDED, None)
AT_ONCE = 20
pytestmark = pytest.mark.untroubled("it keeps what one try remembers of its lines for the next; a worker forgets that")


@dataclass
class Crew:
    """One worker with a memory of its lines, who ends whatever it is given and notes whose it was."""

    hands: Hands
    worker: int = field(init=False)
    roots: LineMemory = field(init=False)
    leaves: LineMemory = field(init=False)
    ran: list[str] = field(default_factory=list)
    names: dict[bytes, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.worker = self.hands.worker()
        self.roots, self.leaves = self._reader("note"), self._reader("leaf")

    def _reader(self, *kinds: str, limits_of: LimitsOf | None = None) -> LineMemory:
        lanes = tuple(lane_of("default", kind) for kind in kinds)
        return LineMemory(lanes, limits_of, sweeps=self.hands.session.dialect == "postgres")

    def sees(self, *kinds: str) -> None:
        """Leaves are of these kinds from now on, and there may be gates before them, which are open."""
        self.leaves = self._reader(*kinds, limits_of=lambda _: GateLimits())

    def root(self, name: str, children: int, kind: str = "leaf", gates: str | None = None) -> None:
        """A root that has spawned so many, of which none has run."""
        self.hands.enqueue(key=name)
        claimed = self.hands.do(lambda: claims.claim(self.roots, self.worker, 1, self.hands.later(5)))
        [lease] = claimed.leases
        self.names[lease.lineage_bytes] = name
        asked = [child(f"{name} {number}", kind, gates=gates) for number in range(children)]
        spawns = together(name, *asked, defaults=ROOMY)
        one = Commit(lease, ENDED, spawns=spawns)
        assert self.hands.do(lambda: commits.commit([one], self.hands.now)) == [True]

    def alone(self, name: str, count: int, kind: str = "leaf") -> None:
        """Leaves that nobody has spawned."""
        for task in self.hands.enqueue(count, kind=kind):
            [(lineage,)] = self.hands.sql("SELECT lineage FROM onceward_task WHERE id = ?", task)
            self.names[lineage.bytes if isinstance(lineage, uuid.UUID) else bytes(lineage)] = name

    def work(self, tasks: int) -> list[str]:
        """Run so many leaves, or as many as there are; whose they were, in order."""
        ran: list[str] = []
        while len(ran) < tasks:
            count = min(AT_ONCE, tasks - len(ran))
            now = self.hands.later(50)
            claimed = self.hands.do(lambda n=count, at=now: claims.claim(self.leaves, self.worker, n, at, slots=n))  # type: ignore[misc]
            if not claimed.leases:
                break
            self.hands.commit_all([(lease, ENDED) for lease in claimed.leases])
            ran += [self.names.get(lease.lineage_bytes, "?") for lease in claimed.leases]
        return ran


@pytest.fixture
def crew(hands: Hands) -> Crew:
    return Crew(hands)


def test_small_lineages_do_not_wait_for_a_huge_one(crew: Crew) -> None:
    crew.root("huge", 4_000)
    crew.work(1_000)
    for number in range(20):
        crew.root(f"small {number}", 50)
    ran = Counter(crew.work(1_200))
    assert all(ran[f"small {number}"] == 50 for number in range(20)), "every small one has ended"
    assert ran["huge"] > 0, "and the huge one goes on meanwhile"


def test_a_small_lineage_beside_a_huge_one_needs_about_twice_its_own_time(crew: Crew) -> None:
    crew.root("huge", 3_000)
    crew.work(1_000)
    crew.root("small", 200)
    ran = crew.work(800)
    last = max(place for place, name in enumerate(ran) if name == "small")
    assert ran.count("small") == 200
    assert 300 <= last <= 600, "one of it, one of the other; and what a mark may be behind"


def test_a_plain_root_does_not_wait_for_a_huge_lineage_either(crew: Crew) -> None:
    crew.root("huge", 2_000)
    crew.work(600)
    crew.alone("alone", 10)
    assert crew.work(300).count("alone") == 10


def test_a_lineage_is_not_put_off_by_waves_of_plain_roots(crew: Crew) -> None:
    crew.root("lineage", 400)
    crew.work(100)
    ran: list[str] = []
    for number in range(6):
        crew.alone(f"wave {number}", 100)
        ran += crew.work(120)
    assert ran.count("lineage") >= 100


def test_a_huge_batch_does_not_hold_up_a_lineage(crew: Crew) -> None:
    hands = crew.hands
    tasks = [
        NewTask("leaf", 1, "default", band_of(0), None, identity("leaf", f"b{number}"), b"{}", uuid.uuid4(), hands.now,
                hands.now)
        for number in range(2_000)
    ]  # fmt: skip
    hands.do(lambda: batches.open_batch(batches.NewBatch("huge"), tasks, hands.now))
    crew.work(600)
    crew.root("small", 50)
    assert crew.work(300).count("small") == 50


def test_everything_runs_in_the_end_and_nothing_twice(crew: Crew) -> None:
    crew.root("one", 500)
    first = crew.work(200)
    crew.root("two", 300)
    crew.alone("three", 100)
    rest = crew.work(10_000)
    crew.hands.later(2_000)  # whatever stood behind the places seen is found by the next sweep
    rest += crew.work(10_000)
    assert Counter(first + rest) == {"one": 500, "two": 300, "three": 100}


# Of other kinds, and behind other gates: those stand in other lines


@pytest.mark.parametrize("small", [None, "mill"])
@pytest.mark.parametrize("huge", [None, "shop"])
def test_a_small_lineage_does_not_wait_for_a_huge_one_in_another_line(
    crew: Crew, huge: str | None, small: str | None
) -> None:
    crew.sees("leaf", "twig")
    crew.root("huge", 2_000, gates=huge)
    crew.work(200)
    crew.root("small", 50, "twig", small)
    ran = Counter(crew.work(240))
    assert ran["small"] == 50, "it has ended"
    assert ran["huge"] >= 100, "and the huge one has gone on meanwhile"


def test_a_small_lineage_does_not_wait_for_huge_ones_in_two_other_lines(crew: Crew) -> None:
    crew.sees("leaf", "twig", "root")
    crew.root("huge", 2_000)
    crew.work(40)
    crew.root("vast", 2_000, "twig")
    crew.work(200)
    crew.root("small", 50, "root")
    ran = Counter(crew.work(400))
    assert ran["small"] == 50
    assert min(ran["huge"], ran["vast"]) >= 80


def test_a_huge_batch_does_not_hold_up_plain_roots_in_another_line(crew: Crew) -> None:
    crew.sees("leaf", "twig")
    crew.root("huge", 2_000)
    crew.work(200)
    crew.alone("alone", 50, "twig")
    assert crew.work(240).count("alone") == 50


def test_a_lineage_is_not_put_off_by_plain_roots_in_another_line(crew: Crew) -> None:
    crew.sees("leaf", "twig")
    crew.root("lineage", 200)
    crew.work(40)
    crew.alone("later", 1_000, "twig")
    assert crew.work(400).count("lineage") == 160


def test_plain_roots_are_done_in_the_order_of_arrival_in_all_lines(crew: Crew) -> None:
    crew.sees("leaf", "twig")
    for number in range(4):
        crew.alone(f"{number}", 50, "twig" if number % 2 else "leaf")
        crew.hands.later(1_000)
    assert [crew.work(50) for _ in range(4)] == [[f"{number}"] * 50 for number in range(4)]


@pytest.mark.torture
def test_twenty_small_lineages_beside_one_of_a_hundred_thousand(crew: Crew) -> None:
    crew.root("huge", 100_000)
    crew.work(1_000)
    for number in range(20):
        crew.root(f"small {number}", 50)
    ran = Counter(crew.work(1_200))
    assert all(ran[f"small {number}"] == 50 for number in range(20))
