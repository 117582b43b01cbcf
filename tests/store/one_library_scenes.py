"""Programs for the tests of one library a process: each is run as a process of its own, on one file.

python -m tests.store.one_library_scenes SCENE FILE
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
import time
from typing import Any

import apsw

from onceward.errors import TwoSqliteLibraries

ADD = "INSERT INTO own (number) VALUES (?)"


def session(path: str) -> Any:
    from onceward.model.times import StoreClock, SystemClock
    from onceward.store.drivers.sqlite import SqliteSession

    return SqliteSession(path, StoreClock(SystemClock()))


def sqlite3_was_first(path: str) -> None:
    """A program writes through sqlite3, and starts a worker in the middle of it."""
    from onceward.store.drivers import sqlite_library_guard

    program = sqlite3.connect(path)
    for number in range(100):
        program.execute(ADD, (number,))
        program.commit()
    program.execute(ADD, (100,))
    sqlite_library_guard.insist_on_apsw()
    try:
        session(path).opened()
    except TwoSqliteLibraries as error:
        print(error)
    program.commit()


def apsw_was_first(path: str) -> None:
    """A worker writes through apsw, and a stage of it opens the file through sqlite3."""
    from onceward.store.drivers import sqlite_library_guard

    sqlite_library_guard.insist_on_apsw()
    worker = session(path).opened()
    for number in range(100):
        worker.execute(ADD, (number,))
    worker.execute("BEGIN IMMEDIATE")
    worker.execute(ADD, (100,))
    try:
        sqlite3.connect(path)
    except TwoSqliteLibraries as error:
        print(error)
    worker.execute("COMMIT")


def opened_before_anybody_watched(path: str) -> None:
    """sqlite3 has a file open before Onceward is imported, and closes it later."""
    program = sqlite3.connect(path)
    program.execute("SELECT * FROM own").fetchall()
    from onceward.store.drivers.sqlite_library_guard import uses_standard_library

    before = uses_standard_library(path)
    program.close()
    print(before, uses_standard_library(path))


def both_at_the_same_moment(path: str) -> None:
    """While one thread is inside `sqlite3.connect`, before the file is open, another asks for the file."""
    from onceward.store.drivers import sqlite_library_guard

    sqlite_library_guard.watch()
    inside, go_on = threading.Event(), threading.Event()

    def pause(event: str, _arguments: object) -> None:
        if event == "sqlite3.connect":
            inside.set()
            go_on.wait()

    sys.addaudithook(pause)  # called after the one that was there first
    thread = threading.Thread(target=sqlite3.connect, args=(path,))
    thread.start()
    inside.wait()
    try:
        session(path).opened()
    except TwoSqliteLibraries:
        print("refused")
    go_on.set()
    thread.join()


def child_of_a_worker(path: str) -> None:
    """A worker forks: what the parent has taken is not the child's."""
    from onceward.store.drivers import sqlite_library_guard

    sqlite_library_guard.insist_on_apsw()
    worker = session(path)
    worker.opened()
    child = os.fork()
    if child == 0:
        sqlite3.connect(path).close()
        os._exit(7)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))


def many_at_once(path: str, *, for_s: float = 20.0) -> None:
    """Clients that keep closing and opening, and a program that opens the file through sqlite3 now and then."""
    import warnings

    from onceward.model.times import StoreClock, SystemClock
    from onceward.store.drivers.sqlite3_client import ClientSqliteSession
    from tests.store.test_one_library import add_task

    warnings.simplefilter("ignore")
    end = time.monotonic() + for_s
    kept: list[int] = []
    in_the_way: list[object] = []

    def watch(event: str, _arguments: object) -> None:
        if event == "sqlite3.connect/handle":
            in_the_way.extend(apsw.connections())

    def client() -> None:
        session = ClientSqliteSession(path, StoreClock(SystemClock()))
        while time.monotonic() < end:
            kept.extend(session.transact(add_task))
            if random.random() < 0.9:
                session.close()
            time.sleep(random.random() * 0.01)
        session.close()

    def program() -> None:
        while time.monotonic() < end:
            connection = sqlite3.connect(path, timeout=30)
            connection.execute(ADD, (1,))
            connection.commit()
            kept.append(0)
            connection.close()
            time.sleep(random.random() * 0.06)

    sys.addaudithook(watch)
    threads = [threading.Thread(target=role) for role in (client, client, client, program, program)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sqlite3.connect(path).execute("SELECT (SELECT count(*) FROM onceward_task) + (SELECT count(*) FROM own)")
    print(f"in each other's way: {len(in_the_way)}, lost: {len(kept) - found.fetchone()[0]}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
