"""A book whose workers are killed again and again by SIGKILL, all at once: it becomes what it would have become.

The same chunk ids, the same connections, no error about a foreign key, and every paid call once; besides those that
were under way when somebody was killed.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onceward import App, Connection
from onceward_apps.documents import reads, samples
from onceward_apps.documents.admitting import admit
from onceward_apps.documents.app import library
from onceward_apps.documents.ingesting import looked_at
from onceward_apps.documents.payloads import Options
from onceward_apps.statements import rows
from tests.apps.documents.fleet import Workers, wait_until
from tests.apps.documents.loopback import Provider
from tests.apps.documents.shared_data import shared_file
from tests.apps.documents.shelf import assert_sound
from tests.apps.documents.tale import chapters

WAR_AND_PEACE = "epub/tolstoy_war-and-peace.epub"
WASTELAND = "epub/idpf_wasteland.epub"
OPTIONS = Options(embedding="made-embedding")


@pytest.fixture
def paid() -> Iterator[Provider]:
    """A provider on this machine."""
    made = Provider()
    made.delay_s = 0.02
    yield made
    made.close()


@pytest.fixture
def two_urls(library_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two empty databases of a kind: one for the run that nobody disturbs."""
    if library_url.startswith("sqlite"):
        calm = tmp_path / "calm.db"
        shutil.copy(library_url.removeprefix("sqlite:///"), calm)
        yield library_url, f"sqlite:///{calm}"
    else:
        yield library_url, request.getfixturevalue("emptied_postgres_url")


@pytest.mark.torture
def test_three_kills_change_nothing(two_urls: tuple[str, str], paid: Provider, tmp_path: Path) -> None:
    files = [tmp_path / "large.epub", tmp_path / "small.epub"]
    files[0].write_bytes(samples.epub("Large", chapters(range(200))))
    files[1].write_bytes(samples.epub("Small", chapters(range(150, 190), 1)))

    kill_again_and_again(two_urls, files, paid, tmp_path, kills=3, processes=0)


@pytest.mark.torture
@pytest.mark.timeout(3_000)
def test_war_and_peace_survives_forty_kills(two_urls: tuple[str, str], paid: Provider, tmp_path: Path) -> None:
    files = [shared_file(WAR_AND_PEACE), shared_file(WASTELAND)]

    kill_again_and_again(two_urls, files, paid, tmp_path, kills=40)


def kill_again_and_again(
    urls: tuple[str, str], files: list[Path], paid: Provider, folder: Path, *, kills: int, processes: int = 2
) -> None:
    """Ingest files twice, once with so many kills, and compare."""
    url, calm_url = urls
    with library(calm_url) as calm, library(url) as app:
        for one in (calm, app):
            one.migrate()
            for file in files:
                admit(one, looked_at(file), OPTIONS, 0)
        assert Workers(calm_url, folder / "calm.log", processes=processes, **paid.environment).end() == 0
        expected, total = calm.read(_contents), calm.read(_progress)
        assert len(paid.calls) == paid.calls.total(), "undisturbed, nothing is paid twice"
        assert "reclaimed" not in (folder / "calm.log").read_text()
        paid.calls.clear()
        log = folder / "workers.log"
        moments = _moments(total, kills, random.Random(kills))
        killed = _kill(app, url, paid, log, moments, processes)
        assert Workers(url, log, processes=processes, **paid.environment).end() == 0, log.read_text()[-5_000:]

        assert killed == kills
        assert app.read(_contents) == expected
        assert app.read(reads.being_connected) == set()
        assert "foreign key" not in log.read_text().lower()
        assert paid.calls.total() - len(paid.calls) <= kills
        assert_sound(app)


def _moments(total: int, kills: int, dice: random.Random) -> list[int]:
    """How far the work has come when somebody is killed: half while it is read and cut, which is soon over."""
    early = [dice.randrange(total // 4) for _ in range(kills // 2)]
    return sorted(early + [dice.randrange(total) for _ in range(kills - len(early))])


def _kill(app: App, url: str, paid: Provider, log: Path, moments: list[int], processes: int) -> int:
    """Start workers again and again, and kill them when the work has come as far as that."""
    dice = random.Random(len(moments))
    killed = 0
    for moment in moments:
        workers = Workers(url, log, processes=processes, **paid.environment)
        wait_until(_has_come(app, workers, moment), longest_s=300)
        time.sleep(dice.random() * 0.1)  # somewhere in what comes next
        workers.kill()
        killed += workers.process.returncode != 0
    return killed


def _has_come(app: App, workers: Workers, moment: int) -> Callable[[], bool]:
    return lambda: app.read(_progress) >= moment or workers.process.poll() is not None


def _progress(connection: Connection) -> int:
    """A number that only grows while documents are worked on."""
    [(count,)] = rows(
        connection,
        "SELECT (SELECT count(*) FROM docs_part) * 10 + (SELECT count(*) FROM docs_chunk)"
        " + (SELECT count(*) FROM docs_vector) + (SELECT count(*) FROM docs_connection)",
    )
    return int(count)


def _contents(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Everything that a document has become."""
    return {
        "chunks": sorted(rows(connection, "SELECT chunk, position, start_at, end_at, text FROM docs_chunk")),
        "vectors": sorted(rows(connection, "SELECT chunk, model FROM docs_vector")),
        "connections": sorted(rows(connection, "SELECT left_chunk, right_chunk, score, why FROM docs_connection")),
        "generations": sorted(rows(connection, "SELECT document, generation, chunks, words FROM docs_generation")),
    }
