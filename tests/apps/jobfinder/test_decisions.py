"""The decision tree of the job finder as tables: each row of its states, thresholds, tiers and constants once."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest

from onceward import Config, ConfigError
from onceward_apps.jobfinder import completeness, hosts, settings
from onceward_apps.jobfinder.analysing import points, priority_of, size_category, tier_of
from onceward_apps.jobfinder.boards.board import CONFIDENCE, BoardKind
from onceward_apps.jobfinder.completeness import Known, Trust
from onceward_apps.jobfinder.extracting import Facts
from onceward_apps.jobfinder.filtering import strikes
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.matching import Employer, match
from onceward_apps.jobfinder.matching import priority_of as priority_of_score
from onceward_apps.jobfinder.pipelines import PIPELINES
from onceward_apps.jobfinder.profile import Person, Places, Profile, Salary
from onceward_apps.jobfinder.reasons import total
from onceward_apps.jobfinder.settings import Numbers, named, numbers, problems

DEFAULTS = Numbers()
TODAY = date(2026, 3, 1)
LONG = "We build things in the open and care for each other. " * 4
ME = Profile(
    person=Person(titles=("backend engineer",), levels=("mid", "senior")),
    skills={"python": 10, "postgresql": 8, "docker": 6, "go": 4, "redis": 2},
    places=Places(office="Portland", wanted=("Portland", "Seattle")),
    salary=Salary(minimum=100_000),
)


def change(**fields: Any) -> Numbers:
    return msgspec.structs.replace(DEFAULTS, **fields)


# Constants


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("filter.strike_threshold", 5),
        ("match.min_score", 80),
        ("match.portland_score", 65),
        ("match.high_priority", 85),
        ("match.medium_priority", 70),
        ("company.portland_bonus", 50),
        ("company.tech_max_points", 100),
        ("company.remote_first_bonus", 15),
        ("company.ai_ml_bonus", 10),
        ("company.tier_s", 150),
        ("company.tier_a", 100),
        ("company.tier_b", 70),
        ("company.tier_c", 50),
        ("company.about_minimal", 50),
        ("company.about_good", 100),
        ("company.culture_minimal", 25),
        ("company.culture_good", 50),
        ("company.fresh_for", timedelta(days=30)),
        ("listing.description_minimal", 100),
        ("source.disable_after", 5),
    ],
)
def test_every_constant_is_a_setting_with_its_value(name: str, value: Any) -> None:
    declared = {setting.name: setting for setting in settings.settings()}
    assert declared[name].default == value
    assert declared[name].about.endswith(".")


def test_the_constants_of_the_queue_are_those_of_the_engine() -> None:
    assert hosts.RETRY.retries == hosts.RETRIES == 3
    assert Config().max_depth == 10
    assert {pipeline.kind: pipeline.unique for pipeline in PIPELINES if pipeline.kind in ("company", "job")} == {
        "company": "everywhere",
        "job": "everywhere",
    }
    five = {"company", "source_discovery", "scrape_source", "scrape", "job"}
    assert {pipeline.kind for pipeline in PIPELINES if pipeline.cycle == "key"} == five


def test_the_settings_that_are_declared_are_the_numbers_in_force() -> None:
    declared = {setting.name: setting.default for setting in settings.settings()}
    assert numbers(declared.__getitem__) == DEFAULTS
    assert problems(DEFAULTS) == []


def test_a_profile_may_change_a_default_and_cannot_invent_a_setting() -> None:
    changed = {setting.name: setting.default for setting in settings.settings({"match.min_score": 70})}
    assert changed["match.min_score"] == 70
    with pytest.raises(ConfigError, match=r"no setting 'match\.minimum'; there are: filter\.strike_threshold"):
        settings.settings({"match.minimum": 70})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"match_min_score": 60}, "match.min_score=60 is below match.portland_score=65"),
        ({"match_high_priority": 60}, "match.high_priority=60 is below match.medium_priority=70"),
        ({"match_min_score": 101}, "match.min_score=101 cannot be reached: a listing scores at most 100"),
        ({"match_points_title": 0}, "match.min_score=80 cannot be reached: a listing scores at most 60"),
        (
            {"match_portland_score": 90, "match_min_score": 95},
            "match.medium_priority=70 cannot be reached: every match scores at least match.portland_score=90, "
            "and is of high priority",
        ),
        ({"company_tier_a": 160}, "company.tier_s=150 is below company.tier_a=160"),
        ({"company_tier_b": 40}, "company.tier_b=40 is below company.tier_c=50"),
        ({"company_tier_s": 176}, "company.tier_s=176 cannot be reached: a company scores at most 175"),
        ({"company_about_good": 40}, "company.about_good=40 is below company.about_minimal=50"),
        ({"company_culture_good": 20}, "company.culture_good=20 is below company.culture_minimal=25"),
        ({"filter_strike_threshold": 100}, "filter.strike_threshold=100 cannot be reached: the strikes of a listing"),
        ({"filter_strike_threshold": 0}, "filter.strike_threshold=0: it is at least 1"),
        ({"source_disable_after": 0}, "source.disable_after=0: it is at least 1"),
        ({"company_portland_bonus": -1}, "company.portland_bonus=-1: it cannot be negative"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(fields: dict[str, int], says: str) -> None:
    wrong = change(**fields)
    assert any(problem.startswith(says) for problem in problems(wrong)), problems(wrong)
    values = {named(field): getattr(wrong, field) for field in Numbers.__struct_fields__}
    with pytest.raises(ConfigError):
        numbers(values.__getitem__)


# Tiers and priorities


@pytest.mark.parametrize(
    ("score", "tier", "priority"),
    [
        (175, "S", 1), (150, "S", 1), (149, "A", 1), (100, "A", 1), (99, "B", 0), (70, "B", 0), (69, "C", 0),
        (50, "C", 0), (49, "D", -1), (0, "D", -1),
    ],
)  # fmt: skip
def test_points_make_a_tier_and_the_tier_a_priority(score: int, tier: str, priority: int) -> None:
    assert tier_of(score, DEFAULTS) == tier
    assert priority_of(tier) == priority


@pytest.mark.parametrize(
    ("stack", "text", "office", "worth"),
    [
        ([], "", False, {}),
        ([], "", True, {"office": 50}),
        (["python", "postgresql", "docker", "go", "redis"], "", False, {"technologies": 100}),
        (["python"], "", False, {"technologies": 33}),
        (["java"], "", False, {}),
        ([], "We are a remote-first team", False, {"remote first": 15}),
        (["pytorch", "machine learning"], "", False, {"AI and ML": 10}),
        (["ai"], "", False, {}),
        (
            ["python", "postgresql", "docker", "go", "redis", "ai", "ml"], "fully remote", True,
            {"office": 50, "technologies": 100, "remote first": 15, "AI and ML": 10},
        ),
    ],
)  # fmt: skip
def test_a_company_has_points_for_each_thing(stack: list[str], text: str, office: bool, worth: dict[str, int]) -> None:
    assert {one.rule: one.points for one in points(stack, text, office, ME, DEFAULTS)} == worth


@pytest.mark.parametrize(
    ("size", "category"),
    [
        ("1,000", "large"), ("25000+", "large"), ("999", "medium"), ("100-250", "medium"), ("99", "small"),
        ("many", None), (None, None),
    ],
)  # fmt: skip
def test_a_size_has_a_category(size: str | None, category: str | None) -> None:
    assert size_category(size, DEFAULTS) == category


# Completeness


@pytest.mark.parametrize(
    ("about", "culture", "known"),
    [
        (50, 25, Known.TOO_LITTLE),
        (51, 0, Known.MINIMAL),
        (0, 26, Known.MINIMAL),
        (101, 50, Known.MINIMAL),
        (100, 51, Known.MINIMAL),
        (101, 51, Known.GOOD),
    ],
)
def test_a_company_is_known_by_the_length_of_what_is_said(about: int, culture: int, known: Known) -> None:
    facts = Facts(name="Acme", about="x" * about, culture="x" * culture)
    assert completeness.company("https://acme.example/", facts, DEFAULTS) is known


@pytest.mark.parametrize(("name", "website"), [(None, "https://acme.example/"), ("Acme", "")])
def test_a_company_without_name_or_website_is_not_known(name: str | None, website: str) -> None:
    facts = Facts(name=name, about="x" * 500, culture="x" * 500)
    assert completeness.company(website, facts, DEFAULTS) is Known.TOO_LITTLE


@pytest.mark.parametrize(
    ("known", "days", "fresh"),
    [
        (Known.GOOD, 29, True), (Known.GOOD, 30, False), (Known.MINIMAL, 1, False), (Known.TOO_LITTLE, 1, False),
        (Known.GOOD, None, False),
    ],
)  # fmt: skip
def test_only_what_is_known_well_and_lately_is_left_alone(known: Known, days: int | None, fresh: bool) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    looked_at = None if days is None else now - timedelta(days=days)
    assert completeness.is_fresh(known, looked_at, now, DEFAULTS) is fresh


@pytest.mark.parametrize(
    ("fields", "tested"),
    [
        ({}, Trust.VALID),
        ({"url": ""}, Trust.INVALID),
        ({"kind": ""}, Trust.INVALID),
        ({"token": ""}, Trust.INVALID),
        ({"token": "", "base_url": "https://acme.example/jobs"}, Trust.VALID),
        ({"token": "", "selectors": {"list": "li"}}, Trust.VALID),
        ({"is_tested": True}, Trust.COMPLETE),
        ({"is_tested": True, "confidence": "medium"}, Trust.VALID),
        ({"is_tested": True, "confidence": "low"}, Trust.VALID),
    ],
)
def test_a_source_is_valid_then_complete(fields: dict[str, Any], tested: Trust) -> None:
    usual: dict[str, Any] = {
        "url": "https://boards.greenhouse.io/acme", "kind": "greenhouse", "token": "acme", "base_url": "",
        "selectors": None, "is_tested": False, "confidence": "high",
    }  # fmt: skip
    assert completeness.source(**(usual | fields)) is tested


WHOLE = Listing(
    url="https://acme.example/jobs/1",
    title="Senior Backend Engineer",
    company="Acme",
    location="Portland, OR",
    posted=date(2026, 2, 20),
    description=f"Python, PostgreSQL, Docker, Go and Redis. {LONG}",
    requirements=("5 years of Python",),
    salary_min=120_000,
    salary_max=150_000,
    currency="USD",
)


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({}, Known.GOOD),
        ({"location": None}, Known.MINIMAL),
        ({"posted": None}, Known.MINIMAL),
        ({"requirements": ()}, Known.MINIMAL),
        ({"description": "x" * 100}, Known.TOO_LITTLE),
        ({"description": "x" * 101}, Known.GOOD),
        ({"company": None}, Known.TOO_LITTLE),
        ({"title": ""}, Known.TOO_LITTLE),
    ],
)
def test_a_listing_is_known_minimally_or_well(fields: dict[str, Any], known: Known) -> None:
    assert completeness.listing(msgspec.structs.replace(WHOLE, **fields), DEFAULTS) is known


# Confidence


@pytest.mark.parametrize(
    ("kind", "confidence"),
    [
        ("greenhouse", "high"), ("workday", "high"), ("feed", "high"), ("lever", "medium"), ("jobvite", "medium"),
        ("smartrecruiters", "medium"), ("ashby", "medium"), ("workable", "medium"), ("jsonld", "medium"),
        ("generic", "low"),
    ],
)  # fmt: skip
def test_every_kind_of_board_has_a_confidence(kind: str, confidence: str) -> None:
    assert CONFIDENCE[BoardKind(kind)] == confidence


# Strikes


def test_a_listing_that_fits_has_no_strike() -> None:
    assert strikes(WHOLE, ME, DEFAULTS, TODAY) == []


@pytest.mark.parametrize(
    ("fields", "rule", "count"),
    [
        ({"title": "Junior Backend Engineer"}, "seniority", 3),
        ({"title": "Director of Engineering"}, "seniority", 3),
        ({"title": "Senior Backend Engineer (Contract)"}, "employment", 5),
        ({"title": "Backend Engineer, part-time"}, "employment", 5),
        ({"location": "Berlin, Germany"}, "place", 5),
        ({"location": None}, "place unknown", 1),
        ({"salary_min": 60_000, "salary_max": 90_000}, "salary", 3),
        ({"requirements": ("Python", "Kubernetes and Terraform")}, "technology missing", 2),
        ({"requirements": ("Kubernetes", "Terraform", "Kafka", "Scala")}, "technology missing", 3),
        ({"description": f"Java and PHP. {LONG}", "requirements": ()}, "no known technology", 2),
        ({"posted": date(2026, 1, 1)}, "age", 1),
        ({"posted": date(2025, 11, 1)}, "age", 2),
        ({"valid_through": date(2026, 2, 1)}, "expired", 5),
        ({"description": "Python"}, "incomplete", 1),
    ],
)  # fmt: skip
def test_every_row_of_the_table_of_strikes(fields: dict[str, Any], rule: str, count: int) -> None:
    found = strikes(msgspec.structs.replace(WHOLE, **fields), ME, DEFAULTS, TODAY)
    assert {one.rule for one in found} == {rule}
    assert total(found) == count
    assert all(one.sentence for one in found)


def test_what_a_profile_excludes_is_a_strike() -> None:
    me = msgspec.convert(
        {"exclusions": {"technologies": ["PHP"], "words": ["security clearance"]}, "places": {"remote": "required"}},
        Profile,
    )
    text = f"PHP, security  clearance. {LONG}"
    listing = msgspec.structs.replace(WHOLE, description=text, location="Portland, on-site")
    found = {one.rule: one.points for one in strikes(listing, me, DEFAULTS, TODAY)}
    assert found == {"technology excluded": 5, "word excluded": 5, "remote": 4}


def test_a_salary_that_is_not_stated_counts_if_a_person_says_so() -> None:
    silent = msgspec.structs.replace(WHOLE, salary_min=None, salary_max=None)
    assert strikes(silent, ME, DEFAULTS, TODAY) == []
    [strike] = strikes(silent, ME, change(strikes_salary_unknown=2), TODAY)
    assert (strike.rule, strike.points) == ("salary unknown", 2)


def test_remote_work_is_as_good_as_a_place_unless_it_is_not_wanted() -> None:
    remote = msgspec.structs.replace(WHOLE, location="Remote, USA", remote=True)
    assert strikes(remote, ME, DEFAULTS, TODAY) == []
    at_home = msgspec.structs.replace(ME, places=Places(wanted=("Portland",), remote="no"))
    [strike] = strikes(remote, at_home, DEFAULTS, TODAY)
    assert strike.rule == "place"


# Scores


def test_a_listing_that_fits_in_everything_has_all_points() -> None:
    found = match(WHOLE, Employer(name="Acme", tier="S"), ME, DEFAULTS)
    assert {one.rule: one.points for one in found.why} == {
        "title": 40, "skills": 25, "place": 15, "seniority": 10, "company": 5, "salary": 5,
    }  # fmt: skip
    assert (found.score, found.priority, found.is_saved) == (100, "high", True)


@pytest.mark.parametrize(
    ("fields", "rule", "points"),
    [
        ({"description": f"Redis. {LONG}", "requirements": ()}, "skills", 15),
        ({"description": f"Java. {LONG}", "requirements": ()}, "skills", 0),
        ({"requirements": ("Kafka", "Python")}, "skills", 18),
        ({"title": "Senior Engineer"}, "title", 36),
        ({"title": "Senior iOS Engineer"}, "title", 12),
        ({"title": "Senior iOS Engineer"}, "other work", -20),
        ({"title": "Director of Backend Engineering"}, "seniority", -20),
        ({"location": "Berlin"}, "place", -20),
        ({"location": None}, "place", 8),
        ({"location": "Anywhere", "remote": True}, "place", 15),
        ({"location": "Berlin", "remote": True}, "place", -20),
        ({"salary_min": None, "salary_max": None}, "salary", 2),
        ({"salary_min": 60_000, "salary_max": 90_000}, "salary", 0),
    ],
)
def test_every_part_of_the_score(fields: dict[str, Any], rule: str, points: int | None) -> None:
    found = match(msgspec.structs.replace(WHOLE, **fields), Employer(), ME, DEFAULTS)
    assert {one.rule: one.points for one in found.why}.get(rule) == points
    assert total(found.why) == found.score, "the sum adds up"


@pytest.mark.parametrize(("tier", "worth"), [("S", 5), ("A", 4), ("B", 3), ("C", 2), ("D", 1), (None, 2)])
def test_the_tier_of_the_company_counts(tier: str | None, worth: int | None) -> None:
    found = match(WHOLE, Employer(tier=tier), ME, DEFAULTS)
    assert {one.rule: one.points for one in found.why}.get("company") == worth


@pytest.mark.parametrize(
    ("score", "priority"),
    [(100, "high"), (85, "high"), (84, "medium"), (80, "medium"), (70, "medium"), (69, "low"), (65, "low"), (0, "low")],
)
def test_a_score_has_a_priority(score: int, priority: str) -> None:
    assert priority_of_score(score, DEFAULTS) == priority


@pytest.mark.parametrize(
    ("location", "has_office", "needed"),
    [("Seattle", False, 80), ("Portland, OR", False, 65), ("Seattle", True, 65), (None, False, 80)],
)
def test_less_is_needed_where_there_is_an_office(location: str | None, has_office: bool, needed: int) -> None:
    listing = msgspec.structs.replace(WHOLE, location=location)
    assert match(listing, Employer(has_office=has_office), ME, DEFAULTS).needed == needed
