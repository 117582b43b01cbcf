"""What a process asks for, and what it was given and has not begun: it claims ahead of its free slots, no further.

How far ahead follows from how fast tasks have ended of late, how long their stages took, and how long a claim takes.
Tasks that need a thread as soon as they begin are claimed for threads as others are for slots. Work behind gates is
claimed only for a slot that is free or will be within milliseconds, so that no task holds a place there without using
it. Where what runs takes longer than was thought, those who wait for its slots are given back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from onceward.model.task import Lease
from onceward.settings.config import Config
from onceward.store.lines.memory import ANY_NUMBER, Line
from onceward.worker import crash_points
from onceward.worker.attempt import Attempt
from onceward.worker.writer import Wish, Written

AHEAD_MS = 50
"""How far ahead is claimed, beside twice the time that a claim takes: one is under way while what the one before it has
brought begins."""
GOVERNED_AHEAD_S = 0.01
LATE_MS = 1_000
GOVERNED_LATE_MS = 100
MOST_AHEAD = 400
LOW_CLAIM_STEP = 64


class ClaimAhead:
    """The claims of one process. `wish` leads to the committer, and what comes of a wish is taken by `take`."""

    def __init__(
        self,
        config: Config,
        *,
        monotonic: Callable[[], int],
        suspects_only: bool,
        most_claims: int | None,
    ) -> None:
        self.config = config
        self._monotonic = monotonic
        self._suspects_only = suspects_only
        self._claims_left = most_claims
        self._buffer: deque[Attempt] = deque()
        self._governed: deque[Attempt] = deque()
        self.going_on: deque[Attempt] = deque()
        """Attempts whose stage is durable, and which wait for a slot for their next one."""
        self._reserved = 0
        """Slots that are kept for governed work: it is there, but was not claimed for want of a slot."""
        self.has_asked = False
        """Whether a wish is under way."""
        self.expects_more = True
        """Whether there may be work in the lines, as far as is known."""
        self._look_after_answer = False
        self._news: Line | None = None
        self._rate = 0.0
        self._stage_ms = 0.0
        """How long a stage took, of late."""
        self.ahead = 0
        """How many to claim beyond the slots there are."""
        self.ended = 0
        """How many attempts have ended since the rate was measured last."""
        self.took_ms = 0
        """How long their stages took, all together."""
        self._asked_at = 0
        self._answer_ms = 0.0
        """How long a wish takes to be fulfilled, of late."""
        self._measured_at = self.clock = monotonic()
        """What time it was at the last look."""
        self._open_claims: dict[bytes, list[int]] = {}
        self.is_closed = False
        """Whether nothing more is claimed, because the process ends."""
        self._waits_for_slot = False
        """Whether all that is there for it wants a free slot, as far as is known."""
        self._waits_for_thread = False
        """Likewise, a free thread."""
        self.free_threads: Callable[[], int] | None = None
        """How many threads are free, where some tasks need one as soon as they begin."""
        self.look_for_suspects = not suspects_only
        self.next_due_at: int | None = None
        self.low_claim = self._low_claim_told = 0
        """Below which number no claim of this process is open, if that is news."""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits for a slot or could be claimed, as far as is known."""
        return not (self._waiting or self.has_asked or self.expects_more)

    @property
    def _waiting(self) -> int:
        """How many have not begun."""
        return len(self._buffer) + len(self._governed)

    @property
    def wants_more(self) -> bool:
        """Whether there is room, and the lines seemed empty when last looked at."""
        return not (self.has_asked or self.is_closed) and (not self.expects_more or self._waits_for_thread)

    def _threads(self) -> int:
        """How many more could be taken that need a thread: for those that are free or will be in a moment."""
        assert self.free_threads is not None
        soon_free = min(self.ahead, self._ended_soon(self.config.threads))
        return max(0, self.free_threads() + soon_free - self._waiting)

    @property
    def has_had_enough(self) -> bool:
        """Whether it has claimed as much as it may."""
        return self._claims_left == 0

    def have_enough(self) -> None:
        """Claim nothing more; what was claimed may still begin."""
        self._claims_left = 0

    def look_again(self, line: Line | None) -> None:
        """There may be new work, in a line that is perhaps known."""
        self.expects_more = True
        self._waits_for_slot = self._waits_for_thread = False
        self._look_after_answer = self.has_asked
        self._news = line

    def look_again_at(self, due_at: int) -> None:
        """There will be new work at that time."""
        self.next_due_at = due_at if self.next_due_at is None else min(self.next_due_at, due_at)

    def next_beside(self, running: int) -> Attempt | None:
        """The next attempt, if it may run beside so many others; none after it was closed, also of what comes then.

        Governed ones first, which were claimed for a slot; then those that go on; then the others.
        """
        if self.is_closed:
            return None
        slots = self.config.concurrency
        if running >= slots:
            return None
        if self._governed:
            return self._governed.popleft()
        if self.going_on:
            return self.going_on.popleft()
        if self._buffer and (not self._reserved or running < max(1, slots - self._reserved)):
            return self._buffer.popleft()
        return None

    def asks(self, held: int, running: int, closing: int) -> bool:
        """Whether to ask for more, while it has so many, so many of them run, and so many others wait for a
        commit. If so, `wish` is what for, when it comes to that."""
        if self.has_asked or self.is_closed or not self.expects_more or self.has_had_enough:
            return False
        if self._suspects_only or self.look_for_suspects:
            # Suspects have the process to themselves.
            self.has_asked = not (held or self._waiting or closing)
        else:
            room, slots = self._room(held), self.config.concurrency - running
            if (self._waits_for_slot and slots <= 0) or (self._waits_for_thread and not self._threads()):
                return False
            wants = not self._waiting or room * 2 >= self.ahead or (self._reserved and slots > 0)
            self.has_asked = room > 0 and bool(wants)
        return self.has_asked

    def wish(self, held: int, running: int) -> Wish:
        """What it could take now, while it has so many and so many of them run: it may be more than when it was decided
        to ask."""
        if self._suspects_only or self.look_for_suspects:
            return Wish(0, suspects=True)
        self._asked_at = self._monotonic()
        soon_free = min(self.config.concurrency, int(self._rate * GOVERNED_AHEAD_S))
        slots = max(0, self.config.concurrency + soon_free - running - len(self._governed))
        room = max(0, self._room(held))
        if self._claims_left is not None:
            room, slots = min(room, self._claims_left), min(slots, self._claims_left)
        news, self._news = self._news, None
        return Wish(room, slots, threads=ANY_NUMBER if self.free_threads is None else self._threads(), line=news)

    @property
    def is_low(self) -> bool:
        """Whether less waits for a slot than it would rather have."""
        return not self.has_asked and self._waiting * 2 <= self.ahead

    def _room(self, held: int) -> int:
        return self.config.concurrency + self.ahead - held - self._waiting

    def take(self, written: Written, wish: Wish) -> None:
        """Take what has come of a wish."""
        self.has_asked = False
        if not wish.suspects:
            self._answer_ms += (self.clock - self._asked_at - self._answer_ms) / 2
        claimed = written.claimed
        if claimed.leases:
            if self._claims_left is not None:
                self._claims_left = max(0, self._claims_left - len(claimed.leases))
            if crash_points.hook is not None:
                crash_points.reach("after claim")
            self._open_claims[claimed.leases[0].token] = [claimed.seq, len(claimed.leases)]
            for lease in claimed.leases:
                attempt = Attempt(lease)
                attempt.waits_since = self.clock
                if lease.touched or lease.signals:
                    attempt.resume(claimed.parts.get(lease.task, []), claimed.signals.get(lease.task, {}))
                (self._buffer if lease.gates is None else self._governed).append(attempt)
        elif wish.suspects and not claimed.met_dead:
            self.look_for_suspects = False
            self.expects_more = not self._suspects_only
        is_all = len(claimed.leases) < wish.count and not claimed.met_dead
        if is_all and not wish.suspects and wish.line is None:
            self.expects_more = False
            self.next_due_at = written.next_due_at
        self._reserved = min(claimed.held_back, max(1, self.config.concurrency // 4))
        self._waits_for_slot = bool(self._reserved) and not (wish.slots or self.expects_more)
        if self._waits_for_slot:
            self.next_due_at = None  # a task is due now, and will be claimed when there is a slot
        if self._reserved:
            self.expects_more = True
        self._waits_for_thread = is_all and claimed.wants_thread
        if self._waits_for_thread:
            self.expects_more = True
        if self._look_after_answer:  # the claim may have looked before the new work was there
            self._look_after_answer = False
            self._waits_for_slot = self._waits_for_thread = False
            self.expects_more = True

    def go_on(self, attempt: Attempt) -> None:
        """Have an attempt wait for a slot for its next stage."""
        attempt.waits_since = self.clock
        self.going_on.append(attempt)

    def give_up(self) -> Attempt | None:
        """One that has not begun, or waits to go on, whatever room there is; None if there is none."""
        waiting = self.going_on or self._governed or self._buffer
        return waiting.popleft() if waiting else None

    def give_up_late(self, now: int) -> Attempt | None:
        """One that was to begin or go on soon and waits still; None if there is none. What runs takes longer than was
        thought, so that nothing is claimed ahead until it is known how long."""
        self.clock = now
        for waiting, late_ms in ((self._governed, GOVERNED_LATE_MS), (self.going_on, LATE_MS), (self._buffer, LATE_MS)):
            if waiting and now - waiting[0].waits_since > late_ms:
                self.slow_down()
                return waiting.popleft()
        return None

    def slow_down(self) -> None:
        """Claim nothing ahead until it is measured anew how fast attempts end."""
        self._rate = 0.0
        self.ahead = 0
        self.expects_more = True

    def measure(self) -> None:
        """See what time it is, and how fast attempts have ended of late."""
        now = self.clock = self._monotonic()
        elapsed = now - self._measured_at
        if elapsed >= 20:
            rate = self.ended * 1_000 / elapsed
            self._rate = 0.5 * self._rate + 0.5 * rate if self._rate else rate
            if self.ended:
                self._stage_ms = self.took_ms / self.ended
            # Twice as far: where too little was claimed ahead the rate is that of the claims, and is to grow.
            ended = int(self._rate * (AHEAD_MS + 4 * self._answer_ms) / 1_000)
            self.ahead = min(MOST_AHEAD, ended, self._ended_soon(self.config.concurrency))
            self.ended = self.took_ms = 0
            self._measured_at = now

    @property
    def _horizon_ms(self) -> float:
        return AHEAD_MS + 2 * self._answer_ms

    def _ended_soon(self, places: int) -> int:
        """How many stages end on so many places while others are claimed, by the time that stages took. Where they take
        long and end together, that is few, whatever the rate of this moment."""
        return int(places * self._horizon_ms / self._stage_ms) if self._stage_ms > 0 else MOST_AHEAD

    def close_claim(self, lease: Lease) -> None:
        """One more task of a claim is over. When all are, a dead worker's heirs need not look at that claim."""
        claim = self._open_claims.get(lease.token)
        if claim is None:
            return
        claim[1] -= 1
        if claim[1] == 0:
            del self._open_claims[lease.token]
            oldest = min((seq for seq, _ in self._open_claims.values()), default=claim[0] + 1)
            if oldest >= self._low_claim_told + LOW_CLAIM_STEP:
                self.low_claim = self._low_claim_told = oldest
