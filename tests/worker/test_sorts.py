"""What children of one sort have in common is found out once, and never for a child that has a say in it itself."""

from __future__ import annotations

from decimal import Decimal

import pytest

from onceward import Config, ConfigError, Context, Limits, Payload, Pipeline, Source, StopList
from onceward.authoring.child_builder import Spawner
from onceward.authoring.registry import Registry
from onceward.model.enqueue_options import EnqueueOptions
from onceward.model.lineage import Sort
from onceward.model.task import band_of
from tests.worker.conftest import lease

NOW = 1_000


class Note(Payload, kind="note"):
    name: str

    def key(self) -> str:
        return self.name


def spawner(stop_list: StopList | None = None, *, source: Source | None = None, **options: object) -> Spawner:
    """One who knows notes."""
    pipeline = Pipeline(Note, **options)  # type: ignore[arg-type]

    @pipeline.stage(source=source)
    def write(ctx: Context[Note]) -> None:
        """Nothing."""

    return Spawner(Registry([pipeline]), Config().bounds, stop_list, lambda: NOW)


def test_children_without_wishes_are_of_one_sort_and_keep_what_is_theirs() -> None:
    mine = spawner()
    first, second = mine.child(lease(1), Note("a")), mine.child(lease(2), Note("b"))
    assert first.sort is second.sort
    assert first.sort == Sort("note", 1, "default", band_of(0), "lineage")
    assert (first.key, second.key) == ("a", "b")
    assert first.identity != second.identity
    assert first.payload != second.payload


@pytest.mark.parametrize(
    "options", [EnqueueOptions(priority=2), EnqueueOptions(after="5s"), EnqueueOptions(limits=Limits(max_tasks=3))]
)
def test_a_wish_holds_for_the_child_that_it_was_made_for(options: EnqueueOptions) -> None:
    mine = spawner()
    before, wished, after = (
        mine.child(lease(1), Note("a")),
        mine.child(lease(1), Note("b"), options),
        mine.child(lease(1), Note("c")),
    )
    assert before.sort is after.sort
    assert (before.bounds, before.scope, before.sort.due_at) == (None, None, 0)
    assert (wished.sort.band, wished.sort.due_at) == (
        band_of(options.priority or 0),
        0 if options.after is None else NOW + 5_000,
    )
    assert (wished.bounds is None) == (options.limits is None)


def test_what_a_child_has_to_pass_by_its_key_is_its_own() -> None:
    mine = spawner(key_concurrency=1)
    first, second = mine.child(lease(1), Note("a")), mine.child(lease(1), Note("b"))
    assert first.sort.gates != second.sort.gates
    assert mine.child(lease(1), Note("a")).sort.gates == first.sort.gates


def test_a_source_with_instances_by_key_is_asked_for_every_child() -> None:
    mine = spawner(source=Source("site", concurrency=1, per=lambda key: key))
    gates = [mine.child(lease(1), Note(name)).sort.gates for name in ("a", "b")]
    assert gates[0] != gates[1]


def test_the_stop_list_is_asked_about_every_child() -> None:
    mine = spawner(StopList(keywords=["bad"]))
    stopped = [mine.child(lease(1), Note(name)).stopped for name in ("good", "bad", "good")]
    assert [reason is None for reason in stopped] == [True, False, True]


def test_only_payloads_are_spawned() -> None:
    with pytest.raises(ConfigError, match="spawn takes a payload, not Decimal"):
        spawner().child(lease(1), Decimal(1))  # type: ignore[arg-type]
