"""The numbers of the engine: what the code says, overridden by `onceward.toml`, overridden by `ONCEWARD_…`.

Live settings in the database override all of these; `settings/effective.py` puts them on top.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from onceward.errors import ConfigError
from onceward.model.arguments import (
    checked_flag,
    checked_value,
    checked_values,
    checked_whole,
    checked_word,
    closest,
    shown,
    unknown_names,
)
from onceward.model.lineage import Bounds, Limits
from onceward.model.retry import MOST_RETRIES, USUAL_RETRIES, UsualRetries
from onceward.model.setting import RESERVED, Kind, Setting, Where, as_variable, kind_of_annotation
from onceward.model.source import MOST_AT_ONCE, USUAL_BREAKER, UsualBreaker
from onceward.model.times import Duration, duration_text, milliseconds
from onceward.model.watch_thresholds import Thresholds
from onceward.support.logs import EngineLog
from onceward.support.redaction import know_secret

logger = EngineLog("onceward.settings")

PREFIX = "ONCEWARD_"
FILE = "onceward.toml"
HEARTBEATS_PER_LEASE = 15
CHECKS_PER_LEASE = 5
FEWEST_HEARTBEATS_PER_LEASE = 3
SHORTEST_LEASE_MS = 100

DEFAULT_PROFILE = "balanced"
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "conservative": {"task_limit": "1h", "deadline": "24h", "chain": 1, "call_retries": 3},
    "balanced": {"task_limit": "2h", "deadline": "48h", "chain": 2, "call_retries": 6},
    "aggressive": {"task_limit": "4h", "deadline": "96h", "chain": 5, "call_retries": 10},
}
_RANGES = {
    "concurrency": (1, 100_000),
    "threads": (1, 10_000),
    "max_lost_workers": (1, 1_000_000),
    "retries": (0, MOST_RETRIES),
    "same_errors": (1, MOST_RETRIES),
    "call_retries": (0, 1_000_000),
    "breaker_failures": (1, MOST_AT_ONCE),
    "tick_tasks": (1, 1_000_000_000),
    "chain": (0, 1_000_000),
    "cache_size": (0, 2**60),
}
"""From where to where the whole numbers go. Beyond that a worker could not even begin, or no database hold them."""
_LEAST_MS = {"poll": 10, "heartbeat": 1, "check": 1, "watch_every": 1_000}
"""How often something may be looked at: oftener, and looking would be all that is done."""
_SOME_TIME = (
    "task_limit", "stage_timeout", "write_timeout", "database_wait", "call_timeout", "tick_limit", "tick_lease",
    "breaker_pause", "tick_every", "cache_ttl", "watch_every", "watch_window", "watch_snapshot",
)  # fmt: skip


def _number(default: Any, about: str, *, fixed: str | None = None) -> Any:
    """A field of the configuration: what it is, and why it cannot change while a worker runs, if it cannot."""
    return field(default=default, metadata={"about": about, "fixed": fixed})


def _secret(about: str) -> Any:
    """A field that is not shown: the address of a webhook is enough to write there."""
    return field(default=None, repr=False, metadata={"about": about, "fixed": None, "secret": True})


_BEGUN = "a worker keeps the one it began with, by which others tell whether it lives"


@dataclass(frozen=True, slots=True)
class Config:
    """Every number of the engine. Durations read "300s"; a heartbeat or check of None follows from the lease.

    `task_limit`, `deadline`, `chain` and `call_retries` are as the profile says where no other value is given.
    """

    lease: Duration = _number("300s", "How long a silent worker keeps its tasks.", fixed=_BEGUN)
    heartbeat: Duration | None = _number(None, "How often a worker says that it lives.", fixed=_BEGUN)
    check: Duration | None = _number(None, "How often a process looks for dead workers.")
    grace: Duration = _number("30s", "How long running stages get to end when a worker stops.")
    poll: Duration = _number("1s", "How often an idle worker looks for work without a notification.")
    concurrency: int = _number(100, "How many stages run at once in one process.")
    threads: int = _number(16, "How many of them may be plain functions.", fixed="a worker starts its threads once")
    max_lost_workers: int = _number(3, "After how many worker processes a task is quarantined.")
    max_depth: int = _number(10, "How many generations may descend from a root.")
    max_tasks: int = _number(10_000, "How many tasks a lineage may hold.")
    max_children: int = _number(1_000, "How many children a task may ask for.")
    deadline: Duration = _number(None, "How long a batch or lineage may take.")
    keep: Duration = _number("30d", "How long ended tasks are kept; then workers, or `prune`, delete them.")
    prepare: bool = _number(
        True, "Whether statements are prepared on the server.", fixed="it is about connections that are open"
    )
    profile: Literal["conservative", "balanced", "aggressive"] = _number(
        "balanced", "How much is risked: sets task_limit, deadline, chain and call_retries."
    )
    task_limit: Duration = _number(None, "How long a task may take since its first claim or its last finished stage.")
    stage_timeout: Duration = _number("30m", "How long an attempt of a stage may take that does not say so itself.")
    write_timeout: Duration = _number("5s", "How long the functions may take that a stage gives to ctx.write.")
    database_wait: Duration = _number("60s", "How long a call of an app insists while its database is away.")
    retries: int = _number(
        USUAL_RETRIES.retries, "How often a stage is tried again whose pipeline does not say so itself."
    )
    retry_base: Duration = _number(USUAL_RETRIES.base, "Up to how long the first retry waits; later ones twice that.")
    retry_cap: Duration = _number(USUAL_RETRIES.cap, "Up to how long any retry waits.")
    same_errors: int = _number(
        USUAL_RETRIES.same_errors, "How often in a row an error may come where time alone bounds the retries."
    )
    breaker_failures: int = _number(
        USUAL_BREAKER.failures, "After how many failures in a row a source is left alone that does not say so itself."
    )
    breaker_pause: Duration = _number(USUAL_BREAKER.pause, "How long it is left alone then.")
    call_timeout: Duration = _number("60s", "How long one outside call may take whose source does not say so itself.")
    call_retries: int = _number(None, "How often an outside call is repeated whose source does not say so itself.")
    tick_limit: Duration = _number("10m", "How long a tick claims work.")
    tick_tasks: int = _number(1_000, "How many tasks a tick claims.")
    tick_lease: Duration = _number("120s", "The lease of a tick.")
    tick_every: Duration = _number("5m", "How often ticks are scheduled.")
    chain: int = _number(None, "How many times a scheduled tick may trigger another one.")
    cache: bool = _number(True, "Whether answers of sources are kept for later requests.")
    cache_ttl: Duration = _number("1h", "How long an answer is kept whose source does not say so itself.")
    cache_size: int = _number(256 * 2**20, "How many bytes the kept answers may take before the oldest go.")
    watch_every: Duration = _number("5m", "How often the rules of the alerts are looked at.")
    watch_window: Duration = _number("1h", "How far back those rules look.")
    watch_samples: int = _number(20, "How many ended batches, ticks or workers a share needs; how large a backlog is.")
    watch_repeats: int = _number(3, "How often a lineage may ask for the same pipeline and key, refusals counted.")
    watch_key_repeats: int = _number(2, "How often a lineage may ask for the same key, whatever the pipeline.")
    watch_depth: int = _number(8, "How deep a lineage may grow before an alert.")
    watch_chain: float = _number(0.5, "The share of cycles of ticks that may reach the chain limit.")
    watch_timeouts: int = _number(100, "How many tasks may run out of time.")
    watch_batches: float = _number(0.1, "The share of batches that may fail.")
    watch_errors: float = _number(0.05, "The share of ticks, and of workers, that may end in an error.")
    watch_expired: int = _number(2, "For how many checks a lease may be over before an alert.")
    watch_reclaims: int = _number(2, "How often a task is taken back from lost workers before an alert.")
    watch_budget: float = _number(0.8, "At which share of a budget there is an alert, and again when it is spent.")
    watch_snapshot: Duration = _number("15m", "How old a state of PostgreSQL may be read before an alert.")
    watch_log: int = _number(256 * 2**20, "How many bytes the log of a SQLite file may have before an alert.")
    alert_webhook: str | None = _secret("The address that is told of alerts, http or https; empty for none.")
    alert_format: Literal["json", "slack"] = _number("json", "What it gets: all fields, or a text as Slack takes it.")
    lease_ms: int = field(init=False, repr=False)
    heartbeat_ms: int = field(init=False, repr=False)
    check_ms: int = field(init=False, repr=False)
    grace_ms: int = field(init=False, repr=False)
    poll_ms: int = field(init=False, repr=False)
    keep_ms: int = field(init=False, repr=False)
    task_limit_ms: int = field(init=False, repr=False)
    stage_timeout_ms: int = field(init=False, repr=False)
    write_timeout_ms: int = field(init=False, repr=False)
    database_wait_ms: int = field(init=False, repr=False)
    breaker_pause_ms: int = field(init=False, repr=False)
    call_timeout_ms: int = field(init=False, repr=False)
    tick_limit_ms: int = field(init=False, repr=False)
    tick_lease_ms: int = field(init=False, repr=False)
    tick_every_ms: int = field(init=False, repr=False)
    cache_ttl_ms: int = field(init=False, repr=False)
    watch_every_ms: int = field(init=False, repr=False)
    watch_window_ms: int = field(init=False, repr=False)
    watch_snapshot_ms: int = field(init=False, repr=False)
    thresholds: Thresholds = field(init=False, repr=False)
    """What the rules of the alerts hold for normal."""
    bounds: Bounds = field(init=False, repr=False)
    """The limits of a lineage for which none were set."""
    usual_retries: UsualRetries = field(init=False, repr=False)
    """How stages are tried again whose pipelines do not say so."""
    usual_breaker: UsualBreaker = field(init=False, repr=False)
    """When sources are left alone that do not say so."""
    given: frozenset[str] = field(init=False, repr=False, compare=False)
    """Those of the profile's fields that do not come from the profile."""

    def __post_init__(self) -> None:
        if not isinstance(self.profile, str) or self.profile not in PROFILES:
            raise ConfigError(f"there is no profile {shown(self.profile)}; the profiles are {', '.join(PROFILES)}")
        by_profile = PROFILES[self.profile]
        object.__setattr__(self, "given", frozenset(name for name in by_profile if getattr(self, name) is not None))
        for name in by_profile.keys() - self.given:
            object.__setattr__(self, name, by_profile[name])
        lease_ms = milliseconds(self.lease)
        for one_ms in (lease_ms, milliseconds(self.tick_lease)):
            if one_ms < SHORTEST_LEASE_MS:
                raise ConfigError(f"a lease of {duration_text(one_ms)} cannot be kept; take at least 0.1s")
        heartbeat_ms = lease_ms // HEARTBEATS_PER_LEASE if self.heartbeat is None else milliseconds(self.heartbeat)
        if heartbeat_ms * FEWEST_HEARTBEATS_PER_LEASE > lease_ms:
            raise ConfigError(
                f"a heartbeat every {duration_text(heartbeat_ms)} is too seldom for a lease of "
                f"{duration_text(lease_ms)}: at most every {duration_text(lease_ms // FEWEST_HEARTBEATS_PER_LEASE)}"
            )
        check_ms = lease_ms // CHECKS_PER_LEASE if self.check is None else milliseconds(self.check)
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            checked_whole(name, value, least, most)
        for name, least_ms in _LEAST_MS.items():
            value = getattr(self, name)
            if value is not None and milliseconds(value) < least_ms:
                raise ConfigError(f"{name}={value!r} is too often; take at least {duration_text(least_ms)}")
        for name in ("prepare", "cache"):
            checked_flag(name, getattr(self, name))
        limits = Limits(self.max_depth, self.max_tasks, self.max_children, self.deadline)
        assert limits.deadline_ms is not None
        bounds = Bounds(self.max_depth, self.max_children, limits.deadline_ms, self.max_tasks)
        object.__setattr__(self, "bounds", bounds)
        for name, value in (
            ("lease_ms", lease_ms),
            ("heartbeat_ms", max(1, heartbeat_ms)),
            ("check_ms", max(1, check_ms)),
            ("grace_ms", milliseconds(self.grace)),
            ("poll_ms", milliseconds(self.poll)),
            ("keep_ms", milliseconds(self.keep)),
        ):
            object.__setattr__(self, name, value)
        for name in _SOME_TIME:
            length_ms = milliseconds(getattr(self, name))
            if length_ms < 1:
                raise ConfigError(f"{name}={getattr(self, name)!r} leaves no time")
            object.__setattr__(self, f"{name}_ms", length_ms)
        usual = UsualRetries(self.retries, self.retry_base, self.retry_cap, self.same_errors)
        if milliseconds(usual.cap) < milliseconds(usual.base):
            raise ConfigError(f"retry_cap={usual.cap!r} is shorter than retry_base={usual.base!r}")
        object.__setattr__(self, "usual_retries", usual)
        object.__setattr__(self, "usual_breaker", UsualBreaker(self.breaker_failures, self.breaker_pause))
        _check_webhook(self.alert_webhook, self.alert_format)
        know_secret(self.alert_webhook)
        object.__setattr__(self, "thresholds", _thresholds(self))


