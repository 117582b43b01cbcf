"""The meter beside a worker: what it reads of a database that has just been opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.meter import TRANSACTIONS, TRANSACTIONS_AT, transactions
from bench.target import Target


@pytest.mark.parametrize(("index", "seen"), [(b"", 0), (bytes(TRANSACTIONS_AT) + TRANSACTIONS.pack(7), 7)])
def test_an_index_of_the_log_that_is_still_empty_has_seen_no_transaction(
    tmp_path: Path, index: bytes, seen: int
) -> None:
    path = tmp_path / "engine.db"
    Path(f"{path}-shm").write_bytes(index)
    assert transactions(Target("engine", "sqlite", f"sqlite:///{path}", tmp_path)) == seen
