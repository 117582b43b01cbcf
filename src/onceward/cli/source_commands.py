"""The commands about sources, and about pausing: a lineage, a pipeline, a source, a queue, or everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from onceward.app import App
from onceward.cli import target_app
from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.documents import Document, iso
from onceward.cli.exits import BAD_ANSWER, FINE
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Flag, Output, Where
from onceward.cli.tables import table
from onceward.cli.target_app import database
from onceward.cli.words import age, shortened, time_of
from onceward.errors import ConfigError
from onceward.harmless import one_line
from onceward.model.pause import scope_text
from onceward.operations.sources import SourceState, SourceStatus

ERROR_LENGTH = 200

_STYLE = {
    SourceState.OPEN: "green",
    SourceState.PAUSED: "yellow",
    SourceState.HALF_OPEN: "yellow",
    SourceState.DISABLED: "bold red",
    SourceState.HELD: "magenta",
}


@command_line.command(
    sort_key=8.3,
    help_epilogue=example(
        "onceward sources --app shop.tasks:app", "onceward sources --unhealthy --json --db sqlite:///shop.db"
    ),
)
def sources(
    *,
    unhealthy: Annotated[
        bool, Flag, Parameter(help="Only those that are closed or whose last call has failed; exit code 1 if any.")
    ] = False,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """List sources, each instance by itself: whether they are open, how they fare, and who waits for them.

    Rates and places are known with --app only.
    """
    with database(where) as app:
        now = target_app.present(app)
        found = [one for one in app.sources.list() if not (unhealthy and one.is_healthy)]

        def screen() -> Iterable[Any]:
            if found:
                yield _table(found, now)
            else:
                yield Text("every source is healthy" if unhealthy else "no source was used yet", "dim")

        answer(output, lambda: {"sources": [source_document(one) for one in found]}, screen)
    return BAD_ANSWER if unhealthy and found else FINE


@command_line.command(
    sort_key=8.4,
    help_epilogue=example(
        "onceward source web/example.com --app shop.tasks:app", "onceward source web --enable --db sqlite:///shop.db"
    ),
)
def source(
    name: Annotated[str, Parameter(name="NAME", help="A source, which means all its instances, or one as web/host.")],
    /,
    *,
    enable: Annotated[
        bool, Flag, Parameter(help="Open it, and forget its failures: also after it was disabled or paused itself.")
    ] = False,
    disable: Annotated[bool, Flag, Parameter(help="Let nothing pass before it is enabled.")] = False,
    pause: Annotated[
        bool, Flag, Parameter(help="Let nothing pass before it is resumed, new instances included.")
    ] = False,
    resume: Annotated[bool, Flag, Parameter(help="Take back a pause.")] = False,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Show how a source stands. Or enable, disable, pause or resume it."""
    asked = [word for word, given in _given(enable=enable, disable=disable, pause=pause, resume=resume) if given]
    if len(asked) > 1:
        raise ConfigError(f"give one of {', '.join(f'--{word}' for word in asked)}, not several")
    with database(where) as app:
        if asked:
            done = f"{asked[0].removesuffix('e')}ed"
            changed = _change(app, asked[0], name)
            answer(output, lambda: {done: changed}, lambda: [_done(done, one) for one in changed])
        else:
            now = target_app.present(app)
            found = app.sources.get(name)
            document = {"sources": [source_document(one) for one in found]}
            answer(output, lambda: document, lambda: _screen(found, now))
    return FINE


def _given(**flags: bool) -> Iterable[tuple[str, bool]]:
    return flags.items()


def _change(app: App, word: str, name: str) -> list[str]:
    match word:
        case "enable":
            return app.sources.enable(name)
        case "disable":
            return app.sources.disable(name)
        case "pause":
            app.workers.pause(source=name)
        case _:
            app.workers.resume(source=name)
    return [name]


Lineage = Annotated[
    str | None,
    Parameter(name="ID", help="The id of a lineage, or the number of a task: that task and all below it."),
]
PipelineName = Annotated[str | None, Parameter(help="All work of this kind.")]
SourceName = Annotated[str | None, Parameter(help="All work for this source, or for one instance of it, as web/host.")]
QueueName = Annotated[str | None, Parameter(help="All work in this queue.")]
Everything = Annotated[bool, Flag, Parameter(help="All work.")]


