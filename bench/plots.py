"""The plots of a run: rates beside the floor, latencies, what is compared with itself, a held snapshot over time."""

import math
from collections.abc import Iterator

from bench.drawing import Sheet
from bench.plan import SIDES, STORES, Store
from bench.report import STORE_NAMES
from bench.samples import Results
from bench.targets import MUST

WIDTH = 760
LABELS = 210
RIGHT = 150
COLOURS: dict[Store, str] = {"sqlite": "engine", "postgres": "second"}

RATES = {
    "drain-1": "drain, 1 process",
    "drain-2": "drain, 2 processes",
    "drain-4": "drain, 4 processes",
    "workflows": "5-stage workflows",
    "enqueue-bulk": "enqueue, 1,000 a call",
    "enqueue-one": "enqueue, one by one",
}
LOADS = {"latency": "idle worker", "half": "half load", "high": "load of 70 %"}
SELVES = {
    "governed-share": "governed / plain tasks",
    "spawned-share": "spawned / plain tasks",
    "blocking-share": "def / plain tasks",
    "backlog-share": "many pending / 10,000",
    "finished-share": "many finished rows / few",
    "snapshot-kept": "rate under a held snapshot / before",
    "reader-share": "beside a slow reader / alone",
}


def plots(results: Results) -> Iterator[tuple[str, Sheet]]:
    """Every plot for which there are figures, with its name."""
    for name, sheet in (
        ("rates", rates(results)),
        ("latency", latencies(results)),
        ("itself", selves(results)),
        ("snapshot", snapshot(results)),
    ):
        if sheet is not None:
            yield name, sheet


def rates(results: Results) -> Sheet | None:
    """What was run or enqueued in a second, beside the floor."""
    found = {store: [name for name in RATES if results.spread(store, "engine", name)] for store in STORES}
    stores = [store for store in STORES if found[store]]
    if not stores:
        return None
    sheet = Sheet("Tasks a second, beside the floor", WIDTH, 34 + sum(44 + 34 * len(found[one]) for one in stores))
    _legend(sheet)
    top = 34.0
    for store in stores:
        sheet.text(0, top + 20, STORE_NAMES[store], "head")
        tops = [
            spread.high
            for name in found[store]
            for side in SIDES
            if (spread := results.spread(store, side, name)) is not None
        ]
        scale = (WIDTH - LABELS - RIGHT) / max(tops)
        for row, name in enumerate(found[store]):
            _rate(sheet, results, store, name, top + 34 + 34 * row, scale)
        top += 44 + 34 * len(found[store])
    return sheet


def _rate(sheet: Sheet, results: Results, store: Store, name: str, y: float, scale: float) -> None:
    engine, floor = results.spread(store, "engine", name), results.spread(store, "floor", name)
    assert engine is not None
    sheet.text(LABELS - 12, y + 16, RATES[name], anchor="end")
    if floor is not None:
        sheet.bar(LABELS, y, floor.median * scale, 22, "floor")
    sheet.bar(LABELS, y + 5, engine.median * scale, 12, "engine")
    sheet.line(LABELS + engine.low * scale, y + 11, LABELS + engine.high * scale, y + 11, "range")
    longest = max(engine.high, floor.median if floor else 0) * scale
    share = results.ratio(store, name)
    sheet.text(
        LABELS + longest + 8, y + 16, f"{engine.median:,.0f}" + (f" · {share.median:.2f} ×" if share else ""), "soft"
    )
    bound = MUST.get(name, {}).get(store)
    if bound is not None and bound.at_least is not None:
        least = bound.at_least * (floor.median if bound.of == "floor" and floor else 1)
        sheet.line(LABELS + least * scale, y - 3, LABELS + least * scale, y + 25, "must")


def _legend(sheet: Sheet) -> None:
    sheet.bar(LABELS, 5, 14, 14, "floor")
    sheet.text(LABELS + 20, 17, "floor", "soft")
    sheet.bar(LABELS + 70, 7, 14, 10, "engine")
    sheet.text(LABELS + 90, 17, "Onceward, with its range over the rounds", "soft")
    sheet.line(LABELS + 372, 4, LABELS + 372, 20, "must")
    sheet.text(LABELS + 380, 17, "must reach", "soft")


def latencies(results: Results) -> Sheet | None:
    """From enqueue to start: p50, p95 and p99 on a line, in steps of ten."""
    rows = [(store, load) for store in STORES for load in LOADS if results.spread(store, "engine", f"{load}-p50")]
    if not rows:
        return None
    stores = list(dict.fromkeys(store for store, _ in rows))
    sheet = Sheet("From enqueue to start", WIDTH, 62 + 40 * len(stores) + 42 * len(rows))
    every = [
        sample.value
        for sample in results.samples
        if sample.measure.split("-")[0] in LOADS and sample.measure.split("-")[-1] in ("p50", "p95", "p99")
    ]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    per_step = (WIDTH - LABELS - 30) / max(1, high - low)

    def x_of(value: float) -> float:
        return LABELS + (math.log10(value) - low) * per_step

    sheet.dot(LABELS + 7, 12, 5, "floor")
    sheet.text(LABELS + 20, 17, "floor", "soft")
    sheet.dot(LABELS + 77, 12, 5, "engine")
    sheet.text(LABELS + 90, 17, "Onceward: p50, p95 and p99, from left to right", "soft")
    bottom = sheet.height - 24
    for step in range(low, high + 1):
        sheet.line(x_of(10.0**step), 30, x_of(10.0**step), bottom, "grid")
        sheet.text(x_of(10.0**step), bottom + 16, f"{10.0**step:g} ms", "soft", "middle")
    y = 30.0
    for store in stores:
        sheet.text(0, y + 22, STORE_NAMES[store], "head")
        y += 40
        for load in (load for of, load in rows if of == store):
            sheet.text(LABELS - 12, y + 14, LOADS[load], anchor="end")
            for offset, side in zip((2, 18), SIDES, strict=True):
                spreads = [results.spread(store, side, f"{load}-p{share}") for share in (50, 95, 99)]
                places = [x_of(spread.median) for spread in spreads if spread is not None]
                if places:
                    sheet.path([(place, y + offset) for place in places], side)
                for number, place in enumerate(places):
                    sheet.dot(place, y + offset, 5.5 - number, side)
            y += 42
    return sheet