def _thresholds(config: Config) -> Thresholds:
    return Thresholds(
        every_ms=config.watch_every_ms,
        window_ms=config.watch_window_ms,
        samples=config.watch_samples,
        repeats=config.watch_repeats,
        key_repeats=config.watch_key_repeats,
        depth=config.watch_depth,
        chain_share=config.watch_chain,
        chain=config.chain,
        timeouts=config.watch_timeouts,
        batch_share=config.watch_batches,
        error_share=config.watch_errors,
        tick_ms=config.tick_limit_ms + config.tick_lease_ms,
        expired_checks=config.watch_expired,
        check_ms=config.check_ms,
        reclaims=config.watch_reclaims,
        budget_share=config.watch_budget,
        snapshot_ms=config.watch_snapshot_ms,
        log_bytes=config.watch_log,
    )


def _check_webhook(address: str | None, form: str) -> None:
    checked_word("alert_format", form, ("json", "slack"))
    if address is None or address == "":
        return
    if not isinstance(address, str):
        raise ConfigError("alert_webhook: it is a text")
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits or any(not " " < letter < "\x7f" for letter in address):
        raise ConfigError("alert_webhook is no address; it begins with https:// or http:// and names a host")
    if "@" in urlsplit(address).netloc:
        raise ConfigError("alert_webhook: a name and a password before the host are not sent; leave them out")