@command_line.command(
    sort_key=7.1,
    help_epilogue=example(
        "onceward pause 4711 --db sqlite:///shop.db",
        "onceward pause --pipeline order --db sqlite:///shop.db",
        "onceward pause --everything --db sqlite:///shop.db",
    ),
)
def pause(
    id: Lineage = None,
    /,
    *,
    pipeline: PipelineName = None,
    source: SourceName = None,
    queue: QueueName = None,
    everything: Everything = False,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Pause a lineage or a part of it, a pipeline, a source, a queue, or everything.

    Stages that run end in good order, and nothing begins before it is resumed.
    """
    _one_thing(id, pipeline, source, queue, everything)
    with database(where) as app:
        if id is not None:
            count = app.lineages.pause(id)
            answer(output, lambda: {"paused": id, "tasks": count}, lambda: [_counted("paused", count)])
        else:
            scope = app.workers.pause(pipeline=pipeline, source=source, queue=queue)
            answer(output, lambda: {"paused": scope}, lambda: [_done("paused", scope_text(scope))])
    return FINE


@command_line.command(
    sort_key=7.2,
    help_epilogue=example(
        "onceward resume 4711 --db sqlite:///shop.db", "onceward resume --pipeline order --db sqlite:///shop.db"
    ),
)
def resume(
    id: Lineage = None,
    /,
    *,
    pipeline: PipelineName = None,
    source: SourceName = None,
    queue: QueueName = None,
    everything: Everything = False,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Let what was paused go on: the same lineage, pipeline, source or queue, or everything."""
    _one_thing(id, pipeline, source, queue, everything)
    with database(where) as app:
        if id is not None:
            count = app.lineages.resume(id)
            answer(output, lambda: {"resumed": id, "tasks": count}, lambda: [_counted("resumed", count)])
        else:
            scope = app.workers.resume(pipeline=pipeline, source=source, queue=queue)
            answer(output, lambda: {"resumed": scope}, lambda: [_done("resumed", scope_text(scope))])
    return FINE


def _one_thing(id: str | None, pipeline: str | None, source: str | None, queue: str | None, everything: bool) -> None:
    said = [one is not None for one in (id, pipeline, source, queue)] + [everything]
    if sum(said) != 1:
        several = " just" if any(said) else ""
        raise ConfigError(f"give{several} one of: the ID of a lineage, --pipeline, --source, --queue, --everything")


def source_document(one: SourceStatus) -> Document:
    """A source in JSON; its keys are as stable as those of the others."""
    return {
        "name": one.name,
        "source": one.source,
        "instance": one.instance,
        "state": one.state.value,
        "healthy": one.is_healthy,
        "enabled": one.enabled,
        "streak": one.streak,
        "calls": one.calls,
        "failures": one.failures,
        "opened": one.opened,
        "last_success_at": iso(one.last_success_at),
        "last_failure_at": iso(one.last_failure_at),
        "last_error": one.last_error,
        "paused_until": iso(one.paused_until),
        "why": one.why,
        "tokens": one.tokens,
        "burst": one.burst,
        "inside": one.inside,
        "concurrency": one.concurrency,
        "hits": one.hits,
        "misses": one.misses,
        "hit_rate": one.hit_rate,
        "waiting": one.waiting,
        "waiting_since": iso(one.waiting_since),
        "known": one.is_known,
    }


def _table(found: Sequence[SourceStatus], now: datetime) -> Table:
    return table(
        ("source", "state", "streak", "calls", "failures", "success", "tokens", "places", "hits", "waiting"),
        (
            (
                one_line(one.name),
                _state(one, now),
                Text(f"{one.streak:,}", "red" if one.streak else "dim"),
                f"{one.calls:,}",
                f"{one.failures:,}",
                "" if one.last_success_at is None else time_of(one.last_success_at, now),
                _of(one.tokens, one.burst),
                _of(one.inside, one.concurrency),
                "" if one.hit_rate is None else f"{one.hit_rate:.0%}",
                f"{one.waiting:,}",
            )
            for one in found
        ),
        right=("streak", "calls", "failures", "tokens", "places", "hits", "waiting"),
        cut=("source",),
        first_out=("hits", "success", "places", "tokens", "streak"),
    )


def _state(one: SourceStatus, now: datetime) -> Text:
    until = "" if one.paused_until is None or one.state is not SourceState.PAUSED else f" {age(one.paused_until - now)}"
    return Text(f"{one.state.value}{until}", _STYLE[one.state])


def _of(count: int | None, most: int | None) -> str:
    return "" if count is None or most is None else f"{count:,}/{most:,}"


def _screen(found: Sequence[SourceStatus], now: datetime) -> Iterable[Any]:
    yield _table(found, now)
    for one in found:
        if one.why is not None:
            yield Text.assemble((f"{one.name}  ", "bold"), one_line(one.why))
        if one.last_error is not None and one.last_failure_at is not None:
            failed = f"failed {age(now - one.last_failure_at)} ago: {shortened(one.last_error, ERROR_LENGTH)}"
            yield Text.assemble((f"{one.name}  ", "bold"), (failed, "dim"))
        if one.waiting_since is not None:
            waits = f"{one.waiting:,} wait, the first for {age(now - one.waiting_since)}"
            yield Text.assemble((f"{one.name}  ", "bold"), (waits, "dim"))


def _done(word: str, name: str) -> Text:
    return Text.assemble((f"{word} ", "green"), one_line(name))


def _counted(word: str, count: int) -> Text:
    return Text.assemble((f"{word} ", "green"), f"{count:,} open task{'' if count == 1 else 's'}")
