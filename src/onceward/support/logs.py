"""Where the engine's log goes: to structlog if the application has set it up, otherwise to the standard library.

A library must not print by itself: without any set-up only warnings and errors reach stderr, as with any other.
Secrets are taken out before a line is written.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal, get_args

from onceward.harmless import harmless_lines
from onceward.support.redaction import redacted, redacted_value

if TYPE_CHECKING:  # structlog brings rich with it: it is imported where the first line is written
    from structlog.typing import EventDict, Processor

Form = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)
VARIABLE = "ONCEWARD_LOG"
"""How the children of a supervisor are told form, level and package: they take it from their environment."""


class EngineLog:
    """A logger that looks at each line anew where it should go, because the set-up comes after the import."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return getattr(bound_logger(self._name), method) if is_heard(self._name, method) else _nothing


FIELDS = ("task", "kind", "lineage")
"""What every line says that a stage has logged, also through the standard library: there with `onceward_` before it."""
StageFields = Callable[[], Mapping[str, Any] | None]
_stage_fields: StageFields = dict


@contextmanager
def stages_in_records(fields: StageFields) -> Iterator[None]:
    """While this lasts, let every record that a stage logs say which task it belongs to."""
    global _stage_fields
    before, fields_before = logging.getLogRecordFactory(), _stage_fields

    def make(*args: Any, **options: Any) -> logging.LogRecord:
        record = before(*args, **options)
        for name, value in (fields() or {}).items():
            setattr(record, f"onceward_{name}", value)
        return record

    logging.setLogRecordFactory(make)
    _stage_fields = fields
    try:
        yield
    finally:
        _stage_fields = fields_before
        if logging.getLogRecordFactory() is make:  # or another library has put its own before it
            logging.setLogRecordFactory(before)


def _with_stage(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A line with the task of the stage that has logged it."""
    known = _stage_fields() or {}
    for name in FIELDS:
        value = event.pop(f"onceward_{name}", known.get(name))
        if value is not None:
            event.setdefault(name, value)
    return event


def stopping(stages: int, *, is_away: bool = False) -> str:
    """The line that says what a worker waits for that was told to stop."""
    if is_away:
        return "stopping: the database is away, Ctrl-C again not to wait for it"
    if not stages:
        return "stopping: no stage runs"
    several, them = ("", "it") if stages == 1 else ("s", "them")
    return f"stopping: waiting for {stages} stage{several}, Ctrl-C again to end {them}"


def is_heard(name: str, method: str) -> bool:
    """Whether a line would be written. Where structlog was not imported, it was not set up."""
    level = logging.ERROR if method == "exception" else getattr(logging, method.upper())
    return "structlog" in sys.modules or logging.getLogger(name).isEnabledFor(level)


def _nothing(*_: Any, **__: Any) -> None:
    pass


def bound_logger(name: str) -> Any:
    """A structured logger, in the form that the application has chosen, and without secrets."""
    import structlog

    if structlog.is_configured():
        config = structlog.get_config()
        chosen = config["processors"]
        heard = [
            one for one in chosen[:1] if one is structlog.stdlib.filter_by_level
        ]  # what is not heard costs nothing
        processors = [*heard, _without_secrets, *chosen[len(heard) :]]
        wrapper = _with_traces_as_text(config["wrapper_class"])
        return structlog.wrap_logger(None, processors, wrapper, logger_factory_args=(name,))
    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, _without_secrets, _as_one_line],
        wrapper_class=_with_traces_as_text(structlog.stdlib.BoundLogger),
    )


@cache
def _with_traces_as_text(wrapper: Any) -> Any:
    """A class of loggers whose `exception` is an `error` with the trace as a value: the standard library would write a
    trace of its own under the line of an `exception`."""

    def exception(self: Any, event: str, *args: Any, **values: Any) -> Any:
        return self.error(event, *args, **{"exc_info": sys.exc_info(), **values})

    def aexception(self: Any, event: str, *args: Any, **values: Any) -> Any:
        return self.aerror(event, *args, **{"exc_info": sys.exc_info(), **values})

    return type(wrapper.__name__, (wrapper,), {"exception": exception, "aexception": aexception})


def _without_secrets(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """A line before it is rendered; the trace of an error as a text, because its messages may hold anything."""
    error = event.pop("exc_info", None)
    clean: EventDict = {name: redacted_value(value, name) for name, value in event.items()}
    if isinstance(error, tuple):
        error = error[1]
    elif error and not isinstance(error, BaseException):
        error = sys.exc_info()[1]
    if error:
        clean["exception"] = redacted("".join(traceback.format_exception(error)).rstrip())
    return clean


def _as_one_line(_logger: Any, _method: str, event: EventDict) -> str:
    trace = event.pop("exception", None)
    text = " ".join([str(event.pop("event")), *(f"{name}={value!r}" for name, value in event.items())])
    return text if trace is None else f"{text}\n{trace}"


def configure(form: Form, *, level: Level = "info", own: str = "") -> None:
    """Log to stderr from now on, in this process and in those that it starts.

    The level is that of the engine and of loggers below `own`, the package of the application; other libraries log
    warnings. An application that has set up structlog itself keeps its own log, unless JSON lines were asked for.
    """
    import structlog

    os.environ[VARIABLE] = f"{form} {level} {own}"
    if form == "text" and structlog.is_configured():
        return
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        _with_stage,
        structlog.processors.TimeStamper(*(("iso", True) if form == "json" else ("%H:%M:%S", False))),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[Processor]
    if form == "json":
        first.append(structlog.stdlib.add_logger_name)
        last = [_add_pid, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str), _last]
    else:
        last = [
            _without_orders,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
            ),
            _last,
        ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *first,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=first,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(logging.WARNING, _number(level)))
    for name in filter(None, ("onceward", "onceward_apps", own)):
        logging.getLogger(name).setLevel(_number(level))


def configure_from_environment() -> None:
    """Log as the supervisor of this process was told to; without one, leave everything as it is."""
    form, _, rest = os.environ.get(VARIABLE, "").partition(" ")
    if form in ("text", "json"):
        level, _, own = rest.partition(" ")
        configure("json" if form == "json" else "text", level=level if level in LEVELS else "info", own=own)


def _number(level: Level) -> int:
    return int(getattr(logging, level.upper()))


def _without_orders(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A line before it goes to a terminal: in what it says and in the trace of an error, what a terminal would obey is
    shown instead. Other values are quoted by the renderer."""
    from structlog.dev import plain_traceback

    error = event.pop("exc_info", None)
    if isinstance(error, BaseException):
        error = (type(error), error, error.__traceback__)
    elif error and not isinstance(error, tuple):
        error = sys.exc_info()
    if error and error[0] is not None:
        trace = StringIO()
        plain_traceback(trace, error)
        event["exception"] = trace.getvalue().strip("\n")
    for name in ("event", "exception"):
        if isinstance(event.get(name), str):
            event[name] = harmless_lines(event[name])
    return event


def _last(_logger: object, _method: str, line: Any) -> Any:
    """A line as it is written, also one of another library: without secrets."""
    return redacted(line) if isinstance(line, str) else line


def _add_pid(_logger: object, _method: str, event: EventDict) -> EventDict:
    return {**event, "pid": os.getpid()}
