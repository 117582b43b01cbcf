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
    with pytest.raises(ConfigError, match="has no 'app'; it has no App"):
        load(f"{script}:app")
