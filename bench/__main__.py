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

from bench import report, runner
from bench.plan import FULL, QUICK, SIDES, STORES, WORKS, Plan, Side, Store
from bench.samples import MEASURES, Count, Failure, Sample
from bench.servers import Scratch
from bench.workloads import Part

Name = TypeVar("Name", bound=str)
WIDTH = 120
RESULTS = Path(__file__).resolve().parent / "results"


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
    options.add_argument("--quick", action="store_true", help="small counts, one round, under a minute")
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
    options.add_argument("--hold", type=float, help=f"seconds of steady load, default {FULL.hold_seconds:g}")
    options.add_argument("--scratch", type=Path, help="where to make the databases; must be on a real disk")
    options.add_argument("--json", type=Path, help="write the results here")
    options.add_argument("--save", action="store_true", help="write bench/results/DATE.md and DATE.json")
    return options


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The plan that the options ask for."""
    plan = QUICK if arguments.quick else FULL
    if arguments.rounds is not None:
        plan = replace(plan, rounds=arguments.rounds)
    if arguments.hold is not None:
        plan = replace(plan, hold_seconds=arguments.hold)
    return plan


def main() -> int:
    """Run, report, and return 1 if a job was lost or ran twice or a measurement failed."""
    arguments = parser().parse_args()
    # Unwinds like Ctrl-C does, so that the server and every process started here end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = plan_of(arguments)
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
    content = report.document(results, plan, facts, date)
    if arguments.json is not None:
        report.write_json(arguments.json, content)
    if arguments.save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{date}.md").write_text(report.markdown(results, plan, facts, date), encoding="utf-8")
        report.write_json(RESULTS / f"{date}.json", content)
    return 0 if results.sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
