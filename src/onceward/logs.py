"""Where the engine's log goes: to structlog if the application has set it up, otherwise to the standard library.

A library must not print by itself: without any set-up only warnings and errors reach stderr, as with any other.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # structlog brings rich with it: it is imported where the first line is written
    from structlog.typing import EventDict, Processor

Form = Literal["text", "json"]
VARIABLE = "ONCEWARD_LOG"
"""How the children of a supervisor are told the form: they take it from their environment."""


class EngineLog:
    """A logger that looks at each line anew where it should go, because the set-up comes after the import."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return getattr(bound_logger(self._name), method) if is_heard(self._name, method) else _nothing


def is_heard(name: str, method: str) -> bool:
    """Whether a line would be written. Where nobody has imported structlog, nobody has set it up."""
    level = logging.ERROR if method == "exception" else getattr(logging, method.upper())
    return "structlog" in sys.modules or logging.getLogger(name).isEnabledFor(level)


def _nothing(*_: Any, **__: Any) -> None:
    pass


def bound_logger(name: str) -> Any:
    """A structured logger, in the form that the application has chosen."""
    import structlog

    if structlog.is_configured():
        return structlog.get_logger(name)
    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, structlog.processors.format_exc_info, _as_one_line],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _as_one_line(_logger: Any, _method: str, event: EventDict) -> str:
    trace = event.pop("exception", None)
    text = " ".join([str(event.pop("event")), *(f"{name}={value!r}" for name, value in event.items())])
    return text if trace is None else f"{text}\n{trace}"


def configure(form: Form, *, level: int = logging.INFO) -> None:
    """Log to stderr from now on, in this process and in those that it starts.

    An application that has set up structlog itself keeps its own log, unless JSON lines were asked for.
    """
    import structlog

    os.environ[VARIABLE] = form
    if form == "text" and structlog.is_configured():
        return
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(*(("iso", True) if form == "json" else ("%H:%M:%S", False))),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[Processor]
    if form == "json":
        first.append(structlog.stdlib.add_logger_name)
        last = [_add_pid, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    else:
        last = [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
            )
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
    root.setLevel(level)


def configure_from_environment() -> None:
    """Log as the supervisor of this process was told to; without one, leave everything as it is."""
    form = os.environ.get(VARIABLE)
    if form in ("text", "json"):
        configure("json" if form == "json" else "text")


def _add_pid(_logger: object, _method: str, event: EventDict) -> EventDict:
    return {**event, "pid": os.getpid()}
