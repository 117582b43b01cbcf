"""Boards, on real answers."""

from __future__ import annotations

import re
from datetime import date

import pytest

from tests.apps.jobfinder.reading_pages import completed, read_one
from tests.apps.jobfinder.shared_data import shared_file

REAL = [
    # kind, file, what each item has in the raw file, how often, listings
    ("greenhouse", "careerkit/greenhouse.json", rb'"absolute_url"', 2, 2),
    ("greenhouse", "candidatezero/greenhouse_list.json", rb'"absolute_url"', 3, 3),
    ("lever", "careerkit/lever.json", rb'"hostedUrl"', 2, 2),
    ("lever", "candidatezero/lever_postings.json", rb'"hostedUrl"', 4, 4),
    ("workday", "careerkit/workday.json", rb'"externalPath"', 2, 2),
    ("workday", "candidatezero/workday_jobs.json", rb'"externalPath"', 4, 4),
    ("smartrecruiters", "careerkit/smartrecruiters.json", rb'"refNumber"', 1, 1),
    ("smartrecruiters", "candidatezero/smartrecruiters_postings.json", rb'"refNumber"', 3, 3),
    ("ashby", "careerkit/ashby.json", rb'"jobUrl"', 2, 2),
    ("ashby", "candidatezero/ashby_board.json", rb'"jobUrl"', 5, 4),  # one is not listed
    ("workable", "careerkit/workable.json", rb'"shortcode"', 2, 1),  # one job in two places
    ("workable", "candidatezero/workable_account.json", rb'"shortcode"', 4, 4),
    ("jobvite", "careerkit/jobvite.html", rb"/job/", 2, 2),
    ("feed", "careerkit/neogov.xml", rb"<item>", 2, 2),
    ("feed", "boards/wwr_rss_sample.xml", rb"<item>", 3, 3),
    ("feed", "boards/cryptojobs_rss_sample.xml", rb"<item>", 3, 3),
    ("feed", "careerkit/teamtailor.json", rb'"_jobposting"', 2, 2),
]
WITHOUT_DATE = {"careerkit/jobvite.html"}
WITHOUT_DESCRIPTION = {"candidatezero/greenhouse_list.json", "candidatezero/workday_jobs.json",
                       "careerkit/workday.json", "careerkit/smartrecruiters.json",
                       "candidatezero/smartrecruiters_postings.json",
                       "careerkit/workable.json", "careerkit/jobvite.html", "careerkit/teamtailor.json"}  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "mark", "items", "listings"), REAL, ids=[case[1] for case in REAL])
def test_a_real_answer_gives_all_its_listings(kind: str, name: str, mark: bytes, items: int, listings: int) -> None:
    body = shared_file(f"ats/{name}").read_bytes()
    assert len(re.findall(mark, body)) == items
    step = read_one(kind, body)
    assert len(step.listings) == listings
    for listing in step.listings:
        assert listing.title == listing.title.strip() != ""
        assert listing.url.startswith("https://")
        assert listing.location
        assert (listing.posted is not None) is (name not in WITHOUT_DATE)
        assert (listing.description is not None) is (name not in WITHOUT_DESCRIPTION)
        assert not re.search(r"</?\w+[^>]*>|&(lt|gt|amp|nbsp|quot|#\d+);", listing.description or "")
    if name in WITHOUT_DESCRIPTION - {"careerkit/workable.json", "careerkit/teamtailor.json"}:
        assert [detail.about for detail in step.details] == [listing.external_id for listing in step.listings]
    else:
        assert step.details == ()


def test_greenhouse_escapes_twice_and_is_read_once() -> None:
    body = shared_file("ats/careerkit/greenhouse.json").read_bytes()
    assert b"&lt;div" in body
    assert b"&amp;nbsp;" in body
    step = read_one("greenhouse", body)
    first = step.listings[0]
    assert (first.title, first.location, first.company) == (
        "Customer Data Scientist - Experimentation", "London, UK", "Amplitude",
    )  # fmt: skip
    assert (first.posted, first.department) == (date(2026, 7, 16), "Solutions Consulting")
    assert (first.external_id, step.so_far.total_said) == ("8636903002", 37)
    assert first.description is not None
    assert first.description.startswith("Amplitude is the leading AI analytics platform, helping over")
    assert first.requirements


def test_a_description_of_greenhouse_may_come_by_itself() -> None:
    step = read_one("greenhouse", shared_file("ats/candidatezero/greenhouse_list.json").read_bytes())
    assert step.details[0].url.endswith("/v1/boards/acme/jobs/4679941006?pay_transparency=true")
    detail = shared_file("ats/candidatezero/greenhouse_detail.json").read_bytes()
    whole = completed("greenhouse", step.listings[0], step.details[0], detail)
    assert whole.description is not None
    assert "Education & learning stipend." in whole.description
    assert (whole.department, whole.external_id) == ("Customer Success", "4679941006")


