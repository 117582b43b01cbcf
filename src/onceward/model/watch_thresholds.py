"""The thresholds of the rules that look for trouble: what is still normal."""

from __future__ import annotations

from dataclasses import dataclass

from onceward.errors import ConfigError
from onceward.model.arguments import shown
from onceward.model.times import duration_text

MOST, MOST_CHECKS, MOST_BYTES = 1_000_000_000, 1_000_000, 2**60
DEEPEST = 32_767
"""How far thresholds go: beyond that no database holds them, and the rule would fail at every look."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What is still normal. Shares are parts of 1."""

    every_ms: int
    window_ms: int
    samples: int
    repeats: int
    key_repeats: int
    depth: int
    chain_share: float
    chain: int
    """How often a tick may trigger another: what the chain rule measures."""
    timeouts: int
    batch_share: float
    error_share: float
    tick_ms: int
    """After how long a tick that has not said how it ended is dead."""
    expired_checks: int
    check_ms: int
    reclaims: int
    budget_share: float
    snapshot_ms: int
    log_bytes: int

    def __post_init__(self) -> None:
        for name, value, most in (
            ("watch_samples", self.samples, MOST),
            ("watch_repeats", self.repeats, MOST),
            ("watch_key_repeats", self.key_repeats, MOST),
            ("watch_depth", self.depth, DEEPEST),
            ("watch_timeouts", self.timeouts, MOST),
            ("watch_expired", self.expired_checks, MOST_CHECKS),
            ("watch_reclaims", self.reclaims, MOST),
            ("watch_log", self.log_bytes, MOST_BYTES),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise ConfigError(f"{name}={shown(value)}: it is a whole number from 1 to {most:,}")
        for name, share in (
            ("watch_chain", self.chain_share),
            ("watch_batches", self.batch_share),
            ("watch_errors", self.error_share),
            ("watch_budget", self.budget_share),
        ):
            if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1:
                raise ConfigError(f"{name}={shown(share)}: it is a share above 0 and up to 1, like 0.05")

    @property
    def span(self) -> str:
        """The time that is looked at, in words."""
        return f"the last {duration_text(self.window_ms)}"
