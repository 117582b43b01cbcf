"""How postings are read: kinds of work, what is required, levels, places, languages, and how that agrees with a "
"person."""

from __future__ import annotations

import msgspec
import pytest

from onceward_apps.jobfinder.demands import demands_in, heading_of
from onceward_apps.jobfinder.languages import ANOTHER, asked, written_in
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.matching import Employer, match
from onceward_apps.jobfinder.places import bound_to, is_in, is_open_to
from onceward_apps.jobfinder.positions import Level, levels_of
from onceward_apps.jobfinder.profile import Person, Places, Profile
from onceward_apps.jobfinder.reasons import total
from onceward_apps.jobfinder.requirements import requirements_in
from onceward_apps.jobfinder.roles import fit, role_of
from onceward_apps.jobfinder.salaries import stated_in
from onceward_apps.jobfinder.settings import Numbers
from onceward_apps.jobfinder.verdicts import Verdict
from tests.apps.jobfinder import scoring

NUMBERS = Numbers()

POSTING = """About the team
The ledgers team keeps every account of our clinics right to the cent. As a backend engineer you will design services.

What you will do
- Own services and the tables below them
- Sit with those who use them

Minimum qualifications
- 4+ years of professional software engineering
- Fluent in one of Python, Java, Go or C++
- You have run PostgreSQL or MySQL yourself
- Experience with distributed systems

Nice to have
- Kafka, Spark or Flink
- React

The base salary range is USD$150,000 per year - USD$185,500 per year.
"""
LISTING = Listing(
    url="https://clinics.example/jobs/1", title="Senior Software Engineer, Ledgers", company="Clinics",
    location="Seattle, Washington, United States; Portland, Oregon, United States", description=POSTING,
)  # fmt: skip
ME = Profile(
    person=Person(titles=("backend engineer",), levels=("mid", "senior", "staff"), languages=("English",)),
    skills={"python": 10, "postgresql": 8, "distributed systems": 6},
    places=Places(office="Portland", wanted=("West Coast",)),
)


def score(profile: Profile = ME, **fields: object) -> int:
    found = match(msgspec.structs.replace(LISTING, **fields), Employer(), profile, NUMBERS)
    assert total(found.why) == found.score
    return found.score


# Kinds of work


@pytest.mark.parametrize(
    ("title", "family", "subject"),
    [
        ("Backend Developer (m/w/d)", "software", "backend"),
        ("Sr Software Engineer - Android", "software", "mobile"),
        ("Site Reliability Engineer", "software", "infrastructure"),
        ("Desarrolladora Full Stack", "software", "full stack"),
        ("Ingeniero de datos", "software", "data engineering"),
        ("Científica de datos", "data science", "science"),
        ("Scientist II, Pricing", "data science", "science"),
        ("Scientist, Protein Chemistry", "laboratory science", None),
        ("Analista de datos Jr", "data science", "analysis"),
        ("Enterprise Account Executive - West", "sales", "new business"),
        ("Ejecutivo de ventas B2B", "sales", "new business"),
        ("Key Account Manager", "sales", "account management"),
        ("Sales Engineer", "sales", "presales"),
        ("Gerente de Operaciones Regional", "operations", None),
        ("Marketplace Product Operations Manager", "operations", None),
        ("Revenue Operations Analyst", "operations", "commercial"),
        ("People Operations Manager", "people", None),
        ("IT Operations Manager", "it", None),
        ("Technical Program Manager, Engineering", "program", None),
        ("Lead Product Manager for Safety", "product", None),
        ("Pastry chef", "manual work", None),
        ("Keeper of bees", None, None),
    ],
)
def test_a_title_belongs_to_a_kind_of_work(title: str, family: str | None, subject: str | None) -> None:
    role = role_of(title)
    assert (role.family if role else None) == family
    assert role is None or subject is None or subject in role.subjects


@pytest.mark.parametrize(
    ("title", "text", "wanted", "least", "most"),
    [
        ("Backend Engineer", "", "backend engineer", 1.0, 1.0),
        ("Platform Engineer", "", "backend engineer", 0.8, 0.95),
        ("Software Engineer II", "Distributed systems, APIs and microservices", "backend engineer", 0.95, 1.0),
        ("Software Engineer II", "As a backend engineer you will", "backend engineer", 1.0, 1.0),
        ("Software Engineer II", "Android, iOS, Kotlin and Swift; mobile apps", "backend engineer", 0.0, 0.7),
        ("iOS Engineer", "Our backend is distributed", "backend engineer", 0.0, 0.5),
        ("Account Manager", "", "account executive", 0.0, 0.55),
        ("Applied Scientist", "", "data analyst", 0.8, 1.0),
        ("Recruiter, Backend Engineers", "", "backend engineer", 0.0, 0.4),
        ("Coordinadora de operaciones", "", "operations manager", 1.0, 1.0),
        ("Keeper of bees", "", "keeper of bees", 1.0, 1.0),
    ],
)
def test_how_close_two_kinds_of_work_are(title: str, text: str, wanted: str, least: float, most: float) -> None:
    assert least <= fit(title, text, None, (wanted,)).share <= most


