"""Which of some passages answers a question best: a pure function, the same on every database.

A passage is worth the sum of three things, each between 0 and 1:

* how much of the question it has. A term counts as much as it is rare, and is there as far as the most similar word
  of the passage is similar to it: *cracked* for *broke*. The passages before and after it count half, because a novel
  names people once and says *he* from then on;
* its place in the list of the full-text index (`WORDS`);
* how similar its best three sentences are to the question as a whole (`SENTENCES`).

The weights were chosen with twenty questions about six books, and looked at with twenty others (`test_questions.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onceward_apps.documents.embedding import Embedder
from onceward_apps.documents.words import FUNCTION_WORDS, sentences, terms_of, unaccented, word_places

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onceward_apps.documents.embedding import Matrix

WORDS, SENTENCES = 0.3, 0.5
NEIGHBOUR = 0.5
UNLIKE = 0.5
"""Words whose vectors have this cosine or less have nothing to do with each other."""
HIT = 0.75
"""From this cosine on a word is shown as a hit."""
TOGETHER = 3
"""So many sentences are looked at together, and shown."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that may answer a question, with the texts before and after it."""

    heading: str
    text: str
    before: str
    after: str
    word_score: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a passage is worth, where its best sentences stand in it, and where the words are that were asked for."""

    score: float
    best: tuple[int, int]
    hits: tuple[tuple[int, int], ...]


class Question:
    """A question, ready to be compared with passages."""

    def __init__(self, terms: Sequence[str], weights: Sequence[float], embedder: Embedder) -> None:
        import numpy as np

        self._weights = np.array(weights, np.float32) / max(sum(weights), 1e-9)
        self._terms = embedder.embed(terms)
        self._whole = _unit((self._terms * self._weights[:, None]).sum(axis=0))
        self._embedder = embedder
        self._place: dict[str, int] = {}
        self._words: Matrix = np.zeros((0, embedder.dimensions), np.float32)
        self._alike: Matrix = np.zeros((0, len(terms)), np.float32)

    def rank(self, candidates: Sequence[Candidate]) -> list[Ranked]:
        """What each of the candidates is worth, in their order."""
        bags = [[frozenset(self._told(text)) for text in (_headed(one), one.before, one.after)] for one in candidates]
        self._learn(sorted({word for bag in bags for words in bag for word in words}))
        highest = max((one.word_score for one in candidates), default=0) or 1
        return [
            self._ranked(one, self._had(own, before, after) + WORDS * one.word_score / highest)
            for one, (own, before, after) in zip(candidates, bags, strict=True)
        ]

    def _told(self, text: str) -> list[str]:
        return [word for word in terms_of(text) if word not in FUNCTION_WORDS]

    def _learn(self, words: Sequence[str]) -> None:
        """Know the vectors of words, and how similar each is to each term, from 0 to 1."""
        self._place = {word: place for place, word in enumerate(words)}
        self._words = self._embedder.embed(words)
        self._alike = self._words @ self._terms.T

    def _had(self, own: frozenset[str], before: frozenset[str], after: frozenset[str]) -> float:
        import numpy as np

        had = np.maximum(self._nearest(own), NEIGHBOUR * np.maximum(self._nearest(before), self._nearest(after)))
        return float((had * self._weights).sum())

    def _nearest(self, words: frozenset[str]) -> NDArray[np.float32]:
        import numpy as np

        if not words:
            return np.zeros(len(self._weights), np.float32)
        alike = self._alike[[self._place[word] for word in words]].max(axis=0)
        nearest: NDArray[np.float32] = np.clip((alike - UNLIKE) / (1 - UNLIKE), 0, 1)
        return nearest

    def _ranked(self, one: Candidate, score: float) -> Ranked:
        import numpy as np

        places = sentences(one.text) or [(0, len(one.text))]
        sums = np.stack([self._sum(one.text[start:end]) for start, end in places])
        width = min(TOGETHER, len(places))
        windows = [(first, first + width) for first in range(len(places) - width + 1)]
        values = [float(_unit(sums[first:end].sum(axis=0)) @ self._whole) for first, end in windows]
        first, end = windows[int(np.argmax(values))]
        best = (places[first][0], places[end - 1][1])
        return Ranked(score + SENTENCES * max(values), best, self._hits(one.text, best))

    def _sum(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        words = [self._place[word] for word in self._told(text) if word in self._place]
        return self._words[words].sum(axis=0) if words else np.zeros(self._words.shape[1], np.float32)

    def _hits(self, text: str, within: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        found = []
        for start, end in word_places(text[within[0] : within[1]]):
            place = self._place.get(unaccented(text[within[0] + start : within[0] + end]))
            if place is not None and self._alike[place].max() >= HIT:
                found.append((within[0] + start, within[0] + end))
        return tuple(found)


def _headed(one: Candidate) -> str:
    """A passage with the last part of its heading: the name of its chapter, not of its book."""
    return f"{one.heading.rpartition(' › ')[2]} {one.text}"


def _unit(row: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    length = float(np.linalg.norm(row))
    return row / np.float32(length) if length else row
