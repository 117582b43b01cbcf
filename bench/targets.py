"""What each figure must reach, in one place. A miss is reported beside its figure and is no error."""

from dataclasses import dataclass
from typing import Literal

from bench.plan import STORES, Store
from bench.samples import Results, Spread

Of = Literal["figure", "floor"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on the figure itself, or on engine / floor."""

    at_least: float | None = None
    at_most: float | None = None
    of: Of = "figure"
    aim: float | None = None
    """What would be better still."""

    def __str__(self) -> str:
        sign, value = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        aim = f", aim {self.aim:g}" if self.aim is not None else ""
        return f"{sign} {value:,g}" + (" × the floor" if self.of == "floor" else "") + aim

    def holds(self, value: float) -> bool:
        """Whether the value is within it."""
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is None or value <= self.at_most


def _both(bound: Bound) -> dict[Store, Bound]:
    return dict.fromkeys(STORES, bound)


MUST: dict[str, dict[Store, Bound]] = {
    "drain-1": _both(Bound(at_least=0.5, of="floor", aim=0.8)),
    "workflows": {"sqlite": Bound(at_least=8_000), "postgres": Bound(at_least=5_000)},
    "enqueue-bulk": _both(Bound(at_least=0.5, of="floor")),
    "callers-share": _both(Bound(at_least=5)),
    "threads-share": _both(Bound(at_least=5)),
    "latency-p50": {"sqlite": Bound(at_most=3), "postgres": Bound(at_most=2.5)},
    "latency-p99": _both(Bound(at_most=1.5, of="floor")),
    "backlog-share": _both(Bound(at_least=0.9)),
    "finished-share": _both(Bound(at_least=0.9)),
    "snapshot-kept": {"postgres": Bound(at_least=0.98)},
    "snapshot-growth": {"postgres": Bound(at_most=2)},
    "slow-share": {"postgres": Bound(at_least=0.7)},
    "startup": _both(Bound(at_most=500)),
    "memory": _both(Bound(at_most=120)),
    "governed-share": _both(Bound(at_least=0.75)),
    "spawned-share": _both(Bound(at_least=0.75)),
    "cpu": _both(Bound(at_most=25)),
    "spawn-share": _both(Bound(at_least=0.5)),
    "guard-growth": _both(Bound(at_most=1.2)),
    "governed-cost": _both(Bound(at_most=1.5)),
    "sources-cost": _both(Bound(at_most=1.1)),
    **{
        f"lists-{name}": _both(Bound(at_most=200))
        for name in ("all", "id", "key", "lineage", "batch", "failed", "status", "open", "kind")
    },
    "lists-other": _both(Bound(at_most=1_000)),
    "lists-hour": _both(Bound(at_most=50)),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bound, and whether it was kept; None if it was not measured."""

    bound: Bound
    kept: bool | None

    @property
    def mark(self) -> str:
        """A tick, a cross, or nothing."""
        return {True: "✓", False: "✗", None: ""}[self.kept]

    def __str__(self) -> str:
        return f"{self.bound} {self.mark}".rstrip()


def verdict(results: Results, store: Store, measure: str) -> Verdict | None:
    """What is to be said of the engine's median, if anything must be reached."""
    bound = MUST.get(measure, {}).get(store)
    if bound is None:
        return None
    found: Spread | None
    if bound.of == "floor":
        found = results.ratio(store, measure)
    else:
        found = results.spread(store, "engine", measure)
    return Verdict(bound, None if found is None else bound.holds(found.median))


def missed(results: Results) -> list[tuple[Store, str, Verdict]]:
    """Everything that was measured and did not reach what it must."""
    found = []
    for measure, stores in MUST.items():
        for store in stores:
            one = verdict(results, store, measure)
            if one is not None and one.kept is False:
                found.append((store, measure, one))
    return found
