"""When two errors are the same: what differs from time to time is left out, what tells errors apart is not."""

from __future__ import annotations

import pytest

from onceward.model.fingerprints import fingerprint, normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("OSError: timed out after 30.2 s", "OSError: timed out after 31 s"),
        ("KeyError: 0x7f3a00ff", "KeyError: 0x1234"),
        ("HTTPError: 503 at 12:30:07", "HTTPError: 503 at 09:11:59"),
        (
            "NotFound: job 0197f8a2-1111-7222-8333-944455556666",
            "NotFound: job 0197f8a2-aaaa-7bbb-8ccc-9ddd0000ffff",
        ),
        (
            "Gone: commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
            "Gone: commit e3b0c44298fc1c149afbf4c8996fb92",
        ),
        ("ValueError:  too   many spaces", "ValueError: too many spaces"),
    ],
)
def test_what_differs_from_time_to_time_is_left_out(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other), (normalised(one), normalised(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: no such page", "KeyError: no such page"),
        ("ValueError: no such page", "ValueError: no such image"),
        ("OSError: defaced", "OSError: effaced"),
    ],
)
def test_what_tells_errors_apart_stays(one: str, other: str) -> None:
    assert fingerprint(one) != fingerprint(other)
