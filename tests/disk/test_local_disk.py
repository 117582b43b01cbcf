"""SQLite files on disks that other machines share: refused before anything is written (F26)."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward import Status
from onceward.errors import ConfigError
from onceward.store.drivers import local_disk
from onceward.store.drivers.local_disk import OVER_A_NETWORK, file_system_of
from tests.disk.letters import Letter, mailing, until
from tests.proof.tally import Tally

SFTP_SERVER = Path("/usr/lib/openssh/sftp-server")
ROOT_LINE = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw"


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the system says is mounted; as a test likes it."""
    told = tmp_path / "mountinfo"
    monkeypatch.setattr(local_disk, "MOUNTS", told)
    return told


def mounted(at: object, kind: str) -> str:
    """A line about one more."""
    return f"36 22 0:50 / {at} rw,noatime shared:7 master:1 - {kind} somewhere:/share rw,vers=4.2"


@pytest.mark.parametrize("kind", sorted(OVER_A_NETWORK))
def test_a_file_on_a_network_file_system_is_refused_and_nothing_is_written(
    mounts: Path, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "share"
    folder.mkdir()
    mounts.write_text(f"{ROOT_LINE}\n{mounted(folder, kind)}\n")
    with pytest.raises(ConfigError, match=rf"network file system \({kind}\).*use PostgreSQL"):
        mailing(folder / "work.db").enqueue(Letter(1))
    assert list(folder.iterdir()) == []


def test_a_program_that_uses_sqlite3_for_the_file_is_refused_too(mounts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "share"
    folder.mkdir()
    mounts.write_text(f"{ROOT_LINE}\n{mounted(folder, 'nfs4')}\n")
    mine = sqlite3.connect(folder / "work.db")
    try:
        with pytest.raises(ConfigError, match="nfs4"):
            mailing(folder / "work.db").enqueue(Letter(1))
    finally:
        mine.close()


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Path]:
    """A folder that is mounted over SFTP: the real file system and the real server, a socket between them."""
    if shutil.which("sshfs") is None or not SFTP_SERVER.exists() or os.geteuid() != 0:
        pytest.skip("to mount a folder over SFTP needs sshfs, openssh-sftp-server and root")
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    mine, its = socket.socketpair()
    mounting = ["sshfs", f":{there}", str(here), "-f", "-o", "passive"]
    with mine, its:
        server = subprocess.Popen([SFTP_SERVER], stdin=its, stdout=its)
        client = subprocess.Popen(mounting, stdin=mine, stdout=mine)
    until(lambda: os.path.ismount(here), "it is mounted")
    yield here
    subprocess.run(["umount", here], check=True)
    client.wait()
    server.wait()


@pytest.mark.torture
def test_a_folder_that_is_mounted_over_sftp_is_refused(share: Path) -> None:
    assert file_system_of(str(share / "work.db")) == "fuse.sshfs"
    with pytest.raises(ConfigError, match=r"network file system \(fuse\.sshfs\)"):
        mailing(share / "work.db").enqueue(Letter(1))
    assert list(share.iterdir()) == []
    Tally(matrix="F26", fault="database on a network file system", store="sqlite", faults=1).keep()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuse.fuse-overlayfs", "virtiofs"])
def test_a_file_on_a_disk_of_the_machine_is_taken(mounts: Path, tmp_path: Path, kind: str) -> None:
    mounts.write_text(f"{ROOT_LINE}\n{mounted(tmp_path, kind)}\n")
    app = mailing(tmp_path / "work.db")
    assert app.tasks.get(app.enqueue(Letter(1)).id).status is Status.PENDING
    app.close()


@pytest.mark.parametrize(
    ("lines", "path", "found"),
    [
        ([ROOT_LINE], "/data/work.db", "ext4"),
        ([ROOT_LINE, mounted("/data", "nfs4")], "/data/work.db", "nfs4"),
        ([ROOT_LINE, mounted("/data", "nfs4")], "/data", "nfs4"),
        ([ROOT_LINE, mounted("/data", "nfs4")], "/database/work.db", "ext4"),
        ([mounted("/data/disk", "xfs"), mounted("/data", "nfs4"), ROOT_LINE], "/data/disk/work.db", "xfs"),
        ([ROOT_LINE, mounted("/data", "autofs"), mounted("/data", "nfs")], "/data/work.db", "nfs"),
        ([ROOT_LINE, mounted(r"/my\040data\134x", "cifs")], r"/my data\x/work.db", "cifs"),
        (["22 1 254:1 / /plain rw - ext3 /dev/sda rw"], "/plain/work.db", "ext3"),
        ([mounted("/elsewhere", "nfs")], "/data/work.db", None),
        ([], "/data/work.db", None),
    ],
    ids=["root", "mounted", "the-mount", "a-like-name", "nearest", "last", "odd-name", "no-tags", "unsaid", "nothing"],
)
def test_a_file_is_on_what_is_mounted_nearest_and_last(
    mounts: Path, lines: list[str], path: str, found: str | None
) -> None:
    mounts.write_text("".join(f"{line}\n" for line in lines))
    assert file_system_of(path) == found


def test_a_link_is_followed(mounts: Path, tmp_path: Path) -> None:
    mounts.write_text(f"{ROOT_LINE}\n{mounted(tmp_path / 'share', 'smb3')}\n")
    (tmp_path / "share").mkdir()
    (tmp_path / "work.db").symlink_to(tmp_path / "share" / "work.db")
    assert file_system_of(str(tmp_path / "work.db")) == "smb3"


def test_where_the_system_says_nothing_nothing_is_refused(mounts: Path) -> None:
    assert file_system_of("/data/work.db") is None


def test_this_system_is_understood(tmp_path: Path) -> None:
    if not local_disk.MOUNTS.exists():
        pytest.skip("only Linux says what is mounted where")
    assert file_system_of("/proc/version") == "proc"
    assert file_system_of(str(tmp_path)) not in OVER_A_NETWORK | {None}
