"""Every call that an operation of the engine makes to its disk fails, once and from then on: nothing is half done."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.disk.failing import KINDS, Fault
from tests.disk.operations import OPERATIONS, Operation
from tests.disk.sweep import Outcome, Ready, ready, strike
from tests.proof.tally import SEED, Tally

EACH = 36
"""How many faults of an operation the short form looks at: 500 of all of them."""


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_a_disk_that_fails_leaves_all_or_nothing(operation: Operation, tmp_path: Path) -> None:
    prepared = ready(operation, tmp_path)
    sweep(prepared, some_of_each_kind(prepared), tmp_path, thoroughly=False)


@pytest.mark.torture
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_a_disk_that_fails_at_any_call_leaves_all_or_nothing(operation: Operation, tmp_path: Path) -> None:
    prepared = ready(operation, tmp_path)
    sweep(prepared, prepared.faults(), tmp_path, thoroughly=True)


def some_of_each_kind(prepared: Ready) -> list[Fault]:
    """Faults by dice, but not nearly all of them writes."""
    dice = random.Random(SEED)
    faults = sorted(prepared.faults(), key=lambda _: dice.random())
    in_turn = zip_longest(*([fault for fault in faults if fault.kind == kind] for kind in KINDS))
    return [fault for turn in in_turn for fault in turn if fault is not None][:EACH]


def sweep(prepared: Ready, faults: Iterable[Fault], folder: Path, *, thoroughly: bool) -> None:
    """Have an operation meet one fault after the other."""
    met: dict[Fault, Outcome] = {}
    for fault in faults:
        try:
            met[fault] = strike(prepared, fault, folder / "onceward.db", thoroughly=thoroughly)
        except Exception as error:
            error.add_note(f"{prepared.operation.name}: {fault}")
            raise
    assert all(outcome.hits for outcome in met.values()), "a fault has hit nothing"
    points = Counter(fault.kind for fault in met)
    print(f"{prepared.operation.name}: " + ", ".join(f"{points[kind]} {kind}" for kind in KINDS if points[kind]))
    Tally(
        matrix="F20",
        fault=f"call to the disk failed: {prepared.operation.name}",
        store="sqlite",
        faults=len(met),
        accepted=sum(outcome.tasks for outcome in met.values()),
        commits=sum(outcome.acknowledged for outcome in met.values()),
        reconciled=sum(outcome.reconciled for outcome in met.values()),
    ).keep()
