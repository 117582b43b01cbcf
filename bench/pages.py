"""Where a run is written: table, plots and JSON in bench/results/, and the page of the documentation.

The page is made from the newest full run of `make bench`, and of `make bench-long` if there was one. A run of a part,
or of a smaller size, is kept beside them under a name of its own and changes nothing on the page.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measures import MEASURES, THEMES, of_theme
from bench.plan import SIDES, STORES, Plan, Store
from bench.plots import plots
from bench.report import STORE_NAMES, Grid, disk, markdown, sizes, table, write_json
from bench.samples import Results, read_results
from bench.targets import MUST, verdict

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "reference" / "performance.md"

PLOTS = {
    "rates": "What is run or enqueued in a second, beside the floor in the same minutes:",
    "latency": "From the enqueue call in one process to the start of the handler in another:",
    "itself": "What should make no difference, compared with the same without it:",
    "snapshot": "An old snapshot keeps PostgreSQL from cleaning up any dead row. Steady load, before and meanwhile:",
}
# What a reader of the page need not know of the machine.
UNSET = ("processor", "onceward")
# What a long run tells beyond the usual one.
ONLY_LONG = ("Size and time",)


def save(content: dict[str, Any], results_in: Path = RESULTS, page: Path = PAGE) -> list[Path]:
    """Write everything that a run gives; what was written."""
    results_in.mkdir(exist_ok=True)
    stem = stem_of(content)
    results, plan = read_results(content), Plan(**content["plan"])
    text = markdown(results, plan, content["machine"], content["date"])
    written = [results_in / f"{stem}.json", results_in / f"{stem}.md"]
    for name, sheet in plots(results):
        written.append(results_in / f"{stem}-{name}.svg")
        written[-1].write_text(str(sheet), encoding="utf-8")
        text += f"\n![{sheet.title}]({written[-1].name})\n"
    write_json(written[0], content)
    written[1].write_text(text, encoding="utf-8")
    if content["is_full"]:
        page.write_text(performance(results_in), encoding="utf-8")
        written.append(page)
    return written


def stem_of(content: dict[str, Any]) -> str:
    """The name of a run: its date, and what it was if it was not the usual one."""
    plan = content["plan"]["name"]
    kind = "" if plan == "bench" else f"-{plan}"
    return f"{content['date']}{kind}" + ("" if content["is_full"] or plan == "quick" else "-part")


def newest(results_in: Path, plan: str) -> dict[str, Any] | None:
    """The newest full run of a plan."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in results_in.glob("*.json")]
    full = [one for one in found if one.get("is_full") and one["plan"]["name"] == plan]
    return max(full, key=lambda one: str(one["date"]), default=None)


def performance(results_in: Path) -> str:
    """The page of the documentation."""
    usual, long = newest(results_in, "bench"), newest(results_in, "long")
    first = usual or long
    assert first is not None, "nothing was measured yet"
    lines = [*_opening(first), *_figures(first)]
    if usual is not None and long is not None:
        lines += _long(long)
    lines += _peers(results_in)
    return "\n".join([*lines, *_how_to()]) + "\n"


def _opening(content: dict[str, Any]) -> Iterator[str]:
    yield "# Performance"
    yield ""
    yield "<!-- Written by `make bench` from bench/results/. Changes made here by hand are lost. -->"
    yield ""
    yield (
        "Every figure was measured with everything on: full durability (`synchronous=FULL` on SQLite, `fsync` and "
        "`synchronous_commit` on PostgreSQL), fences, lineage, the log of attempts. Database, workers and those who "
        "enqueue share the cores of one machine. Tasks do nothing, so that what is left is what the engine costs."
    )
    yield ""
    yield (
        "Beside Onceward ran a **floor**: a queue written by hand for this comparison, with batched claims and commits "
        "and no other feature: no retries, no leases that expire, no log. It is about as fast as these databases let a "
        "Python process be. A speed holds for one machine on one day; the share of the floor carries further, because "
        "both met the same disk and the same minutes."
    )
    yield ""
    said = {"cores": "{} cores", "system": "{}", "file system": "{}"}
    facts = [
        said.get(name, name + " {}").format(fact) for name, fact in content["machine"].items() if name not in UNSET
    ]
    yield f"Measured on {content['date']}: {', '.join(facts)}."
    yield ""