def test_the_work_counts_before_all() -> None:
    assert score() >= 90
    assert score(title="Senior Product Manager, Ledgers") < 60
    assert score(title="Senior Frontend Engineer") < 80


# What is required


def test_alternatives_are_one_demand_and_what_would_be_nice_is_none() -> None:
    demands = demands_in(POSTING)
    assert {one.names for one in demands.technologies if one.is_required} == {
        ("c++", "go", "java", "python"), ("mysql", "postgresql"),
    }  # fmt: skip
    assert not any(one.is_required for one in demands.technologies if "kafka" in one.names or "react" in one.names)
    assert demands.years == 4


@pytest.mark.parametrize(
    ("line", "groups"),
    [
        ("Python and Docker", {("python",), ("docker",)}),
        ("Python, and either AWS or GCP", {("python",), ("aws", "gcp")}),
        ("A language such as Java, Go and Python", {("go", "java", "python")}),
        ("Proficient in a language such as Java/Go/Python", {("go", "java", "python")}),
        ("Experiencia con Python o Java", {("java", "python")}),
        ("Kafka is a plus", set()),
    ],
)
def test_what_a_line_requires(line: str, groups: set[tuple[str, ...]]) -> None:
    found = demands_in(f"Requirements\n- {line}")
    assert {one.names for one in found.technologies if one.is_required} == groups


@pytest.mark.parametrize(
    ("heading", "section"),
    [
        ("What We Require", "required"), ("You have", "required"), ("**Basic Qualifications**", "required"),
        ("---- Preferred Qualifications ----", "nice"), ("Nice to have:", "nice"), ("What You'll Do", "other"),
        ("## Requisitos", "required"), ("Lo que buscamos", "required"), ("Se valora", "nice"),
        ("Das bringst du mit", "required"), ("Votre profil", "required"), ("What we offer", "other"),
        ("- 4 years of cooking", None), ("We moved last year, and it was a good idea to do so.", None),
    ],
)  # fmt: skip
def test_a_heading_opens_a_section(heading: str, section: str | None) -> None:
    assert heading_of(heading) == section


def test_requirements_are_found_below_headings_of_several_languages() -> None:
    assert requirements_in("Requisitos\n- Excel\nOfrecemos\n- Sol") == ("Excel",)
    assert requirements_in("**What you'll need**\n\n1. A knife\n2. A pan\n\n**Benefits**\n\n- Pay") == (
        "A knife",
        "A pan",
    )


def test_a_missing_requirement_costs_and_is_named() -> None:
    text = POSTING.replace("PostgreSQL or MySQL", "Scala").replace("Python, Java, Go or C++", "Elixir or Rust")
    found = match(msgspec.structs.replace(LISTING, description=text), Employer(), ME, NUMBERS)
    [skills] = [one for one in found.why if one.rule == "skills"]
    assert "not elixir or rust, scala" in skills.sentence
    assert found.score < 85


# Levels, places, languages


@pytest.mark.parametrize(
    ("title", "years", "levels"),
    [
        ("Engineer", None, ("mid", "senior")), ("Engineer", 1, ("junior", "mid")), ("Engineer", 3, ("mid",)),
        ("Engineer", 6, ("mid", "senior")), ("Engineer", 10, ("senior", "staff")), ("Staff Engineer", 3, ("staff",)),
    ],
)  # fmt: skip
def test_years_tell_the_level_where_no_title_does(title: str, years: int | None, levels: tuple[Level, ...]) -> None:
    assert levels_of(title, years) == levels


def test_another_level_is_no_match() -> None:
    assert score(title="Software Engineer Intern") < 80
    assert score(title="Engineering Manager, Ledgers") < 80


@pytest.mark.parametrize(
    ("location", "wanted", "found"),
    [
        ("Sunnyvale, California, United States", "Bay Area", True), ("Oakland, CA", "California", True),
        ("Berlin, Germany; Seattle, WA", "West Coast", True), ("Portland, ME", "Portland, OR", False),
        ("Portland, Maine", "Oregon", False), ("Ciudad de México", "Mexico", True), ("Bogotá, Colombia",
        "Latin America", True),
        ("Santiago de Querétaro, Mexico", "Chile", False), ("São Paulo, Brazil", "Mexico", False),
        ("New York, New York, United States", "NYC", True), ("München", "Germany", True), ("London, UK", "Europe",
        True),
        ("Chicago, IL", "USA", True), ("Hybrid - Austin, TX", "Texas", True), ("Smallville office", "Smallville", True),
        ("Washington, District of Columbia, United States", "West Coast", False), ("Austin, Texas", "Portland", False),
    ],
)  # fmt: skip
def test_a_place_lies_in_what_holds_it(location: str, wanted: str, found: bool) -> None:
    assert (is_in(location, (wanted,)) is not None) is found


