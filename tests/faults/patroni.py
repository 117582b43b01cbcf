"""Three PostgreSQL nodes under Patroni, with etcd to agree by: processes of this machine, on loopback ports."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.faults.fleet import wait_until

PROGRAMS = {name: shutil.which(name) for name in ("etcd", "patroni")}
BINARIES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
ARE_HERE = BINARIES is not None and all(PROGRAMS.values()) and os.geteuid() == 0
"""Whether it can be done on this machine: Debian's packages are there, and we may become the user of the server."""
OWNER = "postgres"
TTL_S, LOOP_S, RETRY_S = 5, 1, 2
LONGEST_START_S = 180.0
COMES_BACK_S, LONGEST_COPY_S = 10.0, 60.0
"""How long a node may take to follow again by itself, and with a copy."""


class Node:
    """One server and its Patroni."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.port, self.rest_port = free_port(), free_port()
        self.data = folder / name / "data"
        self._folder = folder / name
        self._process: subprocess.Popen[bytes] | None = None
        self._killed: int | None = None

    def configure(self, etcd_port: int, *, synchronous: bool) -> None:
        """Write down who it is."""
        self._folder.mkdir(mode=0o700)
        configuration = {
            "scope": "onceward",
            "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self.rest_port}", "connect_address": f"127.0.0.1:{self.rest_port}"},
            "etcd": {"host": f"127.0.0.1:{etcd_port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_S,
                    "loop_wait": LOOP_S,
                    "retry_timeout": RETRY_S,
                    "synchronous_mode": synchronous,
                    "master_start_timeout": 0,
                    "maximum_lag_on_failover": 1 << 30,
                    "postgresql": {"use_pg_rewind": True},
                },
                "initdb": ["data-checksums", {"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{self.port}",
                "data_dir": str(self.data),
                "bin_dir": str(BINARIES),
                "basebackup": [{"checkpoint": "fast"}],
                "pgpass": str(self._folder / "pgpass"),
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "postgres"}},
                "pg_hba": ["local all all trust", "host all all all trust", "host replication all all trust"],
                "parameters": {
                    "fsync": "off",  # its processes die here, not its machine
                    "wal_log_hints": "on",
                    "shared_buffers": "32MB",
                    "unix_socket_directories": str(self._folder),
                },
            },
        }
        (self._folder / "patroni.yml").write_text(json.dumps(configuration))  # what is JSON is YAML too
        for path in (self._folder, self._folder / "patroni.yml"):
            shutil.chown(path, OWNER)

    def copy_anew(self) -> None:
        """Begin again with a copy of whoever leads."""
        self.send(signal.SIGCONT)
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)
        self.start()

    def start(self) -> None:
        """Begin, or come back: as whatever the others make of it."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(PROGRAMS["patroni"]), str(self._folder / "patroni.yml")],
                user=OWNER, group=pwd.getpwnam(OWNER).pw_gid, extra_groups=(), cwd=self._folder,
                stdout=log, stderr=log, start_new_session=True,
                env={"PATH": f"{BINARIES}:/usr/bin:/bin", "LC_ALL": "C"},
            )  # fmt: skip

    def kill(self) -> None:
        """Everything of it ends at once, as if the machine had."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)  # with what it has started, such as a copy that is under way
        self._process.wait()
        self.kill_server()

    def kill_server(self) -> None:
        """Only the server ends, with all its processes; if Patroni is there, it sees that."""
        self._killed = server = self._server_pid()
        if server is None:
            return
        for pid in (*_children(server), server):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{server}").exists(), "the server is gone")

    def send(self, number: signal.Signals) -> None:
        """Freeze everything of it, or let it go on."""
        assert self._process is not None
        server = self._server_pid()
        pids = [] if server is None else [server, *_children(server)]
        for pid in (self._process.pid, *pids):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    @property
    def has_begun_again(self) -> bool:
        """Whether its server is another process than the one that was killed last."""
        return self._killed is not None and self._server_pid() not in (None, self._killed)

    def role(self) -> dict[str, Any]:
        """What it says of itself."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest_port}/patroni", timeout=2) as answer:
                said: dict[str, Any] = json.load(answer)
        except OSError:
            return {}  # it does not answer, or says itself that it is not well
        return said

    def said(self) -> str:
        """The end of its log."""
        return (self._folder / "log").read_text(errors="replace")[-1_500:]

    def _server_pid(self) -> int | None:
        """Its server, if it runs: the file of one that was killed may name what is somebody else by now."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().splitlines()[0])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            return None
        return pid if str(self.data).encode() in command else None


class Cluster:
    """The nodes, and who agrees for them."""

    def __init__(self, *, synchronous: bool) -> None:
        self.synchronous = synchronous
        self._folder = Path(tempfile.mkdtemp(prefix="onceward-failover-"))
        self._folder.chmod(0o755)
        self._etcd: subprocess.Popen[bytes] | None = None
        self.nodes = [Node(f"node{number}", self._folder) for number in (1, 2, 3)]

    def __enter__(self) -> Cluster:
        port, peer = free_port(), free_port()
        client = f"http://127.0.0.1:{port}"
        with (self._folder / "etcd.log").open("ab") as log:
            self._etcd = subprocess.Popen(
                [str(PROGRAMS["etcd"]), "--data-dir", str(self._folder / "etcd"), "--unsafe-no-fsync", "--enable-v2",
                 "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", f"http://127.0.0.1:{peer}"],
                stdout=log, stderr=log,
            )  # fmt: skip
        for node in self.nodes:
            node.configure(port, synchronous=self.synchronous)
            node.start()
        wait_until(self.is_whole, "the cluster is whole", self.said, limit_s=LONGEST_START_S, every_s=0.2)
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.send(signal.SIGCONT)
            node.kill()
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """The address of whoever takes writes."""
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return (
            f"postgresql://postgres@{places}/postgres?target_session_attrs=read-write&connect_timeout=3&sslmode=disable"
        )

    def primary(self) -> Node | None:
        """The node that leads, if one does."""
        for node in self.nodes:
            said = node.role()
            if said.get("role") in ("master", "primary") and said.get("state") == "running":
                return node
        return None

    def is_whole(self) -> bool:
        """Whether one leads and two follow, one of them in step if that is the agreement; and all know who: before that
        nobody may take over."""
        following = self._following()
        in_step = {name for name, state in following.items() if state == "sync"}
        known = {node.name for node in self.nodes if node.name in following and node.role().get("sync_standby")}
        return len(following) == 2 and in_step == known and bool(known) == self.synchronous

    def takes_writes(self, node: Node) -> bool:
        """Whether a node would take writes if somebody still went to it."""
        with suppress(psycopg.OperationalError), _connected(node) as connection:
            return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
        return False

    def make_whole(self) -> None:
        """Have two follow again after a failover. Who does not find the way back by itself gets a new copy."""
        give_up_at = time.monotonic() + LONGEST_START_S
        look_at = time.monotonic() + COMES_BACK_S
        while not self.is_whole():
            assert time.monotonic() < give_up_at, f"the cluster is not whole\n{self.said()}"
            primary = self.primary()
            if primary is not None and time.monotonic() > look_at:
                following = self._following()
                for node in self.nodes:
                    if node is not primary and node.name not in following:
                        node.copy_anew()
                look_at = time.monotonic() + LONGEST_COPY_S
            time.sleep(0.2)

    def _following(self) -> dict[str, str]:
        """Who gets everything from the primary, and whether it is waited for."""
        primary = self.primary()
        if primary is not None:
            with suppress(psycopg.OperationalError), _connected(primary) as connection:
                return dict(connection.execute(
                    "SELECT application_name, sync_state FROM pg_stat_replication WHERE state = 'streaming'"
                ).fetchall())  # fmt: skip
        return {}

    def said(self) -> str:
        """What everybody says, for the message of a test that has failed."""
        return "\n".join(f"--- {node.name}: {node.role()}\n{node.said()}" for node in self.nodes)

    def hold_back(self, primary: Node) -> None:
        """From now on nothing that the primary commits is sent to the others."""
        with _connected(primary) as connection:
            for (pid,) in connection.execute("SELECT pid FROM pg_stat_replication").fetchall():
                os.kill(pid, signal.SIGSTOP)


def _connected(node: Node) -> psycopg.Connection[Any]:
    url = f"postgresql://postgres@127.0.0.1:{node.port}/postgres?connect_timeout=3&sslmode=disable"
    return psycopg.connect(url, autocommit=True)


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
