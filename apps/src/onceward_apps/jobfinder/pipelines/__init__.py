"""The pipelines of the job finder: companies lead to sources, sources to listings, listings to matches."""

from __future__ import annotations

from onceward_apps.jobfinder.pipelines.asking import questions
from onceward_apps.jobfinder.pipelines.company import companies
from onceward_apps.jobfinder.pipelines.discovery import discoveries
from onceward_apps.jobfinder.pipelines.fetching_page import fetches
from onceward_apps.jobfinder.pipelines.job import jobs
from onceward_apps.jobfinder.pipelines.reading import readings
from onceward_apps.jobfinder.pipelines.scrape import SCHEDULE, scrapes

PIPELINES = (companies, discoveries, readings, scrapes, jobs, fetches, questions)
SCHEDULES = (SCHEDULE,)

__all__ = ["PIPELINES", "SCHEDULES"]
