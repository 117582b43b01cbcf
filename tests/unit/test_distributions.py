"""Both wheels: built, unpacked somewhere else, and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built(folder: Path, into: Path) -> Path:
    """The wheel of a distribution, made without a network."""
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into))
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    [wheel] = into.glob("*.whl")
    return wheel


def test_both_wheels_are_complete_and_the_engine_comes_without_applications(tmp_path: Path) -> None:
    engine, applications = built(ROOT, tmp_path / "engine"), built(ROOT / "apps", tmp_path / "apps")
    for wheel, package in ((engine, "onceward"), (applications, "onceward_apps")):
        with zipfile.ZipFile(wheel) as files:
            assert {name.partition("/")[0] for name in files.namelist() if ".dist-info" not in name} == {package}
            files.extractall(tmp_path / "installed")
    there = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "HOME": str(tmp_path)}
    use = (
        "import onceward, onceward_apps; print(onceward.__file__, onceward_apps.__file__);"
        "from onceward.cli import main; made = main(['migrate', '--db', 'sqlite:///jobs.db']);"
        "from onceward_apps.jobfinder.cli import main; sys.exit(made + main(['init', 'profile.toml']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {use}"],
        cwd=tmp_path,
        env=there,
        capture_output=True,
        text=True,
        check=False,
    )
    first, *_ = done.stdout.splitlines()
    assert [Path(name).parents[1] for name in first.split()] == [tmp_path / "installed"] * 2, done.stderr
    assert done.returncode == 0, done.stderr
