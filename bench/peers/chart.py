"""The rates as bars on a logarithmic axis, a panel for each measure."""

import math
from dataclasses import dataclass

from bench.drawing import Sheet
from bench.peers.catalogue import BACKENDS, System
from bench.peers.findings import MEASURES, Findings
from bench.samples import Spread

PANELS = ("drain-1", "drain-2", "workflows", "enqueue-bulk", "enqueue-one")
LEFT, LENGTH, RIGHT = 190, 440, 130
ROW, BAR, GAP, HEAD = 22, 14, 24, 44

Bars = list[tuple[System, Spread]]


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic axis from one power of ten to another."""

    low: int
    high: int

    def place(self, value: float) -> float:
        """How far from the start of the axis a value stands."""
        return (math.log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low) * LENGTH


def scale_of(values: list[float]) -> Scale:
    """Whole powers of ten around the values; the least of them still gets a bar."""
    low = math.ceil(math.log10(min(values))) - 1
    return Scale(low, max(low + 1, math.ceil(math.log10(max(values)))))


def bars_of(findings: Findings, measure: str) -> Bars:
    """The systems for which there is a rate."""
    found = ((system, findings.spread(system.name, measure)) for system in findings.systems)
    return [(system, spread) for system, spread in found if spread is not None and spread.median > 0]


def colour(system: System) -> str:
    """The class that gives a bar its colour."""
    if system.requirements is not None:
        return "second"
    return "floor" if system.label == "floor" else "engine"


def panel(sheet: Sheet, findings: Findings, measure: str, bars: Bars, top: float) -> None:
    """One measure: an axis, and a bar for each system."""
    scale = scale_of([spread.median for _, spread in bars])
    sheet.text(0, top + 15, f"{MEASURES[measure].label}, {MEASURES[measure].unit}", "head")
    for power in range(scale.low, scale.high + 1):
        x = LEFT + scale.place(10.0**power)
        sheet.line(x, top + HEAD - 4, x, top + HEAD + ROW * len(bars), "grid")
        sheet.text(x, top + HEAD - 9, f"{10**power:,}", "soft", "middle")
    for place, (system, spread) in enumerate(bars):
        y = top + HEAD + ROW * place + (ROW - BAR) / 2
        length = scale.place(spread.median)
        capped = " (capped)" if findings.capped(system.name, measure) else ""
        sheet.text(LEFT - 8, y + BAR - 3, f"{system.label} · {BACKENDS[system.backend]}", anchor="end")
        sheet.bar(LEFT, y, length, BAR, colour(system))
        sheet.text(LEFT + length + 6, y + BAR - 3, f"{spread.median:,.0f}{capped}", "soft")


def svg(findings: Findings) -> str:
    """The chart."""
    panels = {measure: bars for measure in PANELS if (bars := bars_of(findings, measure))}
    height = sum(HEAD + ROW * len(bars) + GAP for bars in panels.values())
    sheet = Sheet("Rates by system, on logarithmic axes", LEFT + LENGTH + RIGHT, height)
    top = 0
    for measure, bars in panels.items():
        panel(sheet, findings, measure, bars, top)
        top += HEAD + ROW * len(bars) + GAP
    return str(sheet)
