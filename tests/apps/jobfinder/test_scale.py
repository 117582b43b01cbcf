"""The job finder at work on an invented web with workers killed on the way: all is found, nothing is there twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward_apps.jobfinder.finder import opened
from tests.apps.jobfinder.expedition import Expedition, Plan, send_out
from tests.proof.tally import SEED, Tally

SMALL = Plan(companies=12, listings=120, kills=1, per_second=20, burst=10, longest_s=90)
LARGE = Plan(companies=1_000, listings=50_000, kills=20, per_second=30, burst=15, longest_s=3_300, look_every_s=1.0)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> str:
    """The address of an empty database, once of each kind."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.mark.parametrize("place", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)], indirect=True)
def test_a_small_web_is_found_whole_though_a_worker_is_killed(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(SMALL, place, send_out(SMALL, place, tmp_path, monkeypatch, SEED))


@pytest.mark.torture
@pytest.mark.timeout(3_600)
def test_a_thousand_companies_and_fifty_thousand_listings_are_found_whole_though_workers_are_killed(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = send_out(LARGE, place, tmp_path, monkeypatch, SEED)
    judge(LARGE, place, found)
    print(f"{found.listings_per_s:.0f} listings/s, {found.seconds:.0f} s, {found.hardest}, {found.counts}")
    Tally(
        matrix="F01",
        fault="worker of the job finder killed at random",
        store=place.partition(":")[0].removesuffix("ql"),
        faults=found.kills,
        accepted=sum(found.look.tasks.values()),
    ).keep()


def judge(plan: Plan, place: str, found: Expedition) -> None:
    """All of it is there, once; no host was asked more often than it may be; every rule of the engine holds."""
    assert found.counts["companies known"] == plan.companies
    assert found.look.decided == found.counts["listings"] == found.counts["addresses"] == plan.listings
    assert found.counts["tasks of listings"] == plan.listings
    assert found.counts["matches"] == found.counts["listings that are matches"] > 0
    assert found.look.listings.get("unknown", 0) == 0
    assert found.kills == plan.kills
    assert found.taken_back > 0, "no kill has hit anything"
    assert found.asked_again <= found.taken_back
    assert found.hardest.over <= 0, found.hardest
    with opened(place) as app:
        report = app.verify()
        assert report.ok, report
