"""What docs/apps/jobfinder.md says is what the code does: its numbers, its settings, its example of instructions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onceward_apps.jobfinder import scraping, settings
from onceward_apps.jobfinder.boards.board import BoardKind
from onceward_apps.jobfinder.cli.commands import command_line
from onceward_apps.jobfinder.pipelines import PIPELINES
from onceward_apps.jobfinder.settings import Numbers, named

PAGE = (Path(__file__).parents[3] / "docs" / "apps" / "jobfinder.md").read_text(encoding="utf-8")


def test_the_table_of_strikes_has_every_strike_with_its_number() -> None:
    said = dict(re.findall(r"\| `(strikes\.\w+)` \| (\d+) \|", PAGE))
    declared = {one.name: str(one.default) for one in settings.settings() if one.name.startswith("strikes.")}
    assert declared.pop("strikes.technology_missing_most") == "3"
    assert said == declared


def test_the_table_of_points_has_every_part_with_its_number() -> None:
    said = dict(re.findall(r"\| `(match\.\w+)` \| −?(\d+) \|", PAGE))
    parts = ("match.points_", "match.minus_")
    assert said == {one.name: str(one.default) for one in settings.settings() if one.name.startswith(parts)}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("match_min_score", "Saved from 80 on"), ("match_portland_score", "or 65 ("),
        ("match_high_priority", "High priority from 85"), ("match_medium_priority", "medium from 70"),
        ("company_portland_bonus", "`company.portland_bonus` | 50"),
        ("company_tech_max_points", "`company.tech_max_points` | up to 100"),
        ("company_remote_first_bonus", "`company.remote_first_bonus` | 15"),
        ("company_ai_ml_bonus", "`company.ai_ml_bonus` | 10"), ("company_tier_s", "S from 150"),
        ("company_tier_a", "A from 100"), ("company_tier_b", "B from 70"), ("company_tier_c", "C from 50"),
        ("company_about_minimal", "more than 50 characters about it"), ("company_culture_minimal", "or 25 about its"),
        ("company_about_good", "more than 100 about it"), ("company_culture_good", "and 50 about its culture"),
        ("listing_description_minimal", "a description of more than 100 characters"),
        ("filter_strike_threshold", "Out at 5 or more"), ("source_disable_after", "at 5 the source is disabled"),
    ],
)  # fmt: skip
def test_the_numbers_of_the_page_are_those_in_force(name: str, words: str) -> None:
    assert words in " ".join(PAGE.split())
    assert str(getattr(Numbers(), name)) in words, named(name)


def test_the_example_of_instructions_can_be_followed() -> None:
    [example] = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    assert scraping.loaded(example).company == "Acme"


def test_every_pipeline_and_command_is_on_the_page() -> None:
    for pipeline in PIPELINES:
        stages = ", ".join(stage.name for stage in pipeline.stages)
        assert re.search(rf"^\| {pipeline.kind.upper()}\b.*\| {stages} \|", PAGE, re.M), pipeline
    commands = {name for name in command_line() if not name.startswith("-")}
    assert commands == {
        "init", "add", "run", "matches", "explain", "applied", "not-for-me", "hide", "companies", "sources", "approve",
        "export", "report", "demo",
    }  # fmt: skip
    assert all(f"`{name}" in PAGE for name in commands)


def test_every_kind_of_board_is_on_the_page() -> None:
    folded = PAGE.casefold()
    names = {BoardKind.FEED: "rss / atom / json feed", BoardKind.JSONLD: "json-ld", BoardKind.GENERIC: "any other page"}
    assert all(names.get(kind, kind.value) in folded for kind in BoardKind)
