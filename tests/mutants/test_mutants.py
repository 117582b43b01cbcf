"""The mistakes can still be made in the source as it is, and some of them are, to see that they are found."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from onceward.store import queries
from tests.mutants.applying import ROOT, DoesNotApply, Edit, Mutant, changed_files, edited, hunt, on_each_database
from tests.mutants.protocol import MUTANTS

QUICK = ("unconditional cancel",)
"""What is found in a moment. `make mutants` hunts them all."""


def test_there_are_as_many_as_were_asked_for_and_each_has_a_name() -> None:
    assert len(MUTANTS) >= 25
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_to_the_source_as_it_is(mutant: Mutant) -> None:
    for file, text in changed_files(mutant).items():
        if file.endswith(".py"):
            ast.parse(text)
        elif "migrations" not in file:
            assert queries.parse_blocks(text).keys() == queries.parse_blocks(queries.read(Path(file).name)).keys()
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert name in (ROOT / path).read_text(encoding="utf-8"), f"{test} is gone"


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.name in QUICK], ids=lambda mutant: mutant.name)
def test_a_mutant_is_found(mutant: Mutant) -> None:
    for one in on_each_database(mutant):
        verdict = hunt(one, wider=False)
        assert verdict.caught_by is not None
        assert verdict.caught_by.startswith(one.tests)


def test_a_place_that_is_gone_or_is_there_twice_is_told() -> None:
    queries = "-- name: one\nSELECT 1\nAND a\n\n-- name: two\nSELECT 2\nAND a\nAND a\n"
    assert "SELECT 1\n\n" in edited(queries, Edit("some.sql", "AND a\n", "", "one"))
    for query, said in (("two", "found 2 times"), ("three", "no query three"), (None, "found 3 times")):
        with pytest.raises(DoesNotApply, match=said):
            edited(queries, Edit("some.sql", "AND a\n", "", query))


def test_a_mistake_in_both_spellings_is_made_in_one_at_a_time() -> None:
    both = next(mutant for mutant in MUTANTS if mutant.name == "token dropped")
    assert [one.name for one in on_each_database(both)] == ["token dropped (sqlite)", "token dropped (postgres)"]
    assert [len(one.edits) for one in on_each_database(both)] == [2, 2]
