"""Lines of the log that could be too many: a few a minute for each subject, with a count of those left out."""

from __future__ import annotations

MOST_LINES = 5
PER_MS = 60_000
MOST_SUBJECTS = 10_000


class FewLines:
    """Says which lines about a subject are written."""

    def __init__(self) -> None:
        self._known: dict[object, list[int]] = {}
        """For each subject: when its minute began, how many lines it has had, and how many were left out."""

    def next(self, subject: object, now: int, count: int = 1) -> int | None:
        """Whether one more line, about so many things, is written: None if not, else how many were left out before."""
        known = self._known.get(subject)
        if known is None or not 0 <= now - known[0] < PER_MS:
            left_out = 0 if known is None else known[2]
            if known is None and len(self._known) >= MOST_SUBJECTS:
                self._known.clear()
            self._known[subject] = [now, 1, 0]
            return left_out
        if known[1] >= MOST_LINES:
            known[2] += count
            return None
        known[1] += 1
        left_out, known[2] = known[2], 0
        return left_out
