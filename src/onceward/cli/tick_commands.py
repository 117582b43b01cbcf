"""The command that is one bounded run of a worker."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from onceward.cli import target_app
from onceward.cli.answers import Aside
from onceward.cli.command_line import command_line, example
from onceward.cli.exits import FINE
from onceward.cli.options import NOTHING_SAID, PLAIN_LOG, Log, Output
from onceward.operations.triggers import HttpTrigger, LambdaTrigger, SubprocessTrigger, Trigger

TOKEN_VARIABLE = "ONCEWARD_TICK_TOKEN"
"""What an HTTP trigger shows to its receiver, as `Authorization: Bearer …`."""


@command_line.command(
    sort_key=2.5,
    help_epilogue=example(
        "onceward tick shop.tasks:app",
        "onceward tick shop.tasks:app --max-tasks 1000 --time-limit 600 --chain 2",
        "onceward tick shop.tasks:app --trigger https://shop.example/tick",
    ),
)
def tick(
    app: Annotated[str, Parameter(name="APP", help="The app, as module:app or path/to/file.py:app.")],
    /,
    *,
    max_tasks: Annotated[
        int | None, Parameter(validator=Number(gte=1), help="How many tasks it claims, 1,000 by default.")
    ] = None,
    time_limit: Annotated[
        float | None, Parameter(validator=Number(gt=0), help="How many seconds it works, 600 by default.")
    ] = None,
    chain: Annotated[
        int | None,
        Parameter(validator=Number(gte=0), help="How often it triggers the next one if work is ready, 2 by default."),
    ] = None,
    chain_left: Annotated[
        int | None, Parameter(validator=Number(gte=0), help="How much of the chain is left: said by a trigger.")
    ] = None,
    concurrency: Annotated[
        int | None, Parameter(validator=Number(gte=1), help="How many tasks it works on at a time, 100 by default.")
    ] = None,
    queues: Annotated[
        str | None, Parameter(help="Only the work of these queues, as a,b; by default all that the app has.")
    ] = None,
    trigger: Annotated[
        str,
        Parameter(
            help="How the next one is started: `subprocess`, `none`, an address to post to (with the token that "
            "ONCEWARD_TICK_TOKEN holds), `lambda` or `lambda:NAME`."
        ),
    ] = "subprocess",
    log: Log = PLAIN_LOG,
    output: Output = NOTHING_SAID,
) -> int:
    """Be a worker for a while, then end: for cron, timers and serverless. Prints a report as JSON.

    First it takes back what dead workers held and ends what has run out of time. The log goes to stderr.
    """
    wanted = None if queues is None else [queue.strip() for queue in queues.split(",") if queue.strip()]
    answer = Aside()
    found = target_app.loaded(app)
    log.begin(app, output)
    report = found.tick(
        max_tasks=max_tasks,
        time_limit=time_limit,
        chain=0 if trigger == "none" else chain,
        chain_left=chain_left,
        trigger=_trigger(trigger),
        concurrency=concurrency,
        queues=wanted,
    )
    found.close()
    answer.give(asdict(report))
    return FINE


def _trigger(named: str) -> Trigger:
    kind, _, name = named.partition(":")
    if kind == "lambda":
        return LambdaTrigger(name or None)
    if named in ("subprocess", "none"):
        return SubprocessTrigger()
    token = os.environ.get(TOKEN_VARIABLE)
    return HttpTrigger(named, headers={"Authorization": f"Bearer {token}"} if token else {})
