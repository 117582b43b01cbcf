"""Says, once for each method, that a blocking call of an app holds up the event loop that it was made on."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from onceward.support.logs import EngineLog

_ENGINE = str(Path(__file__).parents[1]) + os.sep
_told: set[str] = set()
_telling = threading.Lock()

logger = EngineLog("onceward.app")


def warn_on_loop() -> None:
    """Warn if an event loop runs in this thread, which stands still until the database has answered."""
    events = sys.modules.get("asyncio.events")  # a program that has no loop need not import it
    if events is None or events._get_running_loop() is None:
        return
    entry, caller = _entered_by(sys._getframe(1))
    call, advice = _call_and_advice(entry.f_locals.get("self"), entry.f_code.co_name)
    with _telling:
        if call in _told:
            return
        _told.add(call)
    logger.warning(
        f"{call} blocks the event loop it is called on until the database has answered; {advice}",
        at=f"{caller.f_code.co_filename}:{caller.f_lineno}",
    )


def _entered_by(frame: FrameType) -> tuple[FrameType, FrameType]:
    """The frame of the engine's method by which other code has come here, and the frame of that code."""
    while frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(_ENGINE):
        frame = frame.f_back
    return frame, frame.f_back or frame


def _call_and_advice(owner: Any, method: str) -> tuple[str, str]:
    """The call as its caller has written it, `app.tasks.get`, and what to write instead."""
    name = "app" if owner is None else getattr(owner, "_spoken", type(owner).__name__.lower())
    if method.startswith("__"):
        return f"with {name}", f"use: async with {name}"
    if hasattr(owner, f"a{method}"):
        return f"{name}.{method}", f"use: await {name}.a{method}(…)"
    return f"{name}.{method}", f"use: await asyncio.to_thread({name}.{method}, …)"
