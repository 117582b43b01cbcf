"""The commands. Each one asks or tells an app something and shows the answer, for people or as JSON."""

from __future__ import annotations

import json as json_format
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any, Literal

import structlog
from cyclopts import App as CommandLine
from cyclopts import Group, Parameter
from cyclopts.validators import Number
from rich.text import Text

from onceward import logs
from onceward.cli import asking, documents, screens
from onceward.cli.asking import database
from onceward.cli.exits import BAD_ANSWER, FINE, complain
from onceward.cli.options import Flag, Id, Output, Where
from onceward.cli.words import one_line
from onceward.errors import ConfigError, IllegalTransition, TaskNotFound
from onceward.model.status import Status

NOTHING_SAID = Output()
ANY_PLACE = Where()

command_line = CommandLine(
    name="onceward",
    help="A durable task engine: staged work that survives crashes, spawns safely and stays within its limits.",
    help_epilogue=(
        "[bold]Example[/bold]\n"
        "  onceward demo\n\n"
        "[dim]Exit codes: 0 all is well, 1 the answer is bad, 2 wrong usage, 3 the database cannot be used.[/dim]"
    ),
    help_format="rich",
    version=lambda: version("onceward"),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    group_commands=Group("Commands", sort_key=1),
    default_parameter=Parameter(negative_iterable=""),
)


def _example(*lines: str) -> str:
    return "[bold]Example[/bold]\n" + "\n".join(f"  {line}" for line in lines)


@command_line.command(
    sort_key=2,
    help_epilogue=_example(
        "onceward run shop.tasks:app",
        "onceward run shop.tasks:app --processes 4 --concurrency 50 --queues default,mail",
    ),
)
def run(
    app: Annotated[str, Parameter(name="APP", help="The app, as module:app or path/to/file.py:app.")],
    /,
    *,
    name: Annotated[str | None, Parameter(help="A name for this worker; by default machine and process.")] = None,
    processes: Annotated[
        int,
        Parameter(
            validator=Number(gte=0, lte=1_000),
            help="How many processes work, watched by this one, so that time limits hold for any code. "
            "0 works in this process.",
        ),
    ] = 1,
    concurrency: Annotated[
        int | None,
        Parameter(validator=Number(gte=1), help="How many tasks each process works on at a time, 100 by default."),
    ] = None,
    queues: Annotated[
        str | None, Parameter(help="Only the work of these queues, as a,b; by default all that the app has.")
    ] = None,
    until_idle: Annotated[bool, Flag, Parameter(help="End when nothing is left to do.")] = False,
    log_json: Annotated[bool, Flag, Parameter(help="Log JSON lines, for machines.")] = False,
    output: Output = NOTHING_SAID,
) -> int:
    """Be a worker, until Ctrl-C or SIGTERM.

    A first Ctrl-C lets running stages end, a second gives everything back at once. The log goes to stderr.
    """
    wanted = None if queues is None else [queue.strip() for queue in queues.split(",") if queue.strip()]
    answer = _Aside() if output.json else None
    found = asking.loaded(app)
    found.registry.lanes(wanted)  # a queue that nobody uses is refused before anything begins
    logs.configure("json" if log_json else "text", level=logging.DEBUG if output.debug else logging.INFO)
    logger = structlog.get_logger("onceward.cli")
    logger.info(
        "working",
        database=asking.place_of(found),
        kinds=",".join(found.registry.kinds),
        queues=",".join(wanted or found.registry.queues),
        processes=processes,
    )
    started = time.monotonic()
    found.run(processes=processes or None, concurrency=concurrency, queues=wanted, until_idle=until_idle, name=name)
    seconds = round(time.monotonic() - started, 3)
    counts = found.counts()
    found.close()
    logger.info("stopped", after_s=seconds, **{status.word: count for status, count in counts.items() if count})
    if answer is not None:
        answer.give(
            {"seconds": seconds, "processes": processes, "tasks": {one.word: count for one, count in counts.items()}}
        )
    return FINE


