"""Models as an option: asked for what is empty and for matches alone, once for the same question, within a budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward import Status
from onceward.testing import Harness
from onceward_apps.jobfinder import approving, company_rows, listing_rows, models, source_rows, surroundings
from onceward_apps.jobfinder.extracting import Facts
from onceward_apps.jobfinder.finder import jobfinder
from onceward_apps.jobfinder.payloads import Company
from onceward_apps.jobfinder.sketching import sketch
from onceward_apps.jobfinder.source_rows import SourceRow
from tests.apps.jobfinder.conftest import PROFILE
from tests.apps.jobfinder.loopback import Answer, World, job

MODELS = '[models]\nextraction = "cheap"\nscoring = "dear"\n'
STACK = "Python, PostgreSQL, Docker, Go and Redis in our Portland office"


@pytest.fixture
def says(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A provider on loopback, and how its next answers are set."""
    content = ["{}"]

    def complete() -> Answer:
        message = {"role": "assistant", "content": content[0]}
        body: dict[str, Any] = {
            "id": "c-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }  # fmt: skip
        return Answer(json.dumps(body), content_type="application/json")

    world.page("127.0.0.1", "/v1/chat/completions", complete)
    monkeypatch.setenv("OPENAI_BASE_URL", world.url("127.0.0.1", "/v1"))
    monkeypatch.setenv("OPENAI_API_KEY", "made-for-tests")
    models._client.cache_clear()

    def say(text: str) -> None:
        content[0] = text

    yield say
    models._client.cache_clear()


@pytest.fixture
def finder(world: World, profile: Callable[[str], None], url: str, says: Callable[[str], None]) -> Iterator[Harness]:
    profile(PROFILE + MODELS)
    made = Harness(jobfinder(url, surroundings.profile()), url=url)
    yield made
    assert made.app.verify().ok
    made.app.close()


def asked(world: World) -> int:
    return world.asked["127.0.0.1/v1/chat/completions"]


def test_a_cheap_model_fills_in_what_is_empty_and_nothing_else(
    finder: Harness, world: World, says: Callable[[str], None]
) -> None:
    says('Here it is: {"industry": "greenhouses", "founded": "1999", "about": "nonsense", "name": 7}')
    finder.enqueue(Company(world.company("Acme")))
    finder.drain()
    row = finder.app.read(company_rows.company, f"acme.example:{world.port}")
    assert row is not None
    assert (row.industry, row.founded) == ("greenhouses", "1999")
    assert "tomatoes" in (row.about or "")
    assert asked(world) == 1
    [question] = [task for task in finder.app.tasks.list() if task.kind == "model_question"]
    assert (question.depth, question.payload.model) == (1, "cheap")


def test_an_expensive_model_scores_what_would_be_a_match_and_nothing_else(
    finder: Harness, world: World, says: Callable[[str], None]
) -> None:
    says('{"score": 91, "reasons": ["it is about greenhouses"]}')
    board = world.greenhouse("acme", [job(1), job(2, "Junior Accountant", location={"name": "Berlin"})])
    finder.enqueue(Company(world.company("Acme", board=board, stack=STACK)))
    finder.drain()
    [match] = finder.app.read(listing_rows.matches, False)
    assert (match.score, match.model, match.priority) == (91, "dear", "high")
    assert "it is about greenhouses" in match.why_json
    assert "it names python" in match.why_json
    scored = [
        task for task in finder.app.tasks.list() if task.kind == "model_question" and task.payload.model == "dear"
    ]
    assert len(scored) == 1


def test_a_model_may_find_that_a_listing_does_not_fit(
    finder: Harness, world: World, says: Callable[[str], None]
) -> None:
    says('{"score": 12, "reasons": ["the work is at night"]}')
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]), stack=STACK)))
    finder.drain()
    assert finder.app.read(listing_rows.matches, False) == []
    [row] = finder.app.read(listing_rows.listings)
    assert (row.status, row.reason) == ("skipped", "it scores 12, and 65 are needed")
    assert "the work is at night" in (row.why_json or "")


@pytest.mark.parametrize("nonsense", ["I'd rather not", '{"score": 1000}', '{"score": "high"}', "[]"])
def test_without_a_proper_answer_the_rules_decide(
    finder: Harness, world: World, says: Callable[[str], None], nonsense: str
) -> None:
    says(nonsense)
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]), stack=STACK)))
    finder.drain()
    [match] = finder.app.read(listing_rows.matches, False)
    assert match.score == 100


def test_a_provider_that_is_away_holds_nothing_up_for_good(finder: Harness, world: World) -> None:
    world.page("127.0.0.1", "/v1/chat/completions", "no", status=401)
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]), stack=STACK)))
    finder.drain()
    assert len(finder.app.read(listing_rows.matches, False)) == 1
    questions = [task for task in finder.app.tasks.list() if task.kind == "model_question"]
    assert {task.status for task in questions} == {Status.FAILED}


def test_questions_wait_when_the_budget_is_spent(finder: Harness, world: World, says: Callable[[str], None]) -> None:
    says('{"score": 91, "reasons": []}')
    finder.app.budgets.set_limit("jobs-calls", 1)
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]), stack=STACK)))
    finder.drain(wait_for_due=False)
    assert asked(world) == 1
    waiting = [
        task for task in finder.app.tasks.list() if task.kind == "model_question" and not task.status.is_terminal
    ]
    assert len(waiting) == 1
    finder.app.budgets.set_limit("jobs-calls", 10)
    finder.drain()
    assert asked(world) == 2
    assert len(finder.app.read(listing_rows.matches, False)) == 1


