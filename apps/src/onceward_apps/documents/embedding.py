"""Texts as vectors: what two texts are about, as numbers that can be compared. Offline, and the same every time.

The words' vectors are those that the package wordllama carries. Its files are read where they lie: nothing is
downloaded, nothing is written, and a read-only installation will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from onceward import ConfigError
from onceward_apps import extras

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

AT_ONCE = 4096
"""How many tokens are looked up together, 4 MB of them: a text may be of any length."""


class Embedder(Protocol):
    """Makes vectors of texts. Vectors can be compared with those of the same name only."""

    @property
    def name(self) -> str:
        """What it is called; stored with every vector."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One row of length 1 for each text. A text's row doesn't depend on the texts beside it."""


@cache
def offline() -> Embedder:
    """The embedder that needs no network: wordllama's, 256 dimensions. Loaded once in a process."""
    return _WordVectors(*_packaged())


def _packaged() -> tuple[Path, Path]:
    """Where the package keeps its weights and its tokenizer. Found without importing it: that would set up logging."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"nothing can be embedded: {extras.missing('wordllama')}")
    folder = Path(spec.submodule_search_locations[0])
    weights = folder / "weights" / "l2_supercat_256.safetensors"
    tokenizer = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
    for file in (weights, tokenizer):
        if not file.is_file():
            raise ConfigError(f"this version of wordllama has no {file.name}; install wordllama 0.4")
    return weights, tokenizer


class _WordVectors:
    """The sum of the vectors of a text's tokens, brought to length 1. A text without any has the first axis."""

    name = "wordllama-256"
    dimensions = 256

    def __init__(self, weights: Path, tokenizer: Path) -> None:
        import numpy as np
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._words: Matrix = load_file(weights)["embedding.weight"].astype(np.float32)
        self._tokenizer: Any = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            # One by one: the tokenizer's own threads save nothing here, and would not outlive a fork.
            tokens = self._tokenizer.encode(_sound(text), add_special_tokens=False).ids
            for start in range(0, len(tokens), AT_ONCE):
                row += self._words[tokens[start : start + AT_ONCE]].sum(axis=0)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows[lengths[:, 0] == 0, 0] = 1.0
        rows /= np.where(lengths == 0, np.float32(1), lengths)
        return rows


def _sound(text: str) -> str:
    """A text without lone surrogates, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
