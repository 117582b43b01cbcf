"""The command line: `python -m bench.peers --help`."""

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from bench import report as bench_report
from bench.peers import chart, redis, report, runner
from bench.peers.catalogue import BACKENDS, BY_NAME, SYSTEMS, System
from bench.peers.findings import MEASURES, Count, Failure, Sample
from bench.peers.plan import FULL, QUICK, WORKS, Plan
from bench.servers import Scratch

Name = TypeVar("Name", bound=str)
WIDTH = 150
RESULTS = Path(__file__).resolve().parent.parent / "results"
PEERS = tuple(system.name for system in SYSTEMS if system.requirements is not None)


def chosen(text: str, known: Sequence[Name]) -> tuple[Name, ...]:
    """The names in a comma-separated list, in their usual order."""
    asked = set(text.split(","))
    unknown = asked - set(known)
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return tuple(name for name in known if name in asked)


def parser() -> argparse.ArgumentParser:
    """The options, described."""
    options = argparse.ArgumentParser(
        prog="python -m bench.peers", description="Onceward, a hand-written floor and other task queues, side by side."
    )
    options.add_argument("--quick", action="store_true", help="small counts, one round, under two minutes")
    options.add_argument("--rounds", type=int, help=f"default {FULL.rounds}")
    options.add_argument(
        "--peers", type=lambda text: chosen(text, PEERS), default=PEERS, help=f"comma-separated: {', '.join(PEERS)}"
    )
    options.add_argument(
        "--store",
        type=lambda text: chosen(text, tuple(BACKENDS)),
        default=tuple(BACKENDS),
        help=f"comma-separated: {', '.join(BACKENDS)}",
    )
    options.add_argument(
        "--work", type=lambda text: chosen(text, WORKS), default=WORKS, help=f"comma-separated: {', '.join(WORKS)}"
    )
    options.add_argument("--scratch", type=Path, help="where to make the databases; must be on a real disk")
    options.add_argument("--json", type=Path, help="write the results here")
    options.add_argument("--save", action="store_true", help="write bench/results/DATE-peers.md, .json and .svg")
    return options


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The plan that the options ask for."""
    plan = QUICK if arguments.quick else FULL
    return plan if arguments.rounds is None else replace(plan, rounds=arguments.rounds)


def systems_of(arguments: argparse.Namespace) -> tuple[System, ...]:
    """The peers that the options ask for, with our own sides on every backend that these are compared on."""
    peers = {name for name in arguments.peers if BY_NAME[name].backend in arguments.store}
    compared = {"postgres" if BY_NAME[name].backend == "redis" else BY_NAME[name].backend for name in peers}
    return tuple(
        system
        for system in SYSTEMS
        if system.name in peers or (system.requirements is None and system.backend in compared)
    )


def stem_of(arguments: argparse.Namespace, date: str) -> str:
    """What a saved run is called: one of everything by its date, any other says that it is a part."""
    is_full = systems_of(arguments) == SYSTEMS and arguments.work == WORKS and arguments.rounds is None
    kind = "-quick" if arguments.quick else "" if is_full else "-part"
    return f"{date}-peers{kind}"


def main() -> int:
    """Install, run, report, and return 1 if one of our jobs was lost or ran twice or a measurement failed."""
    arguments = parser().parse_args()
    # Unwinds like Ctrl-C does, so that the servers and every process started here end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = plan_of(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)

    def note(text: str) -> None:
        console.print(text, style="dim", highlight=False, markup=False)

    def say(news: Sample | Count | Failure) -> None:
        system = BY_NAME[news.system]
        where = f"round {news.round} · {BACKENDS[system.backend]} · {system.label}"
        match news:
            case Sample(measure=name, value=value):
                measure = MEASURES[name]
                capped = " (capped)" if value.capped else ""
                note(f"{where} · {measure.label}: {value.value:,.{measure.decimals}f} {measure.unit}{capped}")
            case Count(part=part, tally=tally):
                console.print(f"{where} · {part}: {tally}", style="bold red", highlight=False)
            case Failure(part=part, reason=reason):
                console.print(f"{where} · {part}: {reason}", style="red", highlight=False, markup=False)

    systems, skipped = runner.ready(systems_of(arguments), note)
    for name, reason in skipped.items():
        console.print(f"skipped: {name} {reason}", style="yellow", highlight=False, markup=False)
    backends = {system.backend for system in systems}
    with Scratch(arguments.scratch) as scratch:
        postgres = scratch.postgres_version() if "postgres" in backends else None
        facts = bench_report.machine(scratch.filesystem, postgres)
        if "redis" in backends:
            facts["Redis"] = f"{redis.version()}, appendonly yes, appendfsync everysec, unix socket"
        findings = runner.run(scratch, plan, systems=systems, works=arguments.work, skipped=skipped, say=say)

    date = time.strftime("%Y-%m-%d", time.gmtime())
    report.show(console, findings, plan, facts)
    content = json.dumps(report.document(findings, plan, facts, date), indent=1) + "\n"
    if arguments.json is not None:
        arguments.json.write_text(content, encoding="utf-8")
    if arguments.save:
        RESULTS.mkdir(exist_ok=True)
        stem = stem_of(arguments, date)
        page = report.markdown(findings, plan, facts, date, f"{stem}.svg")
        (RESULTS / f"{stem}.md").write_text(page, encoding="utf-8")
        (RESULTS / f"{stem}.json").write_text(content, encoding="utf-8")
        (RESULTS / f"{stem}.svg").write_text(chart.svg(findings), encoding="utf-8")
    return 0 if findings.sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