class _Aside:
    """Keeps stdout for one document: whatever stages print, here and in child processes, goes to stderr."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._stdout = os.dup(1)
        os.dup2(2, 1)

    def give(self, document: documents.Document) -> None:
        """Put stdout back and write the document to it."""
        sys.stdout.flush()
        os.dup2(self._stdout, 1)
        os.close(self._stdout)
        documents.print_document(document)


@command_line.command(sort_key=3, help_epilogue=_example("onceward status --db sqlite:///shop.db"))
def status(*, where: Where = ANY_PLACE, output: Output = NOTHING_SAID) -> int:
    """Show how things stand: tasks by status, the backlog, the living workers."""
    with database(where) as app:
        counts, backlog, workers = app.counts(), app.backlog(), app.workers()
        facts = (asking.place_of(app), counts, backlog, workers, asking.present(app))
        _answer(output, lambda: documents.status_document(*facts), lambda: screens.status_screen(*facts))
    return FINE


@command_line.command(
    sort_key=4,
    help_epilogue=_example(
        "onceward tasks --db sqlite:///shop.db --status failed --limit 50",
        "onceward tasks --app shop.tasks:app --key 'https://example.com/*'",
        "onceward tasks --lineage 4711 --status failed --db sqlite:///shop.db",
    ),
)
def tasks(
    *,
    status: Annotated[Status | None, Parameter(help="Only tasks that stand there.")] = None,
    kind: Annotated[str | None, Parameter(help="Only tasks of this kind.")] = None,
    key: Annotated[str | None, Parameter(help="Only tasks with this key; a * at its end stands for anything.")] = None,
    lineage: Annotated[
        str | None, Parameter(help="Only tasks of this lineage: its id, or the number of any task in it.")
    ] = None,
    min_depth: Annotated[
        int | None, Parameter(validator=Number(gte=0), help="Only tasks so many spawns away from their root, or more.")
    ] = None,
    stuck: Annotated[
        bool, Flag, Parameter(help="Only running tasks whose worker has been silent for longer than its lease.")
    ] = False,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=100_000), help="How many at most.")] = 20,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """List tasks, newest first."""
    with database(where) as app:
        now = asking.present(app)
        within = None if lineage is None else asking.lineage_named(app, lineage)
        found = app.tasks(
            status=status, kind=kind, key=key, lineage=within, min_depth=min_depth, stuck=stuck, limit=limit
        )

        def screen() -> Iterable[Any]:
            if found:
                yield from screens.tasks_screen(found, now, stuck=stuck)
            if len(found) == limit:
                yield Text(f"the newest {limit}; --limit shows more", "dim")
            elif not found:
                yield Text("no task is stuck" if stuck else "no such task", "dim")

        _answer(output, lambda: {"tasks": [documents.task_document(task, now) for task in found]}, screen)
    return FINE


@command_line.command(sort_key=5, help_epilogue=_example("onceward task 4711 --app shop.tasks:app"))
def task(
    task_id: Annotated[Id, Parameter(name="ID", help="The number of the task.")],
    /,
    *,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Show everything about one task: its fields, its stages and their results, its history."""
    with database(where) as app:
        found = app.task(task_id)
        pipeline = app.registry[found.kind] if found.kind in app.registry.kinds else None
        facts = (found, asking.stored_payload(app, task_id), pipeline, asking.present(app))
        _answer(output, lambda: documents.whole_task_document(*facts), lambda: screens.task_screen(*facts))
    return FINE


Ids = Annotated[tuple[Id, ...], Parameter(name="ID", help="The numbers of the tasks.")]


