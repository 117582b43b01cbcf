"""PgBouncer in transaction mode before a PostgreSQL server of the tests.

With `ONCEWARD_TEST_THROUGH=pgbouncer` every test that asks for a PostgreSQL database gets one behind it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
IS_BETWEEN = os.environ.get("ONCEWARD_TEST_THROUGH") == "pgbouncer"
"""Whether the databases of the tests are behind it."""
LONGEST_START_S = 20.0

if IS_BETWEEN:
    os.environ["ONCEWARD_PREPARE"] = "false"  # what its users are told to set


class PgBouncer:
    """A pooler of its own port, for all databases of a server that listens on a socket in a folder."""

    def __init__(self, server_url: str, *, pool_size: int = 20) -> None:
        assert PROGRAM is not None
        info = psycopg.conninfo.conninfo_to_dict(server_url)
        sockets = Path(str(info["host"]))
        self._folder = Path(tempfile.mkdtemp(prefix="onceward-pooler-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self._port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "max_client_conn": 1_000,
            "default_pool_size": pool_size,
            "server_lifetime": 0.5,  # often another connection, so that nothing can rest on one
            "logfile": self._folder / "log",
        }
        lines = [
            "[databases]",
            f"* = host={sockets} port={info.get('port') or 5432} user={info['user']}",
            "[pgbouncer]",
            *(f"{name} = {value}" for name, value in settings.items()),
        ]
        (self._folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
        self._owner = sockets.stat().st_uid  # the only one who may enter, and not root, whom it refuses
        os.chown(self._folder, self._owner, -1)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PgBouncer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def through(self, url: str) -> str:
        """The address, through this pooler, of a database of its server."""
        name = urlsplit(url).path
        return f"postgresql://postgres:@127.0.0.1:{self._port}{name}?sslmode=disable&gssencmode=disable"

    def start(self) -> None:
        """Begin to take connections."""
        command = [str(PROGRAM), "-q", str(self._folder / "pgbouncer.ini")]
        if os.geteuid() == 0:
            command[1:1] = ["-u", pwd.getpwuid(self._owner).pw_name]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        give_up_at = time.monotonic() + LONGEST_START_S
        while True:
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self._port)):
                return
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < give_up_at, "the pooler does not listen"
            time.sleep(0.01)

    def kill(self) -> None:
        """End it at once, with all connections through it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
