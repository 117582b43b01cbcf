"""The command line with all its commands. Each one asks or tells an app something and shows the answer."""

from __future__ import annotations

from onceward.cli import (  # noqa: F401 - commands add themselves
    alert_commands,
    batch_commands,
    budget_commands,
    cache_commands,
    database_commands,
    envelope_commands,
    import_commands,
    lineage_commands,
    run_commands,
    schedule_commands,
    setting_commands,
    source_commands,
    stats_command,
    task_commands,
    tick_commands,
)
from onceward.cli.command_line import command_line

__all__ = ["command_line"]
