"""Real processes that want the same answer at the same moment: the server is asked once, whoever dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from onceward import Event
from tests.faults.askers import Ask, make_app
from tests.faults.counting import keep, recovered_s
from tests.faults.fleet import Fleet, wait_until

FEW, MANY = 4, 8
ONE_AT_A_TIME = {"concurrency": 1, "threads": 1}


class Server:
    """A server on this machine that knows who has asked, and answers when it is let."""

    def __init__(self) -> None:
        self.asked_by: list[int] = []
        self.may_answer = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked_by.append(int(self.headers["X-Pid"]))
                server.may_answer.wait(60)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"a page")

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Answer whoever still waits, and end."""
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that nobody has asked yet."""
    made = Server()
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Worker processes that ask; in the end all invariants hold."""
    url: str = request.getfixturevalue(f"migrated_{request.param}_url")
    with Fleet(url, tmp_path, make_app, "tests.faults.askers") as made:
        yield made
        made.verified()


def asking(fleet: Fleet, server: Server, processes: int, *, apart: bool = False) -> list[int]:
    """As many tasks as processes, which all ask at the same moment."""
    folder = str(fleet.folder)
    tasks = fleet.enqueue([Ask(number, server.url, folder, processes, apart) for number in range(processes)])
    for _ in range(processes):
        fleet.start(until_idle=True, lease="10s", settings=ONE_AT_A_TIME)
    wait_until(lambda: server.asked_by, "somebody asks", fleet.state)
    return tasks


def all_have_it(fleet: Fleet, tasks: list[int]) -> None:
    wait_until(lambda: fleet.ended() == len(tasks), "all have ended", fleet.state)
    fleet.all_succeeded(tasks)
    assert {fleet.app.tasks.get(task).results["apart"] for task in tasks} == {"a page"}
    [(hits, misses)] = fleet.sql("SELECT hits, misses FROM onceward_gate WHERE name = 'web'")
    assert hits == len(tasks) - 1
    assert misses == 1


@pytest.mark.parametrize("processes", [FEW, pytest.param(MANY, marks=pytest.mark.torture)])
def test_processes_that_want_the_same_answer_ask_once(fleet: Fleet, server: Server, processes: int) -> None:
    tasks = asking(fleet, server, processes)
    wait_until(lambda: fleet.events(Event.DEFERRED) >= processes - 1, "all others are put off", fleet.state)
    server.may_answer.set()
    all_have_it(fleet, tasks)
    assert len(server.asked_by) == 1


@pytest.mark.parametrize("processes", [FEW, pytest.param(MANY, marks=pytest.mark.torture)])
def test_a_process_that_is_killed_while_it_asks_is_followed_by_one_other(
    fleet: Fleet, server: Server, processes: int
) -> None:
    tasks = asking(fleet, server, processes)
    gone_at = time.time()
    os.kill(server.asked_by[0], signal.SIGKILL)
    wait_until(lambda: len(server.asked_by) > 1, "another one asks", fleet.state)
    server.may_answer.set()
    all_have_it(fleet, tasks)
    assert len(server.asked_by) == 2
    fleet.verified()
    fault = "worker killed while it asks for all others"
    keep(fleet.app, "F01", fault, faults=1, recovery_s=recovered_s(fleet.app, {server.asked_by[0]: gone_at}))


def test_stages_in_processes_of_their_own_share_the_cache(fleet: Fleet, server: Server) -> None:
    server.may_answer.set()
    tasks = asking(fleet, server, FEW, apart=True)
    all_have_it(fleet, tasks)
    assert len(server.asked_by) == 1
