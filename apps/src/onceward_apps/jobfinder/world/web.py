"""All hosts of the invented web: from a host and a path to what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from onceward_apps.jobfinder.boards.board import BoardKind
from onceward_apps.jobfinder.world import companies, interfaces, paged, sites, troubles
from onceward_apps.jobfinder.world.companies import Company
from onceward_apps.jobfinder.world.http import NOT_FOUND, Answer, Ask
from onceward_apps.jobfinder.world.positions import Position, positions

Serves = Callable[[Ask, Company, Sequence[Position]], Answer]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a web is."""

    companies: int = 40
    listings: int = 600
    """Without what the companies that have something wrong with them show."""
    seed: int = 7
    has_troubles: bool = True


class Web:
    """The invented web: everything that it answers follows from its size, its seed and the day."""

    def __init__(self, size: Size, today: date) -> None:
        self.size = size
        self._today = today
        wrong = list(troubles.companies(size.companies - troubles.NUMBER, listings=12)) if size.has_troubles else []
        sound = companies.companies(size.seed, size.companies - len(wrong), size.listings)
        self.companies: tuple[Company, ...] = (*sound, *wrong)
        self._by_slug = {one.slug: one for one in self.companies}
        self._by_host = {one.host: one for one in self.companies}
        self._positions: dict[str, list[Position]] = {}
        self._troubles = troubles.Troubles({one.host: one for one in wrong}, self.positions)

    def positions(self, company: Company) -> list[Position]:
        """The open positions of a company."""
        if company.slug not in self._positions:
            self._positions[company.slug] = positions(company, self.size.seed, self._today)
        return self._positions[company.slug]

    def answer(self, ask: Ask) -> Answer:
        """What is answered."""
        wrong = self._troubles.answer(ask)
        if wrong is not None:
            return wrong
        if ask.path == "/robots.txt":
            return Answer(b"User-agent: *\nDisallow: /admin/\n", "text/plain")
        if ask.host in self._by_host:
            return self._site(ask, self._by_host[ask.host])
        if ask.host.endswith(".myworkdayjobs.com"):
            return self._workday(ask)
        return self._board(ask)

    def _site(self, ask: Ask, company: Company) -> Answer:
        match ask.parts:
            case ():
                return sites.home(company)
            case ("about",):
                return sites.about(company)
            case ("careers",):
                return sites.careers(company, self.positions(company))
            case ("jobs.rss",) if company.kind is BoardKind.FEED:
                return sites.feed(company, self.positions(company))
            case ("careers", job):
                return self._job(company, job.partition("-")[0])
        return NOT_FOUND

    def _workday(self, ask: Ask) -> Answer:
        company = self._by_slug.get(ask.host.partition(".")[0])
        if company is None or company.kind is not BoardKind.WORKDAY:
            return NOT_FOUND
        match ask.parts:
            case ("wday", "cxs", *_):
                return paged.workday(ask, company, self.positions(company))
            case (_, "job", _, name):
                return self._job(company, name.rpartition("-")[2])
        return sites.page(company.name, "<p>This page needs scripts.</p>")

    def _board(self, ask: Ask) -> Answer:
        known = _BOARDS.get(ask.host)
        if known is None:
            return NOT_FOUND
        kind, serves = known
        found = (self._by_slug.get(part) for part in ask.parts)
        company = next((one for one in found if one is not None and one.kind is kind), None)
        if company is None:
            return self._short(ask.parts[1]) if ask.parts[:1] == ("j",) and len(ask.parts) > 1 else NOT_FOUND
        if serves is not None and ask.parts[0] in ("api", "v0", "v1", "posting-api"):
            return serves(ask, company, self.positions(company))
        match ask.parts[1:]:
            case () | ("jobs",) if kind is BoardKind.JOBVITE:
                return sites.jobvite(company, self.positions(company))
            case ():
                return sites.page(company.name, "<p>This page needs scripts.</p>")
            case (*_, job):
                return self._job(company, job)
        return NOT_FOUND

    def _job(self, company: Company, name: str) -> Answer:
        """The page of a position, by whichever of its ids the board has."""
        short = name.partition("-")[0]
        for one in self.positions(company):
            if name in (one.uuid, one.code) or str(one.number) in (name, short):
                return sites.job(company, one)
        return NOT_FOUND

    def _short(self, code: str) -> Answer:
        for company in self.companies:
            if company.kind is BoardKind.WORKABLE:
                for one in self.positions(company):
                    if one.code == code:
                        return sites.job(company, one)
        return NOT_FOUND


_BOARDS: dict[str, tuple[BoardKind, Serves | None]] = {
    "boards-api.greenhouse.io": (BoardKind.GREENHOUSE, interfaces.greenhouse),
    "boards.greenhouse.io": (BoardKind.GREENHOUSE, None),
    "job-boards.greenhouse.io": (BoardKind.GREENHOUSE, None),
    "api.lever.co": (BoardKind.LEVER, interfaces.lever),
    "jobs.lever.co": (BoardKind.LEVER, None),
    "api.smartrecruiters.com": (BoardKind.SMARTRECRUITERS, interfaces.smartrecruiters),
    "jobs.smartrecruiters.com": (BoardKind.SMARTRECRUITERS, None),
    "api.ashbyhq.com": (BoardKind.ASHBY, interfaces.ashby),
    "jobs.ashbyhq.com": (BoardKind.ASHBY, None),
    "apply.workable.com": (BoardKind.WORKABLE, paged.workable),
    "jobs.jobvite.com": (BoardKind.JOBVITE, None),
}
"""Of each host: its kind, and its interface if it has one."""
