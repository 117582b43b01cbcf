"""What is made of the pages of a company, of a page of one listing, and of texts, by heuristics."""

from __future__ import annotations

import json
from datetime import date

import msgspec
import pytest

from onceward_apps.jobfinder import analysing, extracting, postings
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.extracting import Kept
from onceward_apps.jobfinder.identities import company_id, folded_name, listing_id, source_id, twin_of, website_of
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page
from onceward_apps.jobfinder.places import way_of
from onceward_apps.jobfinder.positions import employment_of, level_of
from onceward_apps.jobfinder.profile import parsed
from onceward_apps.jobfinder.settings import Numbers
from onceward_apps.jobfinder.technologies import technologies_in

TODAY = date(2026, 1, 1)
ORGANIZATION = {
    "@type": "Organization", "name": "Acme Corporation", "foundingDate": "2009-05-01",
    "description": "Acme makes everything that a coyote needs, and delivers it to any canyon within a day.",
    "numberOfEmployees": {"@type": "QuantitativeValue", "minValue": 200, "maxValue": 500},
    "address": {"@type": "PostalAddress", "addressLocality": "Portland", "addressRegion": "OR"},
}  # fmt: skip


def page_of(html: str, path: str = "/about") -> Kept:
    return extracting.slim(path, f"https://acme.example{path}", html)


def test_structured_data_says_most() -> None:
    data = json.dumps({"@graph": [{"@type": "WebSite"}, ORGANIZATION]})
    found = extracting.facts([page_of(f'<script type="application/ld+json">{data}</script>')])
    assert (found.name, found.founded, found.size) == ("Acme Corporation", "2009", "200-500")
    assert found.headquarters == "Portland, OR"
    assert (found.about or "").startswith("Acme makes everything")
    assert found.found_by["founded"] == "structured data of /about"


def test_headings_and_phrases_say_the_rest() -> None:
    html = """<title>About us | Acme</title><body><nav>About</nav>
    <h1>Who we are</h1><p>Acme makes anvils.</p><p>They are heavy.</p>
    <h2>Our values</h2><ul><li>Be kind to birds</li><li>Read the manual</li></ul>
    <h2>Numbers</h2><p>Founded in 1998 and headquartered in Portland, Oregon. Today we are 1,200 people.</p>
    <p>Our mission is to make gravity affordable for everybody. Join us.</p></body>"""
    found = extracting.facts([page_of(html)])
    assert found.about == "Acme makes anvils.\nThey are heavy."
    assert found.culture == "- Be kind to birds\n- Read the manual"
    assert (found.founded, found.headquarters, found.size) == ("1998", "Portland, Oregon", "1,200")
    assert found.mission == "make gravity affordable for everybody"
    assert found.name == "Acme"
    assert found.found_by["culture"] == "the heading 'Our values' of /about"


def test_a_name_that_is_given_counts_and_what_is_not_said_stays_empty() -> None:
    found = extracting.facts([page_of("<p>Hello</p>", "/")], "Initech")
    assert found.name == "Initech"
    assert set(found.empty) == {"about", "culture", "mission", "size", "headquarters", "industry", "founded"}


@pytest.mark.parametrize("html", ["", "<", "<p>" * 5_000, '<script type="application/ld+json">{"a":</script>', "\x00"])
def test_broken_pages_say_nothing_and_crash_nothing(html: str) -> None:
    assert extracting.facts([page_of(html)]).about is None


def test_scripts_and_drawings_are_not_kept() -> None:
    kept = page_of("<style>p{}</style><script>alert(1)</script><svg><text>x</text></svg><p>Hello</p>")
    assert "alert" not in kept.html
    assert "svg" not in kept.html
    assert "Hello" in kept.html


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Python, JavaScript and Java", ["java", "javascript", "python"]),
        ("We use Go and Rust.", ["go", "rust"]),
        ("Let's Go to market; we react quickly and hate rust", []),
        ("Golang", ["go"]),
        ("golang, GoLang or GOLANG", ["go"]),
        ("Python, java, go or c++", ["c++", "go", "java", "python"]),
        ("Go-to-market and go-getters; go for it and go live", []),
        ("a rust developer, react.js, and react/typescript", ["react", "rust", "typescript"]),
        ("Ruby on Rails, PHP, C#", ["c#", "php", "rails", "ruby"]),
        ("React/Vue.js, Angular, Svelte", ["angular", "react", "svelte", "vue"]),
        ("Docker, Kubernetes (k8s), AWS, GCP, Azure", ["aws", "azure", "docker", "gcp", "kubernetes"]),
        ("Postgres MySQL MongoDB Redis", ["mongodb", "mysql", "postgresql", "redis"]),
        ("TensorFlow, PyTorch and machine learning", ["machine learning", "pytorch", "tensorflow"]),
        ("Pythonic javanese dockers", []),
        ("C++ and C#", ["c#", "c++"]),
        ("plain C", []),
    ],
)
def test_technologies_are_whole_words(text: str, named: list[str]) -> None:
    assert list(technologies_in(text)) == named


