"""What operators do to settings: see what is in force and why, and change it while workers run."""

from __future__ import annotations

import builtins
import os
from typing import Any

from onceward.client.awaited import awaited
from onceward.client.namespace import Namespace
from onceward.errors import ConfigError
from onceward.model import arguments
from onceward.model.setting import SettingValue
from onceward.store.operations import settings
from onceward.store.operations.settings import LiveSetting

LONGEST_AUTHOR = 200


class Settings(Namespace):
    """`app.settings`: the numbers in force, and those that may change while workers run."""

    def get(self, name: str) -> Any:
        """The value of a setting that is in force now, live ones as of a second ago at most."""
        self._client._look_at_settings()
        return self._client._in_force.value(name)

    aget = awaited(get)

    def list(self) -> builtins.list[SettingValue]:
        """Every setting: its value and default, where that was said, and who has changed it live and when."""
        self._client._look_at_settings(at_once=True)
        return self._client._in_force.values()

    alist = awaited(list)

    def parse(self, name: str, text: str) -> Any:
        """What a text means as a value of a setting, as it would stand in the environment: `"90s"`, `"true"`."""
        return self._client._in_force.kind(name).value(text, name)

    def set(self, name: str, value: Any, *, author: str | None = None) -> None:
        """Change a setting for all workers while they run; within a second or two they go by it.

        What is of the wrong type, out of range or in contradiction to other numbers is refused, and nothing changes.
        `author` is who does this, by default the user of this process.
        """
        kind = self._client._in_force.kind(name)
        text, about = kind.text(value, name), self._client._in_force.about(name)
        if why := self._client._in_force.why_fixed(name):
            raise ConfigError(f"{name} cannot be changed live: {why}; say it in onceward.toml or in the environment")
        new = LiveSetting(name, text, self._client._store.clock.now(), checked_author(author))
        self._client._in_force.take(
            self._client._transact(
                lambda: settings.change_setting(new, self._client._in_force.refuse, kind.word, about)
            )
        )

    aset = awaited(set)

    def unset(self, name: str) -> bool:
        """Take back a live change, so that a setting is what the environment, the file or the code says; returns
        whether there was one."""
        arguments.text_of(name, "name of a setting")
        rows = self._client._transact(lambda: settings.remove_setting(name, self._client._in_force.refuse))
        if rows is None:
            self._client._in_force.kind(name)  # a name that is not known is a typing error
            return False
        self._client._in_force.take(rows)
        return True

    aunset = awaited(unset)


def checked_author(author: str | None) -> str:
    """Who does something: the given one, or the user of this process."""
    if author is None:
        return _user()
    if (
        not isinstance(author, str)
        or not author.strip()
        or not arguments.is_held(author)
        or len(author) > LONGEST_AUTHOR
    ):
        raise ConfigError(f"author={arguments.shown(author)}: it is who does this, in at most {LONGEST_AUTHOR} letters")
    return author


def _user() -> str:
    import getpass  # it reads up on terminals, and few processes are asked

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run under a number that has no name
        return str(os.getuid())
