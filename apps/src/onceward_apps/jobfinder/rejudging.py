"""Listings that another profile has judged are judged anew, from what was read of them: nothing is fetched for that."""

from __future__ import annotations

import time

from onceward import App
from onceward_apps.jobfinder import listing_rows
from onceward_apps.jobfinder.payloads import Job
from onceward_apps.jobfinder.profile import Profile
from onceward_apps.transactions import Direct, transaction

AT_ONCE = 500
"""How many in a transaction."""


def rejudge(app: App, profile: Profile) -> int:
    """Have all listings judged anew that are still there and that another profile has judged; returns how many."""
    outdated = app.read(listing_rows.judged_by_others, profile.fingerprint)
    for start in range(0, len(outdated), AT_ONCE):
        with transaction(app) as connection:
            for name, url, title in outdated[start : start + AT_ONCE]:
                _judge_anew(app, connection, profile, name, Job(url, None, title))
    return len(outdated)


def _judge_anew(app: App, connection: Direct, profile: Profile, name: str, job: Job) -> None:
    listing_rows.judge_anew(connection, name)
    asked = app.enqueue(job, conn=connection.raw)
    if not asked:
        now = {"at": round(time.time() * 1_000), "judged_by": profile.fingerprint}
        listing_rows.decide(connection, name, "filtered", asked.reason, None, now)
