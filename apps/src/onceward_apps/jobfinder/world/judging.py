"""Whether hosts were asked more often than they may be, by the server's own log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from onceward_apps.jobfinder.world.http import Entry

ROBOTS = "GET /robots.txt"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The host that was asked hardest."""

    host: str
    asked: int
    over: float
    """How many requests came that the rate and the burst did not allow; below 0, how many were left."""


def judge(log: Iterable[Entry], *, per_second: float, burst: int, on_the_way: int = 0) -> Judgement:
    """The host that was asked hardest, by a bucket that holds `burst` and leaks at the rate.

    A request that was allowed may be held up before it arrives, and then come together with later ones; `on_the_way`
    is how many there can be of those at once, which is how many places the source has.
    What a site is asked about robots is asked once by each process and belongs to the first page: it does not count.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for entry in log:
        if entry.what != ROBOTS:
            times[entry.host].append(entry.at_s)
    judged = (
        Judgement(host=host, asked=len(asked), over=_highest(sorted(asked), per_second) - burst - on_the_way)
        for host, asked in sorted(times.items())
    )
    return max(judged, key=lambda one: one.over, default=Judgement(host="", asked=0, over=float(-burst - on_the_way)))


def _highest(times: list[float], per_second: float) -> float:
    """How full the bucket was at its fullest."""
    level = highest = 0.0
    last = times[0]
    for at_s in times:
        level = max(0.0, level - (at_s - last) * per_second) + 1.0
        last = at_s
        highest = max(highest, level)
    return highest
