"""The settings in force in a process: those of the code, the file and the environment, and above them the live ones.

One object for a whole process. The thread that looks at the table hands it the rows; all others read what follows from
them. A live value that does not go with the others here (the file says something else by now) is told of and left out:
a worker works on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onceward.authoring.registry import Registry
from onceward.errors import ConfigError
from onceward.model.arguments import closest, text_of
from onceward.model.setting import Kind, Setting, SettingValue, Where
from onceward.model.times import moment
from onceward.settings import config as configuration
from onceward.settings.config import ENGINE, Config, Level
from onceward.settings.consistency import check
from onceward.store.drivers.session import Session
from onceward.store.operations.settings import LiveSetting, read_live_settings
from onceward.support.logs import EngineLog

LOOK_EVERY_MS = 1_000

logger = EngineLog("onceward.settings")


class EffectiveSettings:
    """What is said of every setting, and what follows."""

    def __init__(self, said: Sequence[Level], declared: Mapping[str, Setting], registry: Registry) -> None:
        self._said = tuple(said)
        self._declared = declared
        self._registry = registry
        self._pinned: Mapping[str, Any] = {}
        self._live: tuple[LiveSetting, ...] = ()
        self._complained: frozenset[LiveSetting] = frozenset()
        self._told: list[Callable[[Config], None]] = []
        self._lock = threading.Lock()
        self._looked_at: int | None = None
        self._take_over(*self._following(()))

    def _take_over(self, config: Config, where: Mapping[str, Where], own: Mapping[str, str]) -> None:
        self.config = config
        self._where = where
        self._own = own

    def _following(self, rows: Sequence[LiveSetting]) -> tuple[Config, Mapping[str, Where], Mapping[str, str]]:
        """What follows if these are the live ones; a contradiction is refused."""
        levels = [*self._said, self._level_of(rows)]
        config, where = configuration.merged([*levels, Level("code", self._pinned)])
        check(config, self._registry)
        own = {name: text for level in levels for name, text in level.own.items()}
        where |= {name: level.where for level in levels for name in level.own}
        return config, where, own

    def _level_of(self, rows: Sequence[LiveSetting]) -> Level:
        values = {row.name: ENGINE[row.name][0].value(row.value, row.name) for row in rows if row.name in ENGINE}
        own = {row.name: row.value for row in rows if row.name in self._declared}
        for name, text in own.items():
            self._declared[name].kind.value(text, name)
        return Level("live", values, own)

    def check(self) -> None:
        """Refuse contradictions with pipelines that have got their stages since."""
        check(self.config, self._registry)

    def tell(self, listener: Callable[[Config], None]) -> None:
        """Call a function whenever the engine's numbers have changed, in the thread that has seen it."""
        self._told.append(listener)

    def pin(self, **values: Any) -> None:
        """Fix numbers of the engine for this process, whatever the live ones say. What is refused is not pinned."""
        before = self._pinned
        self._pinned = values
        try:
            self._adopt(self._live)
        except ConfigError:
            self._pinned = before
            raise

    # Looking

    def look(self, session: Session) -> None:
        """Read the table, and go on with what it says."""
        self._looked_at = session.clock.monotonic()
        self.take(session.ask(read_live_settings))

    def look_if_time(self, session: Session) -> bool:
        """`look`, unless another thread has a moment ago; whether it was time."""
        is_time = self._looked_at is None or session.clock.monotonic() - self._looked_at >= LOOK_EVERY_MS
        if is_time:
            self.look(session)
        return is_time

    def take(self, rows: Sequence[LiveSetting]) -> None:
        """Go on with these live settings."""
        if tuple(rows) != self._live:
            self._adopt(rows)

    def _adopt(self, rows: Sequence[LiveSetting]) -> None:
        with self._lock:
            before = self.config
            try:
                following = self._following(rows)
            except ConfigError:
                following = self._following(self._that_go_together(rows))
            self._live = tuple(rows)
            self._take_over(*following)
        if self.config != before:
            for listener in self._told:
                listener(self.config)

    def _that_go_together(self, rows: Sequence[LiveSetting]) -> list[LiveSetting]:
        fine: list[LiveSetting] = []
        refused = set()
        for row in rows:
            try:
                self._following([*fine, row])
            except ConfigError as error:
                refused.add(row)
                if row not in self._complained:
                    logger.warning("a live setting is left out", setting=row.name, reason=str(error))
            else:
                fine.append(row)
        self._complained = frozenset(refused)
        return fine

    def refuse(self, rows: Sequence[LiveSetting]) -> None:
        """Raise if these live settings contradict each other or the rest."""
        self._following(rows)

    # Asking

    def kind(self, name: str) -> Kind:
        """Of what kind a setting is; one that is not declared is refused."""
        if text_of(name, "name of a setting") in ENGINE:
            return ENGINE[name][0]
        if name in self._declared:
            return self._declared[name].kind
        known = [*self._declared, *ENGINE]
        meant = closest(name, known)
        hint = f"did you mean {meant}?" if meant else f"there are: {', '.join(known)}"
        raise ConfigError(f"there is no setting {name!r}; {hint}")

    def about(self, name: str) -> str:
        """What a setting is for, in a sentence."""
        return str(ENGINE[name][1]["about"]) if name in ENGINE else self._declared[name].about

    def why_fixed(self, name: str) -> str | None:
        """Why a setting cannot be changed while workers run, if it cannot."""
        return ENGINE[name][1].get("fixed") if name in ENGINE else None

    def value(self, name: str) -> Any:
        """The value in force."""
        kind = self.kind(name)
        if name in self._own:
            return kind.value(self._own[name], name)
        value = getattr(self.config, name)
        return None if value is None else kind.value(kind.text(value, name), name)

    def values(self) -> list[SettingValue]:
        """Every setting: the application's own first, then the engine's, then what is not declared here."""
        changed = {row.name: row for row in self._live}
        default = Config()
        found = [
            self._described(name, one.kind.value(one.text, name), one.about, changed.get(name))
            for name, one in self._declared.items()
        ]
        for name, (kind, metadata) in ENGINE.items():
            usual = getattr(default, name)
            usual = None if usual is None else kind.value(kind.text(usual, name), name)
            found.append(self._described(name, usual, metadata.get("about", ""), changed.get(name)))
        strangers = [row for row in self._live if row.name not in self._declared and row.name not in ENGINE]
        return found + [
            SettingValue(
                row.name, row.value, None, "unknown", "Not declared here.", "live", moment(row.at), row.author, None
            )
            for row in strangers
        ]

    def _described(self, name: str, default: Any, about: str, row: LiveSetting | None) -> SettingValue:
        return SettingValue(
            name, self.value(name), default, self.kind(name).word, about, self._where[name],
            None if row is None else moment(row.at), None if row is None else row.author, self.why_fixed(name),
            name in ENGINE and ENGINE[name][1].get("secret", False),
        )  # fmt: skip
