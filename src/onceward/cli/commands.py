"""The command line with its commands. Each one asks or tells an app something and shows the answer."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from onceward.cli.command_line import command_line

__all__ = ["HOMES", "command_line", "with_commands_for"]

HOMES = {
    "alert_commands": ("alerts",),
    "batch_commands": ("batches",),
    "budget_commands": ("budgets",),
    "bulk_commands": ("bulk",),
    "cache_commands": ("cache",),
    "database_commands": ("migrate", "prune", "status", "verify"),
    "envelope_commands": ("envelope",),
    "import_commands": ("import",),
    "lineage_commands": ("approve", "limits", "lineage", "lineages", "why"),
    "mcp_commands": ("mcp",),
    "run_commands": ("demo", "run"),
    "schedule_commands": ("schedules",),
    "setting_commands": ("settings",),
    "source_commands": ("pause", "resume", "source", "sources"),
    "stats_command": ("stats",),
    "task_commands": ("cancel", "retry", "signal", "task", "tasks"),
    "tick_commands": ("tick",),
    "top_command": ("top",),
    "try_command": ("try",),
    "web_commands": ("token", "web"),
}
"""Which module holds which commands. They add themselves to the command line when it is imported."""


def with_commands_for(arguments: Sequence[str]) -> None:
    """Add the command that a command line names; all of them where it names none, as for help."""
    homes = [home for home, names in HOMES.items() if arguments and arguments[0] in names]
    for home in homes or HOMES:
        import_module(f"onceward.cli.{home}")
