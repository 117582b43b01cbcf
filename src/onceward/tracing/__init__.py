"""Traces of OpenTelemetry: a span for every stage and task, in a trace that is the lineage. It needs the extra `otel`.

Nothing of it is imported, and nothing is paid, before a program calls `install`:

    from onceward import tracing

    tracing.install()                            # exports by OTLP, as OTEL_EXPORTER_OTLP_ENDPOINT and its like say
    app = App(…)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from onceward import extras
from onceward.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

__all__ = ["Tracing", "install"]


class Tracing(Protocol):
    """Tracing that is switched on in this process."""

    def flush(self) -> None:
        """Export what was kept, now."""

    def close(self) -> None:
        """Export what was kept and switch tracing off."""


def install(provider: TracerProvider | None = None) -> Tracing:
    """Switch tracing on in this process and in those that import the same module, such as the workers of a supervisor.

    Spans go to `provider`, or to the provider of this process if it has one of the SDK, or else to a new one that
    exports by OTLP over HTTP, set up by the variables of OpenTelemetry. Called again it changes nothing.
    """
    try:
        from onceward.tracing import spans
    except ModuleNotFoundError as error:
        raise ConfigError(extras.missing(error.name or "") or str(error)) from error
    return spans.install(provider)
