"""The protocols of the engine hold in every state that their models can reach, and every broken twin is found out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.models.spin import Model, Twin, check, check_twin, missing, models

needs_spin = pytest.mark.skipif(missing() is not None, reason=missing() or "")
SOURCE = Path(__file__).parents[2] / "src" / "onceward"
MODELS = models()
LARGER = [(model, bounds) for model in MODELS for bounds in model.larger]
TWINS = [(model, twin) for model in MODELS for twin in model.twins]


def test_every_model_has_a_twin_that_must_break() -> None:
    assert {model.name for model in MODELS} == {"lease", "receipt", "budget", "join", "schedule"}
    assert all(model.twins and model.larger for model in MODELS)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_what_a_model_stands_for_is_in_the_source(model: Model) -> None:
    source = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*") if path.suffix in (".py", ".sql")}
    opening = model.text.partition("in src/onceward\n")[2].partition(" * larger")[0]
    meant = "\n".join(line[24:] for line in opening.splitlines())
    files = re.findall(r"(?:\w+/)+\w+\.py", meant)
    assert files
    assert [name for name in files if SOURCE / name not in source] == []
    names = re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", meant)
    assert names
    assert [name for name in names if not any(name in text for text in source.values())] == []


@needs_spin
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_protocol_holds_in_every_state(model: Model) -> None:
    outcome = check(model)
    assert outcome.violated is None
    assert outcome.unreached == []


@needs_spin
@pytest.mark.parametrize(("model", "twin"), TWINS, ids=[f"{m.name}-{t.define}-{t.breaks}" for m, t in TWINS])
def test_a_broken_twin_breaks_what_it_must(model: Model, twin: Twin) -> None:
    assert check_twin(model, twin).violated == twin.breaks


@needs_spin
@pytest.mark.torture
@pytest.mark.parametrize(("model", "bounds"), LARGER, ids=[f"{m.name}-{b}" for m, b in LARGER])
def test_the_protocol_holds_in_every_state_of_a_larger_world(model: Model, bounds: dict[str, int]) -> None:
    outcome = check(model, bounds)
    assert outcome.violated is None
    assert outcome.unreached == []