ENGINE: Mapping[str, tuple[Kind, Mapping[str, Any]]] = {
    one.name: (kind_of_annotation(str(one.type)), one.metadata) for one in fields(Config) if one.init
}
"""Every number of the engine by name: of what kind it is, and what is to be said of it."""


class Level(NamedTuple):
    """What is said in one place: of the engine's numbers, and of the application's own, as texts.

    Naming a profile is saying the four values that it sets, in that place; what is said beside it is more precise.
    """

    where: Where
    values: Mapping[str, Any]
    own: Mapping[str, str] = {}


def declared(settings: Iterable[Setting]) -> dict[str, Setting]:
    """The settings of an application by name. Two of one name are refused, and those that the engine has already."""
    found: dict[str, Setting] = {}
    variables = {as_variable(name): name for name in ENGINE}
    for setting in checked_values("settings", settings, Setting, "Setting('page_size', 50, int, 'Rows read at once.')"):
        if setting.name in ENGINE:
            raise ConfigError(f"the engine has a setting {setting.name!r} already; call yours something else")
        if setting.name in found:
            raise ConfigError(f"two settings are called {setting.name!r}")
        variable = as_variable(setting.name)
        if variable in variables:
            raise ConfigError(f"settings {variables[variable]!r} and {setting.name!r} are both {PREFIX}{variable}")
        variables[variable] = setting.name
        found[setting.name] = setting
    return found