@command_line.command(
    sort_key=6,
    help_epilogue=_example(
        "onceward retry 4711 4712 --db sqlite:///shop.db",
        "onceward retry 4711 --from-stage price --app shop.tasks:app",
        "onceward retry --lineage 4711 --db sqlite:///shop.db",
    ),
)
def retry(
    ids: Ids = (),
    /,
    *,
    lineage: Annotated[
        str | None,
        Parameter(help="All failed tasks of this lineage; of a part of it, if this is the number of a task in it."),
    ] = None,
    fresh: Annotated[bool, Flag, Parameter(help="Forget all finished stages and begin again.")] = False,
    from_stage: Annotated[
        str | None, Parameter(help="Forget this stage and those after it; needs --app, which knows their order.")
    ] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Open ended tasks again. Finished stages are kept and not run again, unless you say so."""
    if fresh and from_stage is not None:
        raise ConfigError("give --fresh or --from-stage, not both")
    _either(ids, lineage)
    if lineage is not None and (fresh or from_stage is not None):
        raise ConfigError("--lineage keeps finished stages; give the numbers of the tasks that are to forget them")
    with database(where) as app:
        if lineage is not None:
            retried = app.retry_lineage(lineage)
            return _together(output, "retried", retried.tasks, "nothing of it has failed", retried.refused)
        if from_stage is not None and not app.registry.kinds:
            raise ConfigError("--from-stage needs the code, which knows the order of the stages: give --app module:app")
        return _one_by_one(output, "retried", ids, lambda one: app.retry(one, fresh=fresh, stage=from_stage))


@command_line.command(
    sort_key=7,
    help_epilogue=_example(
        "onceward cancel 4711 --reason 'sold out' --db sqlite:///shop.db",
        "onceward cancel --lineage 4711 --db sqlite:///shop.db",
    ),
)
def cancel(
    ids: Ids = (),
    /,
    *,
    lineage: Annotated[
        str | None,
        Parameter(help="All open tasks of this lineage; of a part of it, if this is the number of a task in it."),
    ] = None,
    reason: Annotated[str, Parameter(help="Why, kept with the task.")] = "cancelled by an operator",
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Cancel tasks that have not ended. After this nothing of them is written any more, also if they are running."""
    _either(ids, lineage)
    with database(where) as app:
        if lineage is not None:
            return _together(output, "cancelled", app.cancel_lineage(lineage, reason), "nothing of it is open")
        return _one_by_one(output, "cancelled", ids, lambda one: app.cancel(one, reason))


@command_line.command(
    sort_key=8,
    help_epilogue=_example(
        "onceward signal 4711 approved --db sqlite:///shop.db",
        """onceward signal 4711 price '{"cents": 990}' --db sqlite:///shop.db""",
    ),
)
def signal(
    task_id: Annotated[Id, Parameter(name="ID", help="The number of the task.")],
    name: Annotated[str, Parameter(name="NAME", help="The name of the signal.")],
    value: Annotated[
        str | None,
        Parameter(
            name="VALUE",
            allow_leading_hyphen=True,
            help="A value in JSON, true by default; what is not JSON is taken as text.",
        ),
    ] = None,
    /,
    *,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Send a signal to a task, before or while it waits for it."""
    meant = True if value is None else _as_json_or_text(value)
    with database(where) as app:
        app.signal(task_id, name, meant)
        _answer(
            output,
            lambda: {"task": task_id, "signal": name, "value": meant},
            lambda: [Text(f"task {task_id} has the signal {name}")],
        )
    return FINE


@command_line.command(
    sort_key=8,
    help_epilogue=_example("onceward batches --db sqlite:///shop.db", "onceward batches --status open --json"),
)
def batches(
    *,
    status: Annotated[
        Literal["open", "succeeded", "partial", "failed"] | None, Parameter(help="Only batches that stand there.")
    ] = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=100_000), help="How many at most.")] = 20,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """List batches, newest first: how far they are, what has become of their tasks, what follows."""
    with database(where) as app:
        now = asking.present(app)
        found = app.batches(status=status, limit=limit)

        def screen() -> Iterable[Any]:
            if found:
                yield screens.batches_table(found, now)
            if len(found) == limit:
                yield Text(f"the newest {limit}; --limit shows more", "dim")
            elif not found:
                yield Text("no such batch" if status else "no batch", "dim")

        _answer(output, lambda: {"batches": [documents.batch_document(batch) for batch in found]}, screen)
    return FINE


@command_line.command(sort_key=9, help_epilogue=_example("onceward verify --db postgresql://localhost/shop"))
def verify(*, where: Where = ANY_PLACE, output: Output = NOTHING_SAID) -> int:
    """Check that every promise of the engine is true of the database, now, while it is in use.

    Nothing is written. The exit code is 1 if a promise is broken.
    """
    with database(where) as app:
        report = app.verify()
        place = asking.place_of(app)
        _answer(output, lambda: documents.report_document(place, report), lambda: screens.report_screen(report))
    return FINE if report.ok else BAD_ANSWER


@command_line.command(
    sort_key=10,
    help_epilogue=_example(
        "onceward migrate --db postgresql://localhost/shop",
        "onceward migrate --app shop.tasks:app",
    ),
)
def migrate(*, where: Where = ANY_PLACE, output: Output = NOTHING_SAID) -> int:
    """Bring a database up to date, or make a new one; with --app the application's own tables too."""
    with database(where, may_create=True) as app:
        applied = app.migrate()
        place = asking.place_of(app)

        def screen() -> Iterable[Any]:
            for step in applied:
                yield Text.assemble(("applied ", "green"), step)
            if not applied:
                yield Text("nothing to do: the database is up to date")

        _answer(output, lambda: {"database": place, "applied": applied}, screen)
    return FINE


@command_line.command(sort_key=11, help_epilogue=_example("onceward prune --older-than 30d --db sqlite:///shop.db"))
def prune(
    *,
    older_than: Annotated[
        str | None, Parameter(help="How long ago they have ended, like 12h or 30d; by default as configured, 30d.")
    ] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Delete ended tasks that are older than that, with all that belongs to them."""
    with database(where) as app:
        pruned = app.prune(older_than)
        facts = asdict(pruned)

        def screen() -> Iterable[Any]:
            told = ", ".join(f"{count:,} {name}" for name, count in facts.items() if count)
            yield Text(f"deleted {told}" if told else "nothing was old enough to be deleted")

        _answer(output, lambda: facts, screen)
    return FINE


@command_line.command(sort_key=1, help_epilogue=_example("onceward demo"))
def demo(*, output: Output = NOTHING_SAID) -> int:
    """See 300 tasks survive the death of a worker. Takes some fifteen seconds and needs nothing.

    Three processes work on a new SQLite database among the temporary files. One is killed in the middle.

    In the end everything is counted: nothing may be lost, and nothing done twice.
    """
    from onceward.cli.demo import perform

    return perform(as_json=output.json)


@command_line.command(
    sort_key=20,
    help_epilogue=_example(
        "onceward envelope shop.tasks:app",
        "onceward envelope shop.tasks:app --max-tasks-per-root 500",
        "onceward envelope shop.tasks:app --usd-per-1000-calls 0.40 --max-usd-per-hour 25",
    ),
)
def envelope(
    app: Annotated[str, Parameter(name="APP", help="The app, as module:app or path/to/file.py:app.")],
    /,
    *,
    max_tasks_per_root: Annotated[
        int | None,
        Parameter(validator=Number(gte=1), help="End with code 1 if one root can make more tasks than that."),
    ] = None,
    usd_per_1000_calls: Annotated[
        float | None, Parameter(validator=Number(gte=0), help="What a thousand outside calls cost.")
    ] = None,
    max_usd_per_hour: Annotated[
        float | None,
        Parameter(validator=Number(gte=0), help="End with code 1 if an hour of ticks can cost more, or nobody knows."),
    ] = None,
    measured: Annotated[
        bool, Parameter(negative="", help="Show beside it what an hour has come to: this asks the database.")
    ] = False,
    output: Output = NOTHING_SAID,
) -> int:
    """Show what can happen at worst, by the configuration alone: tasks and attempts of one root, and an hour of ticks.

    No database is asked and nothing runs, so that a build can refuse a change which would let work or money run away.
    """
    found = asking.loaded(app).envelope(usd_per_1000_calls=usd_per_1000_calls, measured=measured)
    too_wide = []
    if max_tasks_per_root is not None and found.exceeds(max_tasks_per_root):
        too_wide.append(f"{found.sentence}; allowed are {max_tasks_per_root:,}")
    if max_usd_per_hour is not None and found.hourly.exceeds(max_usd_per_hour):
        too_wide.append(f"{found.hourly.sentence}; allowed are {max_usd_per_hour:,.2f}")
    bounds = {"max_tasks_per_root": max_tasks_per_root, "max_usd_per_hour": max_usd_per_hour}
    _answer(
        output,
        lambda: {**found.document, **bounds, "ok": not too_wide},
        lambda: screens.envelope_screen(found),
    )
    for sentence in too_wide:
        complain(sentence)
    return BAD_ANSWER if too_wide else FINE


@command_line.command(
    name="import",
    sort_key=21,
    help_epilogue=_example(
        "onceward import items.jsonl --kind listing --app shop.tasks:app",
        "onceward import items.jsonl --map kind=type,url=job.link --status archived=skipped --app shop.tasks:app",
    ),
)
def import_items(
    file: Annotated[
        str,
        Parameter(
            name="FILE", allow_leading_hyphen=True, help="The items, one JSON object a line; - is the standard input."
        ),
    ],
    /,
    *,
    kind: Annotated[str | None, Parameter(help="What they are; without it every line says so, as its kind.")] = None,
    map: Annotated[
        tuple[str, ...],
        Parameter(
            name="--map",
            help="Where something stands in a line, as ours=theirs: a field of the payload, or id, kind, status, "
            "payload, reason, created_at, ended_at, due_at.",
        ),
    ] = (),
    status: Annotated[
        tuple[str, ...],
        Parameter(name="--status", help="What a word for a status means, as theirs=ours; the usual ones are known."),
    ] = (),
    name: Annotated[
        str, Parameter(help="Which import it is. An item is imported once in each; name another system otherwise.")
    ] = "import",
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Import items of an older system. Each becomes a task with a lineage of its own, once, however often this is run.

    What was in work there is pending here; what has ended stays ended, with its times and its reason.

    A line that cannot be read is told of and left out; then the exit code is 1.
    """
    with database(where) as app, _lines_of(file) as lines:
        if not app.registry.kinds:
            raise ConfigError("import needs the code, which knows what a payload looks like: give --app module:app")
        report = app.import_items(
            lines,
            kind=kind,
            name=name,
            fields=_pairs("--map", map),
            statuses=_pairs("--status", status),
            on_problem=lambda problem: complain(f"{file}:{problem.line}: {one_line(problem.reason)}"),
        )
        _answer(output, lambda: documents.import_document(report), lambda: screens.import_screen(report))
    return FINE if report.ok else BAD_ANSWER


@contextmanager
def _lines_of(file: str) -> Iterator[Iterable[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = open(file, "rb")  # noqa: SIM115 - what goes wrong later is no fault of the file
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    with opened:
        yield opened


def _pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for one in (part.strip() for text in given for part in text.split(",") if part.strip()):
        left, sign, right = one.partition("=")
        if not (sign and left.strip() and right.strip()):
            raise ConfigError(f"{option} {one}: say it as left=right")
        pairs[left.strip()] = right.strip()
    return pairs


# How commands answer


def _answer(output: Output, document: Callable[[], documents.Document], screen: Callable[[], Iterable[Any]]) -> None:
    if output.json:
        documents.print_document(document())
    else:
        screens.show(*screen())


def _one_by_one(output: Output, done_word: str, ids: Iterable[int], act: Callable[[int], None]) -> int:
    """Do something to each of some tasks. One that refuses does not keep the others from it."""
    done: list[int] = []
    refused: list[documents.Document] = []
    for one in dict.fromkeys(ids):
        try:
            act(one)
        except (TaskNotFound, IllegalTransition) as error:
            refused.append({"task": one, "error": str(error)})
        else:
            done.append(one)
    _answer(
        output,
        lambda: {done_word: done, "refused": refused},
        lambda: [Text.assemble((f"{done_word} ", "green"), f"task {one}") for one in done],
    )
    for one_refused in refused:
        complain(f"task {one_refused['task']} was not {done_word}: {one_refused['error']}")
    return BAD_ANSWER if refused else FINE


def _either(ids: Iterable[int], lineage: str | None) -> None:
    if bool(ids) == (lineage is not None):
        raise ConfigError("give the numbers of tasks, or --lineage" + (", not both" if ids else ""))


def _together(
    output: Output, done_word: str, done: list[int], nothing: str, refused: Mapping[int, str] | None = None
) -> int:
    """Tell what was done to the tasks of a lineage, and to which of them it could not be done."""
    count = f"{len(done):,} task{'' if len(done) == 1 else 's'}"
    not_done = refused or {}
    _answer(
        output,
        lambda: {
            done_word: done,
            "refused": [{"task": task, "error": error} for task, error in not_done.items()],
        },
        lambda: [Text.assemble((f"{done_word} ", "green"), count) if done or not_done else Text(nothing, "dim")],
    )
    for task, error in not_done.items():
        complain(f"task {task} was not {done_word}: {error}")
    return BAD_ANSWER if not_done else FINE


def _as_json_or_text(text: str) -> Any:
    try:
        return json_format.loads(text)
    except ValueError:
        return text


# Commands with a page of their own add themselves.

from onceward.cli import (  # noqa: E402, F401
    alert_commands,
    budget_commands,
    cache_commands,
    lineage_commands,
    schedule_commands,
    setting_commands,
    source_commands,
    tick_commands,
)
