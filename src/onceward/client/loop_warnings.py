"""Says, once for each method, that a blocking call of an app holds up the event loop that it was made on."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import FrameType

from onceward.support.logs import EngineLog

_ENGINE = str(Path(__file__).parents[1]) + os.sep
_told: set[str] = set()
_telling = threading.Lock()

logger = EngineLog("onceward.app")


def warn_on_loop(app: type) -> None:
    """Warn if an event loop runs in this thread, which stands still until the database has answered."""
    events = sys.modules.get("asyncio.events")  # a program that has no loop need not import it
    if events is None or events._get_running_loop() is None:
        return
    method, caller = _called_by(sys._getframe(1))
    with _telling:
        if method in _told:
            return
        _told.add(method)
    logger.warning(
        f"app.{method} blocks the event loop it is called on until the database has answered; {_instead(app, method)}",
        at=f"{caller.f_code.co_filename}:{caller.f_lineno}",
    )


def _called_by(frame: FrameType) -> tuple[str, FrameType]:
    """The method of the engine by which other code has come here, and the frame of that code."""
    while frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(_ENGINE):
        frame = frame.f_back
    return frame.f_code.co_name, frame.f_back or frame


def _instead(app: type, method: str) -> str:
    if method.startswith("__"):
        return "use: async with"
    if hasattr(app, f"a{method}"):
        return f"use: await app.a{method}(…)"
    return f"use: await asyncio.to_thread(app.{method}, …)"
