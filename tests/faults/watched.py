"""An application with a watch of its own, for worker processes that look for trouble."""

from __future__ import annotations

import os

from onceward import App, Context, Payload, Pipeline, Watch

DATABASE = "WATCHED_DATABASE"


class Note(Payload, kind="note"):
    text: str


note = Pipeline(Note)


@note.stage
def read(ctx: Context[Note]) -> None:
    """Nothing to do."""


app = App(
    os.environ.get(DATABASE, "sqlite:///:memory:"),
    pipelines=[note],
    watches=[Watch("always", "SELECT 1", above=0, advice="Look away.")],
)