# How a page is read

ROWS = "".join(
    f'<div class="row"><b class="t">{title}</b><i class="w">Portland, OR</i><a href="/p/{number}">More</a></div>'
    for number, title in enumerate(("Tomato whisperer", "Keeper of Redis", "Gardener of Python"))
)
GOOD: dict[str, Any] = {
    "items": "div.row",
    "fields": {
        "title": {"selector": ".t"},
        "url": {"selector": "a", "attribute": "href"},
        "location": {"selector": ".w"},
    },
}


def approved(finder: Harness, world: World, board: str = f"<main>{ROWS}</main>") -> SourceRow:
    """A page of jobs after a person has agreed to it."""
    finder.enqueue(Company(world.company("Acme", board=board)))
    finder.drain()
    approving.approve(finder.app, approving.waiting(finder.app))
    finder.drain()
    [row] = finder.app.read(source_rows.sources)
    return row


def scraping_questions(finder: Harness) -> list[Any]:
    return [
        task for task in finder.app.tasks.list() if task.kind == "model_question" and task.payload.purpose == "scraping"
    ]


def test_a_model_says_how_a_page_is_read_where_heuristics_find_nothing(
    finder: Harness, world: World, says: Callable[[str], None]
) -> None:
    says(f"Like this: {json.dumps({**GOOD, 'company': 'Evil'})}")
    row = approved(finder, world)
    assert (row.status, row.confidence, row.listings) == ("active", "low", 3)
    assert "div.row" in (row.config_json or "")
    assert "Evil" not in (row.config_json or "")
    [question] = scraping_questions(finder)
    assert question.payload.model == "cheap"
    assert '<b class="t">Tomato whisperer</b>' in question.payload.text
    urls = {row.url for row in finder.app.read(listing_rows.listings)}
    assert urls == {world.url("acme.example", f"/p/{number}") for number in range(3)}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("I'd rather not", "not instructions for a scraper"),
        ("{}", "not instructions for a scraper"),
        (json.dumps({**GOOD, "items": "div.job"}), "'div.job' finds nothing"),
        (json.dumps({**GOOD, "items": "div[["}), "is no CSS selector"),
        (json.dumps({**GOOD, "run": "rm"}), "not instructions for a scraper"),
        (json.dumps({**GOOD, "fields": {"title": {"selector": ".t"}}}), "there is no field 'url'"),
        (
            json.dumps({**GOOD, "fields": {**GOOD["fields"], "title": {"selector": ".t", "pattern": "(a+)+$"}}}),
            "repeats too much",
        ),
        (
            json.dumps({**GOOD, "fields": {**GOOD["fields"], "title": {"selector": "a"}}}),
            "most titles are the same",
        ),
    ],
)
def test_instructions_of_a_model_that_do_not_hold_are_not_used(
    finder: Harness, world: World, says: Callable[[str], None], answer: str, why: str
) -> None:
    says(answer)
    row = approved(finder, world)
    assert (row.status, row.config_json) == ("unknown", None)
    assert why in (row.reason or "")
    assert finder.app.read(listing_rows.listings) == []


def test_no_model_is_asked_how_a_page_is_read_where_heuristics_know(
    finder: Harness, world: World, says: Callable[[str], None]
) -> None:
    says(json.dumps(GOOD))
    items = "".join(f'<li class="job"><a href="/jobs/{number}">Engineer {number}</a></li>' for number in range(3))
    row = approved(finder, world, f"<ul>{items}</ul>")
    assert row.status == "active"
    assert "li.job" in (row.config_json or "")
    assert scraping_questions(finder) == []


def test_without_a_model_a_page_that_is_hard_to_read_is_unknown(
    finder: Harness, world: World, profile: Callable[[str], None]
) -> None:
    profile(PROFILE)
    row = approved(finder, world)
    assert row.status == "unknown"
    assert "no list of jobs was found" in (row.reason or "")
    assert asked(world) == 0


def test_a_provider_that_is_away_leaves_a_page_unknown(finder: Harness, world: World) -> None:
    world.page("127.0.0.1", "/v1/chat/completions", "no", status=401)
    row = approved(finder, world)
    assert row.status == "unknown"
    assert "the model did not answer" in (row.reason or "")


def test_a_page_is_shown_without_what_no_selector_needs() -> None:
    html = (
        "<html><head><title>x</title></head><body><nav>Home</nav><!-- secret --><script>evil()</script><ul "
        'class="jobs" onclick="x()" style="a"><li data-x="1"><a href="/p/1">  A\n job </a></li></ul></body></html>'
    )
    shown = sketch("https://acme.example/", html, 1_000)
    assert shown == '<body><ul class="jobs"><li><a href="/p/1"> A job </a></li></ul></body>'
    assert len(sketch("https://acme.example/", "<p>word</p>" * 9_000, 500)) == 500


def test_what_a_model_says_is_cut_and_known_facts_stay() -> None:
    facts = Facts(name="Acme", about="known")
    found = models.completed(facts, json.dumps({"about": "other", "mission": " x " * 5_000, "size": ""}), "cheap")
    assert (found.about, found.size) == ("known", None)
    assert len(found.mission or "") == 2_000
    assert found.found_by == {"mission": "the model cheap"}
