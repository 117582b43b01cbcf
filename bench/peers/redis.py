"""A Redis server for one measurement, on a unix socket, with its log synced once a second."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.environments import Missing
from bench.processes import BenchError

START_SECONDS = 10.0
SETTINGS = {"port": "0", "appendonly": "yes", "appendfsync": "everysec", "save": ""}


def executable() -> str:
    """The server's program."""
    path = shutil.which("redis-server")
    if path is None:
        raise Missing("needs redis-server, which is not on the PATH (Debian: apt-get install redis-server)")
    return path


def version() -> str:
    """What the server says it is."""
    answer = subprocess.run([executable(), "--version"], capture_output=True, text=True, check=True).stdout
    return next((word[2:] for word in answer.split() if word.startswith("v=")), "unknown")


@contextmanager
def serve(directory: Path) -> Iterator[str]:
    """An empty server with its files in a new directory, for as long as the block lasts; its address."""
    directory.mkdir()
    path = directory / "socket"
    options = [part for name, value in SETTINGS.items() for part in (f"--{name}", value)]
    command = [executable(), "--unixsocket", str(path), "--dir", str(directory), *options]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        await_pong(path)
        yield f"unix://{path}"
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(directory)


def await_pong(path: Path) -> None:
    """Return when the server answers."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return
        except (FileNotFoundError, ConnectionRefusedError):
            pass
        time.sleep(0.01)
    raise BenchError("redis-server did not answer")
