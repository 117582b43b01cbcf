"""What the code of the app says of the stages of its pipelines."""

from __future__ import annotations

from onceward.app import App


def first_stage(app: App, kind: str) -> str:
    """Return the first stage of a kind: that of a task which has finished none. Without its code it has no name."""
    if kind not in app._registry.kinds:
        return "the first"
    stages = app._registry[kind].stages
    return stages[0].name if stages else "the first"
