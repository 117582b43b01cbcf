"""The command line: `python -m bench --help`."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from bench import pages, report, runner
from bench.measures import MEASURES
from bench.plan import FULL, LONG, QUICK, SIDES, STORES, WORKS, Plan, Side, Store
from bench.samples import Count, Failure, Sample
from bench.servers import Scratch
from bench.workloads import Part

Name = TypeVar("Name", bound=str)
WIDTH = 150


def chosen(text: str, known: Sequence[Name], everything: str) -> tuple[Name, ...]:
    """The names in a comma-separated list, in their usual order; the word `everything` means all of them."""
    asked = set(text.split(","))
    if asked == {everything}:
        return tuple(known)
    unknown = asked - set(known)
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}, {everything}"
        )
    return tuple(name for name in known if name in asked)


def parser() -> argparse.ArgumentParser:
    """The options, described."""
    options = argparse.ArgumentParser(prog="python -m bench", description="Onceward beside a hand-written floor.")
    size = options.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small counts, one round, one to two minutes")
    size.add_argument("--long", action="store_true", help="large tables and a long snapshot, about an hour")
    options.add_argument(
        "--store", type=lambda text: chosen(text, STORES, "both"), default=STORES, help="sqlite, postgres or both"
    )
    options.add_argument(
        "--work",
        type=lambda text: chosen(text, WORKS, "all"),
        default=WORKS,
        help=f"comma-separated: {', '.join(WORKS)}",
    )
    options.add_argument(
        "--side", type=lambda text: chosen(text, SIDES, "both"), default=SIDES, help="floor, engine or both"
    )
    options.add_argument("--rounds", type=int, help=f"default {FULL.rounds}")
    options.add_argument("--hold", type=float, help=f"seconds a snapshot is held, default {FULL.hold_seconds:g}")
    options.add_argument("--scratch", type=Path, help="where to make the databases; must be on a real disk")
    options.add_argument("--json", type=Path, help="write the results here")
    options.add_argument(
        "--save",
        action="store_true",
        help="write table, plots and JSON to bench/results/, and after a full run docs/reference/performance.md",
    )
    return options


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The plan that the options ask for."""
    plan = QUICK if arguments.quick else LONG if arguments.long else FULL
    if arguments.rounds is not None:
        plan = replace(plan, rounds=arguments.rounds)
    if arguments.hold is not None:
        plan = replace(plan, hold_seconds=arguments.hold)
    return plan


def is_full(arguments: argparse.Namespace) -> bool:
    """Whether the run measures everything at its usual size: only then are its figures fit for the documentation."""
    asked = (arguments.store, arguments.work, arguments.side)
    return asked == (STORES, WORKS, SIDES) and not arguments.quick and not arguments.rounds and not arguments.hold


def main() -> int:
    """Run, report, and return 1 if a job was lost or ran twice or a measurement failed."""
    arguments = parser().parse_args()
    # Unwinds like Ctrl-C does, so that the server and every process started here end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = plan_of(arguments)
    began = time.monotonic()
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)

    def say(round: int, part: Part, store: Store, side: Side, news: Sample | Count | Failure) -> None:
        where = f"round {round} · {store} · {side}"
        match news:
            case Sample(measure=name, value=value):
                measure = MEASURES[name]
                console.print(
                    f"{where} · {measure.label}: {value:,.{measure.decimals}f} {measure.unit}",
                    style="dim",
                    highlight=False,
                )
            case Count(tally=tally) if not tally.clean:
                console.print(f"{where} · {part.name}: {tally}", style="bold red", highlight=False)
            case Failure(reason=reason):
                console.print(f"{where} · {part.name}: {reason}", style="red", highlight=False, markup=False)

    with Scratch(arguments.scratch) as scratch:
        postgres = scratch.postgres_version() if "postgres" in arguments.store else None
        facts = report.machine(scratch.filesystem, postgres)
        results = runner.run(scratch, plan, sides=arguments.side, stores=arguments.store, works=arguments.work, say=say)

    date = time.strftime("%Y-%m-%d", time.gmtime())
    report.show(console, results, plan, facts)
    console.print(f"took {(time.monotonic() - began) / 60:.1f} minutes", highlight=False)
    content = report.document(results, plan, facts, date, is_full=is_full(arguments) and results.sound)
    if arguments.json is not None:
        report.write_json(arguments.json, content)
    if arguments.save:
        for path in pages.save(content):
            console.print(f"wrote {path}", style="dim", highlight=False)
    return 0 if results.sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
