"""Boards that a person names are read, however they are written; others found beside a certain one wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward import Status
from onceward.testing import Harness
from onceward_apps.jobfinder import importing, source_rows
from onceward_apps.jobfinder.boards.board import BoardAddress
from onceward_apps.jobfinder.identities import source_id
from onceward_apps.jobfinder.importing import Row, companies_in, meant_by
from onceward_apps.jobfinder.payloads import Company
from tests.apps.jobfinder.loopback import Answer, World, job


def states(finder: Harness) -> dict[str, tuple[str, bool]]:
    return {row.source: (row.status, row.awaits_approval) for row in finder.app.read(source_rows.sources)}


@pytest.mark.parametrize("address", ["https://boards.greenhouse.io/acme", "boards.greenhouse.io/acme"])
def test_an_argument_or_a_row_that_is_a_board_becomes_a_source(finder: Harness, tmp_path: Path, address: str) -> None:
    wish = meant_by(address)
    assert isinstance(wish, BoardAddress)
    assert source_id(wish.kind, wish.token) == "greenhouse:acme"
    file = tmp_path / "companies.csv"
    file.write_text(f"name,website\nAcme,{address}\nGlobex,globex.example/careers\n", encoding="utf-8")
    first, second = [row for row in companies_in(file) if isinstance(row, Row)]
    assert first.wish == wish
    assert isinstance(second.wish, Company)
    importing.add(finder.app, [first.wish])
    assert states(finder) == {"greenhouse:acme": ("pending_validation", False)}


@pytest.mark.parametrize("board", ["https://jobs.lever.co/acme", "jobs.lever.co/acme"])
def test_a_board_in_a_row_is_read_though_the_website_is_not(finder: Harness, world: World, board: str) -> None:
    world.json("lever.example", "/v0/postings/acme?mode=json&skip=0&limit=100", [])
    website = world.page("acme.example", "/", Answer("gone", 410))
    task = finder.enqueue(Company(website, "Acme", board))
    finder.drain()
    assert finder.task(task).status is Status.FAILED
    assert "lever:acme" in states(finder)
    assert states(finder)["lever:acme"][1] is False
    assert [one.kind for one in finder.app.tasks.list(kind="source_discovery")] == ["source_discovery"]


def test_a_board_in_a_row_is_read_though_little_is_known_of_the_company(finder: Harness, world: World) -> None:
    world.greenhouse("acme", [job(1)])
    website = world.page("bare.example", "/", "<title>Bare</title><h1>Bare</h1><p>Soon.</p>")
    task = finder.enqueue(Company(website, None, "boards.greenhouse.io/acme"))
    finder.drain()
    assert finder.task(task).status is Status.SKIPPED
    assert states(finder) == {"greenhouse:acme": ("active", False)}


def test_a_board_that_is_named_later_is_read_though_the_company_is_known(finder: Harness, world: World) -> None:
    world.greenhouse("acme", [job(1)])
    website = world.company("Acme", board="<p>Write to us.</p>")
    importing.add(finder.app, [Company(website)])
    finder.drain()
    importing.add(finder.app, [Company(website, "Acme", "boards.greenhouse.io/acme")])
    finder.drain()
    assert states(finder)["greenhouse:acme"] == ("active", False)


@pytest.mark.parametrize("board", ["none", "n/a", "-"])
def test_a_cell_that_names_no_board_is_no_source(finder: Harness, world: World, board: str) -> None:
    finder.enqueue(Company(world.company("Acme"), "Acme", board))
    finder.drain()
    assert all("acme.example" in source for source in states(finder))


def test_boards_found_beside_a_certain_one_wait_for_approval(finder: Harness, world: World) -> None:
    links = world.greenhouse("acme", [job(1)]) + '<a href="https://jobs.lever.co/acme">x</a><a href="/open-jobs">y</a>'
    links += '<a href="/vacancies">Vacancies</a>'
    finder.enqueue(Company(world.company("Acme", board=links)))
    finder.drain()
    assert states(finder) == {
        "greenhouse:acme": ("active", False),
        "lever:acme": ("pending_validation", True),
        f"generic:acme.example:{world.port}/vacancies": ("pending_validation", True),
    }
    assert len(finder.app.tasks.list(kind="source_discovery")) == 1