def selves(results: Results) -> Sheet | None:
    """The engine compared with itself: 1 is no difference."""
    found = [name for name in SELVES if any(results.spread(store, "engine", name) for store in STORES)]
    if not found:
        return None
    left = 260
    sheet = Sheet("Compared with itself: 1 is no difference", WIDTH, 62 + 40 * len(found))
    shares = [sample.value for sample in results.samples if sample.measure in found and sample.side == "engine"]
    scale = (WIDTH - left - 70) / max(1.2, *shares)
    for number, (store, kind) in enumerate(COLOURS.items()):
        sheet.bar(left + 110 * number, 5, 14, 12, kind)
        sheet.text(left + 20 + 110 * number, 16, STORE_NAMES[store], "soft")
    sheet.line(left + 240, 3, left + 240, 19, "must")
    sheet.text(left + 248, 16, "must reach", "soft")
    bottom = sheet.height - 24
    for share in (0.0, 0.5, 1.0):
        sheet.line(left + share * scale, 28, left + share * scale, bottom, "grid")
        sheet.text(left + share * scale, bottom + 16, f"{share:g}", "soft", "middle")
    for row, name in enumerate(found):
        y = 34.0 + 40 * row
        sheet.text(left - 12, y + 18, SELVES[name], anchor="end")
        spreads = [(kind, results.spread(store, "engine", name)) for store, kind in COLOURS.items()]
        present = [(kind, spread) for kind, spread in spreads if spread is not None]
        for number, (kind, spread) in enumerate(present):
            line = y + (2 + 15 * number if len(present) > 1 else 9)
            sheet.bar(left, line, spread.median * scale, 12, kind)
            sheet.line(left + spread.low * scale, line + 6, left + spread.high * scale, line + 6, "range")
            sheet.text(left + max(spread.median, spread.high) * scale + 8, line + 11, f"{spread.median:.2f}", "soft")
        for bound in {bound.at_least for bound in MUST.get(name, {}).values() if bound.at_least is not None}:
            sheet.line(left + bound * scale, y, left + bound * scale, y + 31, "must")
    return sheet


def snapshot(results: Results) -> Sheet | None:
    """Start latency second by second, before and while a snapshot is held."""
    series = {one.name: one.values for one in results.series if one.side == "engine"}
    if not all(series.get(name) for name in ("snapshot-p50", "snapshot-p99", "snapshot-held-at")):
        return None
    sheet = Sheet("Start latency under steady load while an old snapshot is held", WIDTH, 260)
    left, right, top, bottom = 60.0, WIDTH - 20.0, 40.0, 226.0
    seconds = len(series["snapshot-p99"])
    # A single outlier must not flatten the rest: what is beyond is cut off at the top.
    highest = 1.15 * sorted(series["snapshot-p99"])[min(seconds - 1, int(seconds * 0.98))]

    def at(second: float, value: float) -> tuple[float, float]:
        return left + second / seconds * (right - left), bottom - min(value, highest) / highest * (bottom - top)

    step = _round_step(highest)
    for part in range(int(highest / step) + 1):
        _, y = at(0, part * step)
        sheet.line(left, y, right, y, "grid")
        sheet.text(left - 8, y + 4, f"{part * step:g}", "soft", "end")
    sheet.text(left - 8, top - 14, "ms", "soft", "end")
    held = series["snapshot-held-at"][0]
    x, _ = at(held, 0)
    sheet.line(x, top - 8, x, bottom, "must")
    sheet.text(x + 8, top - 4, "from here on a snapshot is held", "must-ink")
    for name, kind in (("snapshot-p99", "second"), ("snapshot-p50", "engine")):
        sheet.path([at(second + 0.5, value) for second, value in enumerate(series[name])], kind)
    for number, (words, kind) in enumerate((("p50", "engine"), ("p99", "second"))):
        sheet.bar(right - 110 + 60 * number, 6, 14, 10, kind)
        sheet.text(right - 90 + 60 * number, 16, words, "soft")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, _ = at(seconds * share, 0)
        sheet.text(x, bottom + 20, f"{seconds * share:g} s", "soft", "middle")
    return sheet


def _round_step(highest: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that leaves three to six lines below the highest value."""
    power = 10.0 ** math.floor(math.log10(highest / 3))
    return max(step * power for step in (1, 2, 5) if step * power <= highest / 3)
