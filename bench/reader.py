"""A slow dashboard: `python -m bench.reader SECONDS` keeps a SQLite file's read transaction open, again and again."""

import sys
import time

import apsw

from bench.target import from_environment


def main() -> None:
    """Read, linger with the snapshot, let go, and begin anew until it is told to stop."""
    seconds = float(sys.argv[1])
    connection = apsw.Connection(from_environment().url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(30_000)
    while True:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        time.sleep(seconds)
        connection.execute("COMMIT")


if __name__ == "__main__":
    main()