def test_a_skill_that_nobody_knows_is_looked_for_too() -> None:
    assert technologies_in("Years of event  sourcing", ("event sourcing",)) == ("event sourcing",)


@pytest.mark.parametrize(
    ("title", "level"),
    [
        ("Backend Engineer", "mid"), ("Senior Backend Engineer", "senior"), ("Sr. Engineer", "senior"),
        ("Staff Engineer", "staff"), ("Principal Engineer", "principal"), ("Junior Developer", "junior"),
        ("Software Engineering Intern", "intern"), ("Internal Tools Engineer", "mid"), ("Tech Lead", "lead"),
        ("Engineering Manager", "manager"), ("Product Manager", "mid"), ("Head of Data", "director"),
        ("Software Engineer II", "mid"), ("Software Engineer III", "senior"), ("Chief of Staff", "mid"),
        ("Engineer I", "junior"), ("Operations Manager", "mid"), ("Manager, Data Science", "manager"),
        ("Sales Manager", "manager"), ("Business Development Manager", "mid"), ("Senior Staff Engineer", "staff"),
        ("Mid-Market Account Executive", "mid"), ("Senior Mid-Market Account Executive", "senior"),
        ("Early Stage Engineer", "mid"), ("Becario de datos", "intern"), ("Directora de operaciones", "director"),
    ],
)  # fmt: skip
def test_a_title_has_a_level(title: str, level: str) -> None:
    assert level_of(title) == level


@pytest.mark.parametrize(
    ("title", "description", "kind"),
    [
        ("Engineer (Contract)", None, "contract"), ("Engineer, part time", None, "part-time"),
        ("Engineer", "Employment type: Full-time", "full-time"), ("Engineer", "We contract with partners.", None),
        ("Contract Lifecycle Management Lead", None, None), ("Contractor, Data", None, "contract"),
        ("Engineering Intern", None, "internship"), ("Engineer", "Job type: Temporary", "temporary"),
    ],
)  # fmt: skip
def test_employment_is_what_the_title_or_a_label_says(title: str, description: str | None, kind: str | None) -> None:
    assert employment_of(title, description) == kind


@pytest.mark.parametrize(
    ("remote", "location", "text", "way"),
    [
        (True, "Portland", None, "remote"), (None, "Remote - US", None, "remote"),
        (None, "Hybrid, Berlin", None, "hybrid"), (None, "Berlin", "This is an on-site role", "on site"),
        (None, "Berlin", "We are a remote-first company", "remote"),
        (True, "Remote", "This is not a remote position", "on site"), (None, "Berlin", "Nice team", None),
        (False, "Berlin", None, "on site"),
    ],
)  # fmt: skip
def test_how_one_works_is_stated_or_read(remote: bool | None, location: str, text: str | None, way: str | None) -> None:
    assert way_of(remote, location, text) == way


@pytest.mark.parametrize(
    ("address", "website", "name"),
    [
        ("acme.com", "https://acme.com/", "acme.com"),
        ("http://www.Acme.com/about?x=1", "https://acme.com/", "acme.com"),
        ("https://acme.com/en/careers", "https://acme.com/", "acme.com"),
        ("http://127.0.0.1:8000", "https://127.0.0.1:8000/", "127.0.0.1:8000"),
        ("https://sites.example/acme", "https://sites.example/acme", "sites.example/acme"),
    ],
)
def test_a_company_has_one_spelling(address: str, website: str, name: str) -> None:
    assert website_of(address) == website
    assert company_id(address) == name


def test_names_of_companies_and_positions_are_compared_without_their_trimmings() -> None:
    assert folded_name("Acme, Inc.") == folded_name("ACME  Inc") == folded_name("Acme")
    assert twin_of("Acme Inc.", "Senior Engineer (Backend)", "Portland, OR") == twin_of(
        "acme", "senior engineer backend", "Portland OR"
    )
    assert twin_of(None, "Engineer", "Portland") is None
    assert source_id("greenhouse", "Acme") == "greenhouse:acme"
    assert source_id("generic", "acme.com/Jobs") == "generic:acme.com/Jobs"
    assert listing_id("https://A.example/j?utm_source=x&id=1#top") == listing_id("https://a.example/j?id=1")


