"""The rules of sites, kept for a day: what RFC 9309 allows at most."""

from __future__ import annotations

from collections import OrderedDict

from onceward_apps.jobfinder.robots import Robots

FRESH_S = 24 * 3_600.0
SITES_KEPT = 4_096


class RobotsCache:
    """The rules of the sites that were asked last; rules past their day serve while their site is out of reach."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, Robots]] = OrderedDict()

    def fresh(self, origin: str, now: float) -> Robots | None:
        """Rules that need not be asked for again."""
        known = self._kept.get(origin)
        return known[1] if known is not None and 0 <= now - known[0] < FRESH_S else None

    def old(self, origin: str) -> Robots | None:
        """Rules of any age."""
        known = self._kept.get(origin)
        return None if known is None else known[1]

    def keep(self, origin: str, rules: Robots, now: float) -> None:
        """Remember rules, and forget those that were kept longest ago if there are too many."""
        self._kept[origin] = (now, rules)
        self._kept.move_to_end(origin)
        while len(self._kept) > SITES_KEPT:
            self._kept.popitem(last=False)
