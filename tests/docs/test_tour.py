"""The tour leads through functions that exist, in the order in which a real task meets them, and leaves out no file."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.docs.pages import ROOT
from tests.walks import Governed, Journeys, Parent, Plain, Walk, governed, parents, plain

TOUR = (ROOT / "docs" / "explanation" / "tour.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "onceward"
_STATION = re.compile(r"^\d\. \[`([\w/]+\.py)` · `([\w.]+)`\]\(\.\./\.\./src/onceward/([\w/]+\.py)\)", re.M)
_FILE = re.compile(r"`([\w/]+\.py)`")
WAYS = {part.split("\n", 1)[0].split(":")[0]: part for part in TOUR.split("\n## ")[1:]}


def _stations(way: str) -> list[tuple[str, str]]:
    return [(file, function) for file, function, _ in _STATION.findall(WAYS[way])]


def _walks() -> dict[str, Walk]:
    of_plain, of_governed = Journeys(plain), Journeys(governed)
    return {
        "A plain task": of_plain.life(Plain),
        "A spawn": Journeys(parents, plain).work(Parent),
        "A governed claim": of_governed.life(Governed),
    }


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    """A real task on each way."""
    return _walks()


@pytest.mark.parametrize("way", WAYS)
def test_a_real_task_passes_every_station(way: str, walks: dict[str, Walk]) -> None:
    functions = walks[way].functions
    assert not [f"{file}:{name}" for file, name in _stations(way) if f"{file}:{name}" not in functions]


def test_a_plain_task_meets_the_stations_in_their_order(walks: dict[str, Walk]) -> None:
    files = walks["A plain task"].files
    met = [files.index(file) for file, _ in _stations("A plain task")]
    assert all(earlier < later for earlier, later in pairwise(met))


@pytest.mark.parametrize("way", WAYS)
def test_a_way_leads_through_stations_and_named_instruments_only(way: str, walks: dict[str, Walk]) -> None:
    named = set(_FILE.findall(WAYS["A plain task"])) | set(_FILE.findall(WAYS[way]))
    assert not [file for file in walks[way].files if file not in named], "name it in the tour, or do without it"


def test_the_tour_names_only_files_that_exist() -> None:
    assert not [file for file in _FILE.findall(TOUR) if not (PACKAGE / file).is_file()]
