"""The settings: every number in force, where it was said and by whom, and live changes."""

from __future__ import annotations

from datetime import timedelta
from shlex import quote
from typing import Any

import msgspec

from onceward.model.setting import SettingValue, exact_duration_text
from onceward.web.answers import Done, Page
from onceward.web.roles import Role
from onceward.web.route import Answer, Route, action, page
from onceward.web.view import View

CHANGES_LOOKED_AT = 300
CHANGES = 20


async def show(view: View) -> Answer:
    """Show all settings, or those that a word is about."""
    sought = view.query.get("name", "").strip().lower()
    found = await view.app.settings.alist()
    matching = [one for one in found if sought in one.name.lower() or sought in one.about.lower()]
    matching.sort(key=lambda one: (one.where != "live", one.name))
    changes = []
    if view.caller.may(Role.ADMIN):
        log = await view.app.audit.alist(limit=CHANGES_LOOKED_AT)
        changes = [one for one in log if one.action.startswith("POST /settings/")][:CHANGES]
    values = {
        "settings": [(one, text_of(one, one.value), text_of(one, one.default)) for one in matching],
        "sought": sought,
        "count": len(found),
        "changes": changes,
    }
    return Page("settings.html", values, "Settings", "settings", refresh_s=None)


def text_of(one: SettingValue, value: Any) -> str:
    """Write a value as it would be typed; a secret one is not shown."""
    if one.is_secret:
        return "set, not shown" if value else "not set"
    if value is None:
        return "none"
    if isinstance(value, timedelta):
        return exact_duration_text(int(value.total_seconds() * 1_000))
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


async def change(view: View) -> Answer:
    """Change a setting for all workers while they run."""
    form = await view.form()
    name, text = form.get("name", ""), form.get("value", "")
    settings = view.app.settings
    await settings.aset(name, settings.parse(name, text), author=view.caller.name)
    now = {one.name: one for one in await settings.alist()}[name]
    said = f"{name} is now {text_of(now, now.value)}; workers go by it within two seconds."
    shown = "…" if now.is_secret else text
    return Done(said, "/settings", 1, f"onceward settings {quote(name)} {quote(shown)}")


async def unset(view: View) -> Answer:
    """Take back a live change, so that the environment, the file and the code count again."""
    name = (await view.form()).get("name", "")
    was_set = await view.app.settings.aunset(name)
    said = f"{name} is as the environment, the file or the code says." if was_set else f"{name} was not changed live."
    return Done(said, "/settings", int(was_set), f"onceward settings {quote(name)} --unset")


ROUTES: list[Route] = [
    page("/settings", show),
    action("/settings/set", change, "Change a setting for all workers while they run.", role=Role.ADMIN),
    action("/settings/unset", unset, "Take back a live change of a setting.", role=Role.ADMIN),
]
