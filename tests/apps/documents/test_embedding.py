"""Texts as vectors: offline, deterministic, of length 1."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from onceward import ConfigError
from onceward_apps.documents import embedding
from onceward_apps.documents.embedding import offline


def test_vectors_have_length_1_and_what_is_alike_is_near() -> None:
    texts = ["The battle was lost at dawn.", "At dawn the army lost the fight.", "Bees make cells of wax."]
    rows = offline().embed(texts)
    assert rows.shape == (3, offline().dimensions)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


@pytest.mark.parametrize("text", ["", "\n\t", "\ud800", "😀", "\x00", "a" * 100_000])
def test_every_text_has_a_vector_of_length_1(text: str) -> None:
    [row] = offline().embed([text])
    assert np.isclose(np.linalg.norm(row), 1, atol=1e-6)


def test_an_empty_text_has_the_first_axis() -> None:
    [row] = offline().embed([""])
    assert row[0] == 1
    assert not row[1:].any()


def test_a_vector_does_not_depend_on_the_texts_beside_it() -> None:
    texts = [f"Passage {number} about {'bees ' * (number % 7)}and wax" for number in range(150)]
    together = offline().embed(texts)
    assert (together == np.concatenate([offline().embed([text]) for text in texts])).all()
    assert (together == offline().embed(texts)).all()


def test_nothing_makes_no_rows() -> None:
    assert offline().embed([]).shape == (0, 256)


def test_the_vectors_are_those_of_wordllama() -> None:
    # In a process of its own: importing the package sets up logging for everybody.
    program = """
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from wordllama.inference import WordLlamaInference
from onceward_apps.documents.embedding import _packaged, offline
weights, tokenizer = _packaged()
model = WordLlamaInference(load_file(weights)["embedding.weight"], Tokenizer.from_file(str(tokenizer)))
texts = ["War and peace", "The origin of species by means of natural selection", "bee"]
assert np.allclose(model.embed(texts, norm=True), offline().embed(texts), atol=1e-5)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_nothing_is_imported_before_it_is_needed() -> None:
    program = (
        "import sys; import onceward_apps.documents.searching, onceward_apps.documents.connecting;"
        " print([name for name in ('numpy', 'tokenizers', 'wordllama', 'sqlite_vec') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_nothing_is_downloaded_or_written() -> None:
    program = """
import socket, sys
def refuse(*_): raise OSError("no network")
socket.socket.connect = refuse
opened = []
def watch(event, args):
    if event == "open" and set("wax+") & set(str(args[1] or "")):
        opened.append(args)
sys.addaudithook(watch)
from onceward_apps.documents.embedding import offline
offline().embed(["something"])
print(opened)
"""
    done = subprocess.run([sys.executable, "-B", "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_file_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "wordllama").mkdir()
    (tmp_path / "wordllama" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    with pytest.raises(ConfigError, match="has no l2_supercat_256"):
        embedding._packaged()
