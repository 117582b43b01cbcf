"""All commands of `onceward-jobs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version

from cyclopts import App as CommandLine
from cyclopts import Group, Parameter

from onceward_apps import carrying_out
from onceward_apps.jobfinder.cli.speaking import PROGRAM
from onceward_apps.speaking import epilogue


def command_line() -> CommandLine:
    """The whole command line. What stands behind it is loaded here, so that a bad profile is an error like others."""
    from onceward_apps.jobfinder.cli import adding, deciding, demo, looking, running, setting_up, sources, telling

    made = CommandLine(
        name=PROGRAM,
        help="Finds jobs for you: looks at companies, reads their job boards, and ranks what fits, with why.",
        help_epilogue=epilogue(
            "onceward-jobs init",
            "onceward-jobs add companies.csv https://example.com",
            "onceward-jobs run",
            "onceward-jobs matches",
        ),
        help_format="rich",
        version=lambda: version("onceward"),
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        group_commands=Group("Commands", sort_key=1),
        default_parameter=Parameter(negative_iterable=""),
    )
    every: tuple[tuple[Callable[..., int], tuple[str, ...]], ...] = (
        (setting_up.init, ("init", "init ~/me.toml --force")),
        (adding.add, ("add companies.csv https://example.com", "add https://jobs.lever.co/acme", "add --listing URL")),
        (running.run, ("run", "run --processes 4 --forever")),
        (looking.matches, ("matches", "matches --near", "matches --limit 200 --json")),
        (telling.explain, ("explain 3f2a9c01", "explain https://boards.greenhouse.io/acme/jobs/1")),
        (deciding.applied, ("applied 3f2a9c01", "applied --undo 3f2a9c01")),
        (deciding.not_for_me, ("not-for-me 3f2a9c01 77b0e4d2", "not-for-me --undo 3f2a9c01")),
        (deciding.hide, ("hide 3f2a9c01", "hide --undo 3f2a9c01")),
        (looking.companies, ("companies", "companies --json")),
        (sources.sources, ("sources", "sources --enable greenhouse:acme")),
        (sources.approve, ("approve", "approve lever:acme", "approve --all")),
        (telling.export, ("export > matches.csv", "export --listings --format json")),
        (telling.report, ("report matches.html",)),
        (demo.demo, ("demo",)),
    )
    for place, (command, examples) in enumerate(every):
        shown = epilogue(*(f"{PROGRAM} {example}" for example in examples))
        made.command(command, sort_key=place, help_epilogue=shown)
    return made


def carried_out(arguments: Sequence[str]) -> int:
    """Carry out a command line; returns its exit code."""
    return carrying_out.carried_out(PROGRAM, command_line, arguments)
