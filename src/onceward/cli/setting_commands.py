"""The command about settings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from onceward.app import App
from onceward.cli import target_app
from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.documents import Document, iso
from onceward.cli.exits import FINE
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Flag, Output, Where
from onceward.cli.tables import table
from onceward.cli.target_app import database
from onceward.cli.words import shortened, time_of
from onceward.errors import ConfigError
from onceward.model.setting import KINDS, SettingValue

VALUE_LENGTH = 40
SECRET = "(set, not shown)"


@command_line.command(
    sort_key=8.3,
    help_epilogue=example(
        "onceward settings --app shop.tasks:app",
        "onceward settings concurrency 50 --db sqlite:///shop.db",
        "onceward settings concurrency --unset --db sqlite:///shop.db",
    ),
)
def settings(
    name: Annotated[str | None, Parameter(name="NAME", help="The setting; without it all are listed.")] = None,
    value: Annotated[
        str | None,
        Parameter(
            name="VALUE",
            allow_leading_hyphen=True,
            help="What it is to be from now on, for all workers while they run.",
        ),
    ] = None,
    /,
    *,
    unset: Annotated[
        bool,
        Flag,
        Parameter(help="Take back what was changed live: the environment, the file and the code count again."),
    ] = False,
    author: Annotated[str | None, Parameter(help="Who changes it; by default the user who runs this.")] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Show what is in force and where it was said, or change a setting while workers run.

    Without --app only the engine's settings are known. Workers go by a change within a second or two.
    """
    if unset and (name is None or value is not None):
        raise ConfigError("--unset takes the name of a setting, and no value")
    with database(where) as app:
        if unset:
            assert name is not None
            was_there = app.settings.unset(name)
            said = f"{name} is {_said(app, name)}{'' if was_there else '; it was not set'}"
            answer(output, lambda: {"unset": name, "was_set": was_there}, lambda: [Text(said)])
        elif value is not None:
            assert name is not None
            app.settings.set(name, app.settings.parse(name, value), author=author)
            said = f"{name} is {_said(app, name) or 'empty'} for all workers from now on"
            answer(output, lambda: setting_document(_found(app.settings.list(), name)), lambda: [Text(said)])
        else:
            found = app.settings.list() if name is None else [_found(app.settings.list(), name)]
            now = target_app.present(app)
            answer(
                output,
                lambda: {"settings": [setting_document(one) for one in found]},
                lambda: [_settings_table(found, now)],
            )
    return FINE


def setting_document(one: SettingValue) -> Document:
    """A setting, with its value in force. Durations are texts."""
    return {
        "name": one.name,
        "value": SECRET if one.is_secret and one.value else _plain(one.value),
        "default": _plain(one.default),
        "type": one.type,
        "about": one.about,
        "source": one.where,
        "changed_at": iso(one.changed_at),
        "changed_by": one.changed_by,
        "live": one.why_fixed is None,
        "why_fixed": one.why_fixed,
    }


def _found(settings: Sequence[SettingValue], name: str) -> SettingValue:
    for one in settings:
        if one.name == name:
            return one
    raise ConfigError(f"there is no setting {name!r}; there are: {', '.join(one.name for one in settings)}")


def _said(app: App, name: str) -> str:
    found = _found(app.settings.list(), name)
    return _text(found, found.value)


def _settings_table(found: Sequence[SettingValue], now: datetime) -> Table:
    return table(
        ("name", "value", "default", "source", "changed", "by", "what it is"),
        (
            (
                one.name,
                Text(_text(one, one.value), "" if one.value == one.default else "bold"),
                _text(one, one.default),
                Text(one.where, "cyan" if one.where == "live" else "dim"),
                "" if one.changed_at is None else time_of(one.changed_at, now),
                shortened(one.changed_by or "", VALUE_LENGTH),
                shortened(one.about, 200),
            )
            for one in found
        ),
        cut=("what it is",),
        first_out=("by", "changed", "default"),
    )


def _text(one: SettingValue, value: Any) -> str:
    if one.is_secret and value:
        return SECRET
    kind = KINDS.get(one.type)
    return "" if value is None else shortened(value if kind is None else kind.text(value, one.name), VALUE_LENGTH)


def _plain(value: Any) -> Any:
    return KINDS["duration"].text(value, "a duration") if isinstance(value, timedelta) else value