def test_lever_keeps_its_lists_apart_and_they_are_read_too() -> None:
    first, second = read_one("lever", shared_file("ats/careerkit/lever.json").read_bytes()).listings
    assert (first.location, first.remote, first.posted) == ("Chicago, IL", True, date(2025, 11, 27))
    assert first.description is not None
    assert "How You'll Contribute\n- Guide full project life cycle" in first.description
    assert second.requirements[0].startswith("Minimum 3 years Salesforce certified")
    paid = read_one("lever", shared_file("ats/candidatezero/lever_postings.json").read_bytes()).listings[0]
    assert (paid.salary_min, paid.salary_max, paid.currency) == (140_000, 160_000, "USD")


def test_workday_says_days_and_places_in_words() -> None:
    first, second = read_one("workday", shared_file("ats/careerkit/workday.json").read_bytes()).listings
    assert first.location == "Virginia – Washington DC Metro – Remote and 2 more"
    assert (first.remote, first.posted, first.external_id) == (True, date(2026, 8, 19), "JR354232")
    assert first.url.startswith(
        "https://acme.wd5.myworkdayjobs.com/Careers/job/Virginia---Washington-DC-Metro---Remote/"
    )
    assert second.location == "Illinois – Chicago and 4 more"


def test_a_listing_of_workday_is_completed_by_its_own_answer() -> None:
    step = read_one("workday", shared_file("ats/candidatezero/workday_jobs.json").read_bytes())
    assert step.so_far.total_said == 347
    assert step.details[1].url == (
        "https://acme.wd5.myworkdayjobs.com/wday/cxs/acme/Careers/job/USAVAReston/"
        "Sr-Site-Reliability-Engineer--US-Federal-_JR-0105486"
    )
    detail = shared_file("ats/candidatezero/workday_detail.json").read_bytes()
    whole = completed("workday", step.listings[1], step.details[1], detail)
    assert (whole.company, whole.posted, whole.remote) == ("Workday Government, LLC", date(2026, 7, 25), False)
    assert whole.description is not None
    assert whole.description.startswith("Your work days are brighter here.\nWe’re obsessed")


def test_a_listing_of_smartrecruiters_is_completed_by_its_own_answer() -> None:
    step = read_one("smartrecruiters", shared_file("ats/candidatezero/smartrecruiters_postings.json").read_bytes())
    assert step.so_far.total_said == 5
    assert step.so_far.company_name == "HireVue Inc"
    assert step.listings[1].location == "Warsaw, Poland"
    detail = shared_file("ats/candidatezero/smartrecruiters_detail.json").read_bytes()
    whole = completed("smartrecruiters", step.listings[0], step.details[0], detail)
    assert whole.url == "https://jobs.smartrecruiters.com/HireVue/744000138728139-data-science-intern-fully-remote-us"
    assert (whole.remote, whole.posted) == (True, date(2026, 7, 20))
    assert whole.requirements[0].startswith("Bachelor’s degree required")


def test_ashby_shows_what_is_listed_with_its_pay() -> None:
    listings = read_one("ashby", shared_file("ats/candidatezero/ashby_board.json").read_bytes()).listings
    assert "GTM Engineer (Draft, Unlisted)" not in [listing.title for listing in listings]
    assert (listings[0].salary_min, listings[0].salary_max, listings[0].currency) == (130_000, 180_000, "USD")
    assert listings[1].salary_min == 62_400  # by the hour
    assert listings[2].location == "San Francisco; New York City; Seattle"


def test_a_job_of_workable_in_two_places_is_one_listing() -> None:
    [listing] = read_one("workable", shared_file("ats/careerkit/workable.json").read_bytes()).listings
    assert listing.location is not None
    assert listing.location.startswith("Spain; ")
    assert (listing.remote, listing.company) == (True, "Zaelab")


def test_feeds_of_jobs_tell_more_than_feeds() -> None:
    neogov = read_one("feed", shared_file("ats/careerkit/neogov.xml").read_bytes()).listings
    assert [listing.location for listing in neogov] == ["Atlanta, Georgia", "Remote"]
    assert [listing.salary_min for listing in neogov] == [135_000, 65 * 2_080]
    assert "Five years of enterprise systems leadership." in (neogov[0].description or "")
    remote = read_one("feed", shared_file("ats/boards/wwr_rss_sample.xml").read_bytes()).listings
    assert [(listing.company, listing.remote) for listing in remote] == [
        ("Contra", True), ("Animalz", True), ("EventMobi", True),
    ]  # fmt: skip
    assert remote[1].title == "Associate Head of Content, SEO"
    crypto = read_one("feed", shared_file("ats/boards/cryptojobs_rss_sample.xml").read_bytes()).listings
    assert [listing.company for listing in crypto] == ["GALINA world", "Niubi Bank", "Token town"]
    teamtailor = read_one("feed", shared_file("ats/careerkit/teamtailor.json").read_bytes()).listings
    assert [listing.location for listing in teamtailor] == [
        "Madrid, Europe, ES", "Stockholm, Sweden, SE; København, Europe, DK",
    ]  # fmt: skip