def html_page(html: str) -> Page:
    return Page(
        url="https://acme.example/jobs/1", final_url="https://acme.example/jobs/1", status=200,
        content_type="text/html", headers={}, body=html.encode(), text=html,
    )  # fmt: skip


def test_a_page_without_structured_data_is_read_by_its_heading() -> None:
    html = (
        "<title>Data Engineer - Acme</title><body><h1>Data Engineer</h1><p>Location: Portland, OR</p><article>"
        + "<p>You will write Python for pipelines that never stop, with people who care about them.</p>" * 4
        + "</article><h3>Requirements</h3><ul><li>Python</li></ul></body>"
    )
    found = postings.listing("https://acme.example/jobs/1", html_page(html), None, TODAY)
    assert (found.title, found.company, found.location) == ("Data Engineer", "Acme", "Portland, OR")
    assert "pipelines that never stop" in (found.description or "")
    assert found.requirements == ("Python",)


def test_what_a_board_said_counts_before_the_page() -> None:
    said = Listing(url="https://acme.example/jobs/1", title="Data Engineer", company="Acme", location="Seattle")
    html = "<h1>Another title</h1><p>Location: Berlin</p><p>" + "Words. " * 50 + "</p>"
    found = postings.listing(said.url, html_page(html), said, TODAY)
    assert (found.title, found.location) == ("Data Engineer", "Seattle")
    assert found.description


def test_a_page_about_nothing_is_no_listing() -> None:
    with pytest.raises(Drifted):
        postings.listing("https://acme.example/", html_page("<p>Nothing</p>"), None, TODAY)


@pytest.mark.parametrize(
    ("careers", "found"),
    [
        (
            '<a href="https://boards.greenhouse.io/acme">x</a><a href="https://jobs.lever.co/acme">y</a>',
            ["greenhouse", "lever"],
        ),
        (
            '<a href="https://jobs.lever.co/acme">y</a><a href="https://boards.greenhouse.io/acme">x</a>'
            '<a href="/open-positions">z</a><a href="/jobs">z</a>',
            ["greenhouse", "lever", "generic"],
        ),
        ('<a href="https://jobs.lever.co/acme">y</a><a href="/careers">z</a>', ["lever"]),
        ("<p>Write to us</p>", ["generic"]),
    ],
)
def test_all_boards_count_the_surest_first(careers: str, found: list[str]) -> None:
    page = page_of(f"<h1>Careers</h1>{careers}", "/careers")
    assert [board.kind for board in analysing.boards([page])] == found


def test_a_company_without_careers_has_no_board() -> None:
    assert analysing.boards([page_of("<h1>Hello</h1>", "/")]) == ()


@pytest.mark.parametrize(
    ("html", "path", "is_office"),
    [
        ("<p>We are headquartered in Portland, Oregon.</p>", "/about", True),
        ("<p>Our offices: Berlin, Portland and Lima.</p>", "/", True),
        ("<p>Visit us: 12 Main Street, Portland, OR 97201</p>", "/", True),
        ("<h2>Where to find people</h2><ul><li>Berlin</li><li>Portland, OR</li></ul>", "/about", True),
        ("<p>Senior engineer, for our team in Portland</p>", "/careers", True),
        ("<p>Among those who use our gauges is a brewery from Portland that likes steam.</p>", "/about", False),
        ("<p>Our founder gave a talk at a conference in Portland last year, and loved it.</p>", "/", False),
        ("<p>It is made of Portland cement, the best that there is for walls.</p>", "/about", False),
    ],
)
def test_an_office_is_more_than_a_mention_of_its_place(html: str, path: str, is_office: bool) -> None:
    page = page_of(html, path)
    profile = parsed("[skills]\npython = 5\n[places]\noffice = 'Portland'")
    assert analysing.analyse(extracting.facts([page]), [page], profile, Numbers()).has_office is is_office


def test_facts_can_be_stored() -> None:
    facts = extracting.facts([page_of("<h1>About</h1><p>Acme makes anvils of iron.</p>")])
    assert msgspec.json.decode(msgspec.json.encode(facts), type=extracting.Facts) == facts