def _figures(content: dict[str, Any]) -> Iterator[str]:
    results, plan = read_results(content), Plan(**content["plan"])
    yield "## What it must reach"
    yield ""
    yield from table(_musts(results))
    yield ""
    stem = stem_of(content)
    for name, sheet in plots(results):
        yield PLOTS[name]
        yield ""
        yield f"![{sheet.title}](../../bench/results/{stem}-{name}.svg)"
        yield ""
    yield "## Everything that was measured"
    yield ""
    yield (
        f"Medians of {plan.rounds} rounds, in which floor and engine take turns; what takes long was measured once. × "
        "is the share of the floor; where an arrow points down, less is better. "
        f"The ranges are in [the table of the run](../../bench/results/{stem}.md)."
    )
    yield ""
    for theme in THEMES:
        yield from _theme(results, theme)
    yield sizes(plan)[0].upper() + sizes(plan)[1:] + "."
    yield ""
    for remark in disk(results):
        yield remark[0].upper() + remark[1:] + "."
        yield ""
    tallies = [results.tally(store, side) for store in STORES for side in SIDES]
    yield (
        f"Every handler start was recorded: of {sum(tally.expected for tally in tallies):,} jobs "
        f"{sum(tally.once for tally in tallies):,} ran once, {sum(tally.twice for tally in tallies)} more than once, "
        f"{sum(tally.never for tally in tallies)} never."
    )
    yield ""


def _musts(results: Results) -> Grid:
    """One row for everything that must be reached."""
    rows = []
    for name, bounds in MUST.items():
        theme = next(theme for theme in THEMES if name in THEMES[theme])
        cells = []
        for store in STORES:
            found = verdict(results, store, name)
            if found is None or found.kept is None:
                cells.append("–")
                continue
            cells.append(f"{_median(results, store, name, of_floor=found.bound.of == 'floor')} {found.mark}")
        must = " and ".join(dict.fromkeys(str(bound) for bound in bounds.values()))
        rows.append((f"{theme}: {MEASURES[name].label}", MEASURES[name].unit, must, *cells))
    columns = ("", "unit", "must reach", *(STORE_NAMES[store] for store in STORES))
    return Grid("", columns, tuple(rows))


def _median(results: Results, store: Store, name: str, *, of_floor: bool = False) -> str:
    """The engine's median, or its share of the floor; a dash if there is none."""
    if of_floor:
        share = results.ratio(store, name)
        return f"{share.median:.2f}" if share else "–"
    spread = results.spread(store, "engine", name)
    return f"{spread.median:,.{MEASURES[name].decimals}f}" if spread else "–"


def _theme(results: Results, theme: str) -> Iterator[str]:
    rows = []
    for name, measure in of_theme(theme):
        if not any(results.by_round(store, "engine", name) for store in STORES):
            continue
        cells = []
        for store in STORES:
            found = verdict(results, store, name)
            mark = f" {found.mark}" if found is not None and found.kept is not None else ""
            share = "–" if measure.unit == "×" else _median(results, store, name, of_floor=True)
            cells += [_median(results, store, name) + mark, f"{share} ×" if share != "–" else ""]
        arrow = " ↓" if measure.lower_is_better else ""
        rows.append((measure.label + arrow, measure.unit, *cells))
    if rows:
        yield f"### {theme}"
        yield ""
        columns = ("", "unit", *(word for store in STORES for word in (STORE_NAMES[store], "of the floor")))
        yield from table(Grid("", columns, tuple(rows)))
        yield ""


def _long(content: dict[str, Any]) -> Iterator[str]:
    results, plan = read_results(content), Plan(**content["plan"])
    yield f"## With tables that were neglected: `make bench-long` of {content['date']}"
    yield ""
    yield sizes(plan)[0].upper() + sizes(plan)[1:] + f". [All of it](../../bench/results/{stem_of(content)}.md)."
    yield ""
    for theme in ONLY_LONG:
        yield from _theme(results, theme)
    for name, sheet in plots(results):
        if name == "snapshot":
            yield f"![{sheet.title}](../../bench/results/{stem_of(content)}-{name}.svg)"
            yield ""


def _peers(results_in: Path) -> Iterator[str]:
    """Where the comparison with other queues is, if there was one."""
    found = sorted(results_in.glob("*-peers.md"))
    if not found:
        return
    stem = found[-1].stem
    yield "## Beside other queues"
    yield ""
    yield (
        "`make bench-peers` installs other task queues, each in its own documented fast and durable configuration, and "
        f"runs the same work on all of them in turns. [All of it](../../bench/results/{stem}.md)."
    )
    yield ""
    for plot in sorted(results_in.glob(f"{stem}*.svg")):
        yield f"![Other queues beside Onceward](../../bench/results/{plot.name})"
        yield ""


def _how_to() -> Iterator[str]:
    yield "## Measure it yourself"
    yield ""
    yield "```console"
    yield "$ make bench"
    yield "$ make bench-long"
    yield "```"
    yield ""
    yield (
        "The first takes about ten minutes, the second about an hour; both write this page anew. "
        "[How it is measured](../../bench/README.md) says what each workload does, and how to run one of them alone."
    )


def main() -> None:
    """Make the page anew from what is in bench/results/."""
    if newest(RESULTS, "bench") is None and newest(RESULTS, "long") is None:
        raise SystemExit("no full run is in bench/results/; `make bench` makes one")
    PAGE.write_text(performance(RESULTS), encoding="utf-8")


if __name__ == "__main__":
    main()
