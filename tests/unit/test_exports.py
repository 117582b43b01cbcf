"""The public names: one sorted list, all of them there, and nothing in it that is not ours."""

from __future__ import annotations

import inspect

import pytest

import onceward
import onceward.testing
from onceward import errors


@pytest.mark.parametrize("module", [onceward, onceward.testing])
def test_the_list_of_names_is_sorted_and_every_name_is_there(module: object) -> None:
    names: list[str] = module.__all__  # type: ignore[attr-defined]
    folded = sorted(names, key=lambda name: (not name.isupper(), name))
    assert names in (sorted(names), folded)
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("name", onceward.__all__)
def test_a_public_name_says_what_it_is(name: str) -> None:
    thing = getattr(onceward, name)
    assert inspect.getdoc(thing)
    assert thing.__module__.startswith("onceward.")


def test_every_error_is_in_the_tree_that_the_docstring_draws() -> None:
    drawn = errors.__doc__ or ""
    for name, error in vars(errors).items():
        if inspect.isclass(error) and issubclass(error, Exception):
            assert name in drawn
            assert issubclass(error, onceward.OncewardError)
