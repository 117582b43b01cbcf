"""`onceward try`: run one task in the foreground, and stop where a stage raises."""

from __future__ import annotations

import logging
import pdb
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from onceward import terminal
from onceward.cli import target_app
from onceward.cli.command_line import command_line, example
from onceward.cli.exits import BAD_ANSWER, FINE
from onceward.cli.options import NOTHING_SAID, Flag, Output
from onceward.cli.words import as_json_text, shortened
from onceward.harmless import harmless_lines, one_line
from onceward.model import codec
from onceward.model.status import Status
from onceward.support.redaction import redacted
from onceward.views.task import Task, shown

if TYPE_CHECKING:  # it brings a whole worker with it, which the help of other commands does not need
    from onceward.testing.trial import StageTrial, Trial

LONGEST = 2_000
_FINE = frozenset({Status.SUCCEEDED, Status.FILTERED, Status.SKIPPED, Status.WAITING})


@command_line.command(
    name="try",
    sort_key=2.2,
    help_epilogue=example(
        "onceward try shop.tasks:app 'Order(7)'",
        """onceward try shop.tasks:app '{"kind": "order", "number": 7}'""",
        "onceward try shop.tasks:app 'Order(7)' --real",
    ),
)
def try_task(
    app: Annotated[str, Parameter(name="APP", help="The app, as module:app or path/to/file.py:app.")],
    task: Annotated[str, Parameter(name="TASK", help="The payload: Order(7), Order(number=7), or JSON.")],
    /,
    *,
    real: Annotated[
        bool, Flag, Parameter(help="On the database of the app; otherwise on one that is thrown away.")
    ] = False,
    debugger: Annotated[
        bool, Parameter(help="Stop in the debugger where a stage raises, if this is a terminal.", show_default=False)
    ] = True,
    output: Output = NOTHING_SAID,
) -> int:
    """Run one task in the foreground, with its children, and see what each stage returns.

    Nothing else is run, and no other worker takes it. At the first error of a stage it stops: in the debugger, where
    the stage stands, or with the traceback. What is open then is cancelled.
    """
    from onceward.testing.trial import payload_from, trial

    found = target_app.loaded(app)
    payload = payload_from(found, task)
    logging.getLogger("onceward").setLevel(logging.ERROR)  # what goes wrong is shown here
    with tempfile.TemporaryDirectory(prefix="onceward-try-") as folder:
        url = found.url if real else f"sqlite:///{Path(folder) / 'try.db'}"
        tried = trial(found, url, (lambda _: None) if output.json else _show_stage)
        try:
            ended = tried.run(payload)
        finally:
            tried.app.close()
            found.close()
    if output.json:
        terminal.print_json(_document(tried, ended))
    elif tried.failure is None:
        reason = f"  {one_line(ended.reason)}" if ended.reason else ""
        terminal.show(Text.assemble((f"task {ended.id}  ", "bold"), ended.status.word, reason))
    if tried.failure is not None:
        _stop_at(tried.failure, debugger=debugger and not output.json)
    return FINE if tried.failure is None and ended.status in _FINE else BAD_ANSWER


def _show_stage(one: StageTrial) -> None:
    what, style = _outcome(one)
    name = f"{one.kind}.{one.stage}"
    terminal.show(Text.assemble((f"{name:<24} ", "bold"), (f"{one.seconds:8.3f} s  ", "dim"), (what, style)))


def _outcome(one: StageTrial) -> tuple[str, str]:
    if one.error is not None:
        return f"raised {type(one.error).__name__}: {one_line(redacted(str(one.error)))}", "bold red"
    if one.verdict is not None:
        return f"{type(one.verdict).__name__}: {one_line(redacted(str(one.verdict)))}", "yellow"
    return shortened(_shown_result(one.result), LONGEST), "green"


def _shown_result(value: Any) -> str:
    try:
        return as_json_text(_stored(value))
    except Exception:  # the engine says why it cannot be stored
        return repr(value)


def _stored(value: Any) -> Any:
    return shown(codec.encoded(value, "the result"))


def _document(tried: Trial, ended: Task) -> dict[str, Any]:
    return {
        "task": ended.id,
        "status": ended.status.word,
        "reason": ended.reason,
        "stages": [
            {
                "kind": one.kind,
                "stage": one.stage,
                "seconds": round(one.seconds, 6),
                "result": None if one.error or one.verdict else _stored(one.result),
                "verdict": None if one.verdict is None else _outcome(one)[0],
                "error": None if one.error is None else _outcome(one)[0],
            }
            for one in tried.stages
        ],
    }


def _stop_at(one: StageTrial, *, debugger: bool) -> None:
    """Show where a stage has raised, and look around there if this is a terminal."""
    text = "".join(traceback.format_exception(None, one.error, one.trace))
    terminal.console(to_stderr=True).print(Text(harmless_lines(redacted(text)).rstrip()), crop=False)
    if debugger and sys.stdin.isatty() and sys.stdout.isatty():
        pdb.post_mortem(one.trace)
