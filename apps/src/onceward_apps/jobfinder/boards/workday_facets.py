"""How to read a Workday board in parts, by the values of one facet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onceward_apps.jobfinder.peeking import list_at, number_at, text_at

_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class Part:
    """The listings with one value of a facet, and how many there are."""

    parameter: str
    value: str
    count: int


def parts_of(facets: Any, lid: int) -> list[Part]:
    """The parts by the facet that leaves the fewest listings out of reach; none if none counts more than the lid."""
    groups: dict[str, dict[str, Part]] = {}
    _collect(facets, None, groups, 0)
    best: list[Part] = []
    for group in groups.values():
        parts = list(group.values())
        if sum(part.count for part in parts) > lid and _in_reach(parts, lid) > _in_reach(best, lid):
            best = parts
    return best


def _in_reach(parts: list[Part], lid: int) -> int:
    return sum(min(part.count, lid) for part in parts)


def _collect(values: Any, parameter: str | None, groups: dict[str, dict[str, Part]], depth: int) -> None:
    """Gather the values of every facet; a facet may hold facets instead of values, as groups of places do."""
    if depth > _DEEPEST:
        return
    for value in list_at(values):
        own = text_at(value, "facetParameter")
        if own:
            _collect(value.get("values"), own, groups, depth + 1)
            continue
        name, count = text_at(value, "id"), number_at(value, "count")
        if parameter and name and count:
            groups.setdefault(parameter, {})[name] = Part(parameter, name, count)