def with_profile(config: Config | None, profile: str | None) -> Config:
    """A config whose profile is another one; what it says itself stays."""
    if config is None:
        config = Config()
    checked_value("config", config, Config, "Config(lease='60s')")
    if profile is None or profile == config.profile:
        return config
    if config.profile != DEFAULT_PROFILE:
        raise ConfigError(f"App says profile={profile!r}, its config says {config.profile!r}; say it in one place")
    return Config(**{**_said(config), "profile": profile})


def levels(
    code: Config,
    declared: Mapping[str, Setting] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> tuple[Level, ...]:
    """What the code says, then the file in the working folder, then the environment."""
    declared = declared or {}
    environment = os.environ if environment is None else environment
    own = {name: setting.text for name, setting in declared.items()}
    return (
        Level("code", _said(code), own),
        _of_file(folder or Path.cwd(), declared),
        _of_variables(environment, declared),
    )


def merged(said: Sequence[Level]) -> tuple[Config, dict[str, Where]]:
    """The config that follows from levels, the last of which has the last word, and whence each number comes."""
    values: dict[str, Any] = {}
    where: dict[str, Where] = {}
    for level in said:
        if "profile" in level.values:
            for name in PROFILES[DEFAULT_PROFILE]:
                values.pop(name, None)
                where[name] = level.where
        values |= level.values
        where |= dict.fromkeys(level.values, level.where)
    return Config(**values), where


def effective(code: Config, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Config:
    """The config in force as long as it is not changed live."""
    return merged(levels(code, None, environment, folder))[0]


def _said(config: Config) -> dict[str, Any]:
    by_profile = PROFILES[config.profile].keys() - config.given
    return {name: getattr(config, name) for name in ENGINE if name not in by_profile}


def _of_file(folder: Path, declared: Mapping[str, Setting]) -> Level:
    path = folder / FILE
    if not path.is_file():
        return Level("file", {})
    import tomllib  # few have such a file

    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{FILE} cannot be read: {error}") from error
    values = {name: value for name, value in written.items() if not isinstance(value, dict)}
    _refuse_misplaced(written, declared)
    if unknown := sorted(values.keys() - ENGINE.keys()):
        raise ConfigError(f"{FILE} sets {unknown_names(unknown, list(ENGINE))}")
    own = _flat(written.get("settings", {}), declared) if declared else {}
    if unknown := sorted(own.keys() - declared.keys()):
        raise ConfigError(f"{FILE} sets in [settings] {unknown_names(unknown, list(declared))}")
    for name, value in values.items():
        ENGINE[name][0].text(value, f"{FILE}: {name}")
    return Level(
        "file", values, {name: declared[name].kind.text(value, f"{FILE}: {name}") for name, value in own.items()}
    )


def _refuse_misplaced(written: Mapping[str, Any], declared: Mapping[str, Setting]) -> None:
    """Refuse tables that nothing reads, and settings that stand elsewhere than where they are read."""
    for table in (name for name, value in written.items() if isinstance(value, dict) and name != "settings"):
        raise ConfigError(
            f"{FILE} has a table [{table}], which nothing reads: settings of the engine stand at the top of the file, "
            "before any table, and those of the application in [settings]"
        )
    if "settings" in written and not isinstance(written["settings"], dict):
        raise ConfigError(f"{FILE}: settings is a table, [settings], with the settings of the application")
    for name in sorted(written.get("settings", {}).keys() & ENGINE.keys()):
        raise ConfigError(
            f"{FILE} sets {name} in [settings]; it is a setting of the engine, and stands at the top of the file, "
            "before any table"
        )
    for name in sorted(name for name in written.keys() & declared.keys() if name != "settings"):
        raise ConfigError(
            f"{FILE} sets {name} at its top; it is a setting of the application, and stands in [settings]"
        )


def _flat(table: Mapping[str, Any], declared: Mapping[str, Setting], before: str = "") -> dict[str, Any]:
    """A table of settings, in which `match.min_score` may stand in a table `match`."""
    found: dict[str, Any] = {}
    for word, value in table.items():
        name = before + word
        if isinstance(value, dict) and name not in declared:
            found |= _flat(value, declared, f"{name}.")
        else:
            found[name] = value
    return found


_warned: set[str] = set()


def _warn_of_variable(variable: str, known: Mapping[str, str]) -> None:
    """Say once in the log that no setting reads a variable, if it is written nearly as one of a setting is."""
    word = variable.removeprefix(PREFIX)
    if variable in _warned or word.lower() in RESERVED:
        return
    meant = closest(word, [name.removeprefix(PREFIX) for name in known])
    if meant is not None:
        _warned.add(variable)
        logger.warning(f"no setting reads {variable}; did you mean {PREFIX}{meant}?")


def _of_variables(environment: Mapping[str, str], declared: Mapping[str, Setting]) -> Level:
    values: dict[str, Any] = {}
    own: dict[str, str] = {}
    named = {PREFIX + as_variable(name): name for name in (*ENGINE, *declared)}
    for variable, text in environment.items():
        name = named.get(variable, "")
        if not name and variable.startswith(PREFIX):
            _warn_of_variable(variable, named)
        if name in ENGINE:
            values[name] = ENGINE[name][0].value(text, variable)
        elif name in declared:
            kind = declared[name].kind
            own[name] = kind.text(kind.value(text, variable), variable)
    return Level("environment", values, own)
