"""Finding an app by its location."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.errors import ConfigError
from onceward.worker.find_app import load


def test_a_wrong_name_of_an_app_is_answered_with_the_right_ones(tmp_path: Path) -> None:
    script = tmp_path / "shop.py"
    script.write_text("from onceward import App\nshop = App('sqlite:///shop.db')\nnumber = 1\n")
    with pytest.raises(ConfigError, match=rf"has no 'app'; did you mean {script}:shop\?"):
        load(f"{script}:app")
    with pytest.raises(ConfigError, match=rf"is a int, not an App; did you mean {script}:shop\?"):
        load(f"{script}:number")


def test_a_module_without_an_app_says_so(tmp_path: Path) -> None:
    script = tmp_path / "empty.py"
    script.write_text("from onceward import App\n")
    with pytest.raises(ConfigError, match=r"has no 'app'; .*empty\.py has no App"):
        load(f"{script}:app")


@pytest.mark.parametrize(
    ("given", "likely"),
    [
        ("shop", "shop:app"),
        ("shop.py", "shop.py:app"),
        ("shop.app", "shop:app"),
        ("shop:", "shop:app"),
        (":", "myproject.tasks:app"),
    ],
)
def test_a_location_without_a_name_is_answered_with_what_it_may_have_meant(given: str, likely: str) -> None:
    with pytest.raises(ConfigError, match=rf"names no app; write module:name, for example {likely}$"):
        load(given)


def test_a_module_of_another_place_with_the_same_name_is_shown_by_its_file() -> None:
    with pytest.raises(ConfigError, match=r"queue has no 'app'; .*queue\.py has no App"):
        load("queue:app")
