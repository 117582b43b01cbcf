"""Where the demo plays: a folder, a database, a profile, and an invented web that stands in for every host there is."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from onceward import Limits
from onceward_apps.jobfinder import profile as profiles
from onceward_apps.jobfinder import surroundings
from onceward_apps.jobfinder.finder import VARIABLE
from onceward_apps.jobfinder.world.running import Running, running
from onceward_apps.jobfinder.world.web import Size, Web

LIMITS = Limits(max_depth=6, max_tasks=2_000, max_children=150, deadline="1h")
"""What each company may come to, with all that is found through it."""
PER_SECOND, BURST, PLACES = 20, 10, 4
"""How often each host may be asked, how often at once, and by how many: far more than on the real web, to end soon."""
SIZE = Size()


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the demo needs."""

    folder: Path
    database: Path
    companies: Path
    """The file of companies that a person would hand over."""
    web: Web
    """What the invented web consists of."""
    server: Running

    @property
    def log(self) -> Path:
        """What the workers say."""
        return self.folder / "workers.log"


@contextmanager
def scene(size: Size = SIZE) -> Iterator[Scene]:
    """Build it. The folder with the database stays, for people who want to look around."""
    folder = Path(tempfile.mkdtemp(prefix="onceward-jobs-demo-"))
    profile = folder / "profile.toml"
    profile.write_text(profiles.template(), encoding="utf-8")
    web = Web(size, datetime.now(UTC).date())
    companies = folder / "companies.csv"
    with companies.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("name", "website"))
        rows.writerows((one.name, one.website) for one in web.companies)
    database = folder / "jobs.db"
    with running(size) as server, _environment({
        VARIABLE: str(database),
        surroundings.PROFILE: str(profile),
        surroundings.WEB: msgspec.json.encode(way_to(server)).decode(),
    }):  # fmt: skip
        yield Scene(folder, database, companies, web, server)


def way_to(server: Running, per_second: int = PER_SECOND, burst: int = BURST) -> surroundings.Web:
    """How workers reach an invented web: every host is on loopback, and nothing leaves this machine."""
    return surroundings.Web(
        rate=f"{per_second}/s",
        burst=burst,
        concurrency=PLACES,
        breaker_pause="2s",
        total_s=10.0,
        loopback=True,
        stand_ins=server.stand_ins,
    )


@contextmanager
def _environment(said: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in said}
    os.environ.update(said)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