@pytest.mark.parametrize(
    ("location", "text", "is_open"),
    [
        ("Remote", None, True), ("Remote - US", None, True), ("Remote, Germany", None, False), ("Remote (EMEA)", None,
        False),
        ("Remote", "You must be based in Canada.", False), ("Remote", "You must be located in the United States.",
        True),
    ],
)  # fmt: skip
def test_remote_work_may_be_bound_to_a_place(location: str, text: str | None, is_open: bool) -> None:
    assert is_open_to(bound_to(location, text), ("Seattle", "Portland")) is is_open


@pytest.mark.parametrize(
    ("line", "languages"),
    [
        ("Fluent in Spanish", [{"spanish"}]), ("Customer Support with German", [{"german"}]),
        ("Specialist (Danish Speaker)", [{"danish"}]), ("Professional fluency in both Spanish and English",
        [{"english"}, {"spanish"}]),
        ("Fluency in French or Dutch", [{"french", "dutch"}]), ("Account Executive (Bilingual Required)", [{ANOTHER}]),
        ("Inglés avanzado", [{"english"}]), ("We serve Spanish restaurants", []), ("A good English breakfast", []),
    ],
)  # fmt: skip
def test_languages_that_are_asked_for(line: str, languages: list[set[str]]) -> None:
    assert sorted(map(sorted, asked([line]))) == sorted(map(sorted, languages))


def test_a_language_that_one_does_not_speak_is_no_match() -> None:
    spoken = POSTING.replace("- Experience with distributed systems", "- Fluent in Portuguese")
    assert score(description=spoken) < 80
    assert score(description=POSTING.replace("- React", "- Fluent in Portuguese")) >= 80, "it would only be nice"
    silent = msgspec.structs.replace(ME, person=msgspec.structs.replace(ME.person, languages=()))
    assert score(silent, description=spoken) >= 80
    assert written_in("Una persona que trabaje con el equipo de la ciudad y que tenga ganas. " * 5) == "spanish"


# Pay


@pytest.mark.parametrize(
    ("text", "pay"),
    [
        ("The base salary range is USD$167,000 per year - USD$185,500 per year.", (167_000, 185_500, "USD")),
        ("The base hourly rate is USD$29.25 per hour.", (60_840, 60_840, "USD")),
        ("Salary: £45,000 – £55,000 a year", (45_000, 55_000, "GBP")),
        ("Gehalt: 60.000 € bis 70.000 € brutto pro Jahr", (60_000, 70_000, "EUR")),
        ("We pay 45k–55k €", (45_000, 55_000, "EUR")),
        ("$120K - $150K base", (120_000, 150_000, "USD")),
        ("Compensation: $25/hr", (52_000, 52_000, "USD")),
        ("Sueldo: $25,000 MXN mensuales", (300_000, 300_000, "MXN")),
        ("We raised $50 million, and pay well", None),
        ("Manage a budget of $200,000", None),
        ("Dial 50 prospects a day", None),
    ],
)
def test_pay_is_read_from_texts(text: str, pay: tuple[float, float, str] | None) -> None:
    found = stated_in(text)
    assert (None if found is None else (found.lowest, found.highest, found.currency)) == pay


# What a person has decided


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ((Verdict("applied", "Software Engineer, Ledgers", "Other"),), 2),
        ((Verdict("not for me", "Software Engineer, Ledgers", "Other"),), -2),
        ((Verdict("not for me", "Pastry chef", "Clinics"),), -1),
        ((Verdict("not for me", "Software Engineer, Ledgers", "Other"),) * 9, -5),
        ((Verdict("hidden", "Software Engineer, Ledgers", None),), 0),
    ],
)
def test_verdicts_count_a_little_and_say_so(before: tuple[Verdict, ...], change: int) -> None:
    found = match(LISTING, Employer(), ME, NUMBERS, before)
    assert found.score - score() == change
    assert any(one.rule == "verdicts" and before[0].title in one.sentence for one in found.why) is bool(change)


# A person's eyes


@pytest.mark.parametrize("name", ["backend", "data", "operations", "sales"])
def test_the_scorer_agrees_with_a_person_on_postings_that_it_was_not_made_with(name: str) -> None:
    if not scoring.POSTINGS.is_file():
        pytest.skip(f"the shared data is not here: {scoring.POSTINGS.name}")
    found = list(scoring.judged(name, scoring.profiles()[name]))
    figures = scoring.figures(found)
    assert len(found) > 200
    assert min(figures.r_precision, figures.recall, figures.precision) >= scoring.BAR, figures
