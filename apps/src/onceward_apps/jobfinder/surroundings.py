"""What a worker of the job finder stands in: the person's profile, the way to the web, and where boards are.

All of it comes from the environment, so that every worker process of a command has the same:

- `ONCEWARD_JOBS_PROFILE` names the profile.
- `ONCEWARD_JOBS_WEB` is a JSON object with the fields of `Web`: rates, and for tests and demos loopback addresses.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from onceward import ConfigError
from onceward_apps.jobfinder import profile as profiles
from onceward_apps.jobfinder.fetching import Fetcher, FetchLimits
from onceward_apps.jobfinder.network import resolve
from onceward_apps.jobfinder.profile import Profile

PROFILE, WEB = "ONCEWARD_JOBS_PROFILE", "ONCEWARD_JOBS_WEB"


class Web(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the web is reached."""

    rate: str = "60/min"
    """How often each host may be asked."""
    burst: int = 6
    concurrency: int = 2
    """How many may ask a host at once."""
    breaker_pause: str = "5m"
    """How long a host is left alone after five failures in a row."""
    contact: str | None = None
    """An address that the user agent names, for those who want us to behave otherwise."""
    loopback: bool = False
    """Whether addresses of this machine may be asked: for tests and demos."""
    robots: bool = True
    total_s: float = 30.0
    hosts: dict[str, str] = {}
    """Where to send what is meant for a board's host: `{"api.lever.co": "http://127.0.0.1:8000"}`."""
    names: dict[str, str] = {}
    """Addresses of hosts, asked before any name server: `{"*.example": "127.0.0.1"}`."""
    stand_ins: dict[str, str] = {}
    """Where hosts are served instead, in plain HTTP, as an invented web is: `{"*": "127.0.0.1:8000"}`."""


def profile_path() -> Path:
    """The file of the profile: what the environment names, or the user's own."""
    named = os.environ.get(PROFILE)
    if named:
        return Path(named).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "onceward-jobs" / "profile.toml"


def profile() -> Profile:
    """The profile, read again when its file has changed. ConfigError if there is none, or it is invalid."""
    path = profile_path()
    try:
        changed_at = path.stat().st_mtime_ns
    except OSError:
        changed_at = 0
    return _profile(path, changed_at)


def web() -> Web:
    """How the web is reached."""
    return _web(os.environ.get(WEB, "{}"))


def fetcher() -> Fetcher:
    """The one that fetches, shared by all stages of this process."""
    return _fetcher(web())


@lru_cache(maxsize=4)
def _profile(path: Path, changed_at: int) -> Profile:
    return profiles.read(path)


@lru_cache(maxsize=4)
def _web(text: str) -> Web:
    try:
        return msgspec.json.decode(text, type=Web)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{WEB}: {error}") from error


_fetchers: dict[int, tuple[Web, Fetcher]] = {}


def _fetcher(web: Web) -> Fetcher:
    known = _fetchers.get(id(web))
    if known is None or known[0] is not web:

        async def lookup(host: str, port: int) -> Iterable[str]:
            parent = host.partition(".")[2]
            own = web.names.get(host) or web.names.get(f"*.{parent}")
            return [own] if own else await resolve(host, port)

        logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for every request would hide the others
        limits = FetchLimits(total_s=web.total_s)
        made = Fetcher(
            limits,
            allow_loopback=web.loopback,
            contact=web.contact,
            obey_robots=web.robots,
            resolve=lookup,
            stand_ins=web.stand_ins,
        )
        known = _fetchers[id(web)] = (web, made)
    return known[1]
