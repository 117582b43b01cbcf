"""What there should be in the end, and what there is: by the tables, by the engine, and by the server's own log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onceward import App, Connection, Rule
from onceward_apps.jobfinder.demo.scene import BURST, LIMITS, PER_SECOND, PLACES, Scene
from onceward_apps.jobfinder.demo.story import Story
from onceward_apps.jobfinder.world import troubles
from onceward_apps.jobfinder.world.http import Entry
from onceward_apps.jobfinder.world.judging import ROBOTS, judge
from onceward_apps.jobfinder.world.web import Web
from onceward_apps.statements import row


@dataclass(frozen=True, slots=True)
class Line:
    """One promise: what there should be, and what there is."""

    what: str
    expected: str
    found: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kill has cost."""

    taken_back: int
    """Tasks that were running in the worker, and went on elsewhere."""
    within_ms: int
    """How long it took until the last of them was free for others."""
    asked_again: int
    """Pages that had been handed over, and had to be asked for once more."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The children that tasks asked for and did not get, by the rule that refused them."""

    rule: str
    count: int
    example: str


def exactly(what: str, expected: int, found: int) -> Line:
    """It must be this number."""
    return Line(what, f"{expected:,}", f"{found:,}", expected == found)


def at_most(what: str, most: int, found: int) -> Line:
    """It may be this number, or less."""
    return Line(what, f"≤ {most:,}", f"{found:,}", found <= most)


def cost(app: App, story: Story, log: Sequence[Entry]) -> Cost:
    """What the kill has cost."""
    count, last_ms = app.read(_taken_back)
    since_ms = last_ms - story.killed.at_ms if story.killed and last_ms is not None else 0
    return Cost(int(count), max(0, since_ms), asked_again(log))


def balance(
    app: App, scene: Scene, story: Story, refused: Sequence[Refused], paid: Cost, log: Sequence[Entry]
) -> list[Line]:
    """Every promise, with what came of it."""
    now = story.now
    wanted = listings_there(scene.web)
    by_rule = {one.rule: one.count for one in refused}
    hardest = judge(log, per_second=PER_SECOND, burst=BURST, on_the_way=PLACES)
    unreachable = 2
    return [
        exactly("companies known", len(scene.web.companies) - unreachable, app.read(_companies, "active")),
        exactly("companies out of reach, and why is kept", unreachable, app.read(_companies, "unknown")),
        exactly("listings found", wanted, sum(now.listings.values())),
        exactly("listings decided", wanted, now.decided),
        exactly("listings or matches there twice", 0, app.read(_twice)),
        exactly("listings that robots.txt forbids, kept as unknown", _forbidden(scene.web), app.read(_robots)),
        exactly("links of the spam board refused by the cap", _too_many(), by_rule.get(Rule.LIMIT, 0)),
        exactly("ways back to where one came from, refused", 2, by_rule.get(Rule.CYCLE, 0)),
        exactly("boards disabled after five failures", 1, sum(one.status == "disabled" for one in now.sources)),
        Line("requests above the rate of a host", "0", f"{max(0.0, hardest.over):.3g}", hardest.over <= 0),
        exactly("workers killed", 1, int(story.killed is not None)),
        Line("tasks taken back from it", "some", f"{paid.taken_back:,}", paid.taken_back > 0),
        at_most("pages that had to be asked for again", paid.taken_back, paid.asked_again),
        exactly("tasks left over", 0, now.open),
    ]  # fmt: skip


def listings_there(web: Web) -> int:
    """How many listings there are to be found: of the spam board as many as one task may have children.

    The feed that leads back shows the site of the sister too, which is looked at like any other page.
    """
    special = {
        troubles.LOOP: 0, troubles.DEAD: 0, troubles.FAILING: troubles.FIRST_PAGE,
        troubles.SPAM: LIMITS.max_children or 0, troubles.YARD: 1,
    }  # fmt: skip
    return sum(special.get(one.name, one.listings) for one in web.companies)


def _forbidden(web: Web) -> int:
    return sum(one.listings for one in web.companies if one.name == troubles.FORBIDDEN)


def _robots(connection: Connection) -> int:
    found = row(connection, "SELECT count(*) FROM jobs_listing WHERE status = 'unknown' AND reason LIKE 'robots%'")
    return 0 if found is None else int(found[0])


def _too_many() -> int:
    return troubles.SPAM_LINKS - (LIMITS.max_children or 0)


def asked_again(log: Iterable[Entry]) -> int:
    """How many answers were asked for that had been given; the broken board, which is read five times, apart."""
    asked = Counter(
        (entry.host, entry.what)
        for entry in log
        if entry.status == 200 and entry.what != ROBOTS and not entry.host.startswith("crumbling-arch.")
    )
    return sum(count - 1 for count in asked.values())


def refusals(app: App) -> list[Refused]:
    """All refused children, the rule that was met most first."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for summary in app.lineages.list(limit=10_000):
        if not summary.refusals:
            continue
        for branch in app.lineages.get(summary.id).walk():
            for one in branch.refusals:
                counts[one.rule] += 1
                examples.setdefault(one.rule, f"{branch.key}: {one.reason}")
            if branch.refusals_only_counted:
                # Beyond the first ones of a task only their number is kept, and they are of the kind of the last.
                counts[branch.refusals[-1].rule] += branch.refusals_only_counted
    return [Refused(str(rule), count, examples[rule]) for rule, count in counts.most_common()]


def _taken_back(connection: Connection) -> tuple[int, int | None]:
    """How many tasks were taken back from the dead, and when the last of them was."""
    found = row(connection, "SELECT count(*), max(at) FROM onceward_attempt WHERE event IN (9, 10)")
    assert found is not None
    return found[0], found[1]


def _companies(connection: Connection, status: str) -> int:
    found = row(connection, "SELECT count(*) FROM jobs_company WHERE status = ?", status)
    return 0 if found is None else int(found[0])


def _twice(connection: Connection) -> int:
    """Listings with the address of another, and matches that are the position of another source's."""
    found = row(
        connection,
        "SELECT (SELECT count(*) - count(DISTINCT url) FROM jobs_listing)"
        " + (SELECT count(*) FROM jobs_match m JOIN jobs_listing l ON l.listing = m.listing"
        " JOIN jobs_position p ON p.listing = m.listing"
        " JOIN jobs_position q ON q.twin = p.twin AND q.opening < p.opening"
        " JOIN jobs_match n ON n.listing = q.listing"
        " JOIN jobs_listing o ON o.listing = n.listing AND o.source <> l.source)",
    )
    return 0 if found is None else int(found[0])
