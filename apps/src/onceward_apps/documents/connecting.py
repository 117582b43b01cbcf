"""Which passages of two documents belong together: a pure function of the two, the same whichever is named first.

A pair of passages is a connection if all of this holds:

* their vectors are alike: a cosine of at least `BETWEEN`, or `WITHIN` for two passages of one document, whose passages
  are alike by nature;
* it is one of the `BEST` of one of its two passages in the other document;
* they share at least `SHARED` rare words, and each has at least `LEAST_WORDS` words to tell something with. Vectors
  alone bring together tables, dialogues and lists, whatever they are about;
* in one document, they are at least `APART` positions apart: neighbours are connected by being neighbours.

Memory is bounded: vectors are compared block by block, and of each block only the best are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onceward_apps.documents.words import rare_words, told_words_kept, word_runs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onceward_apps.documents.embedding import Matrix

BETWEEN, WITHIN = 0.5, 0.65
BEST = 3
SHARED = 2
LEAST_WORDS = 8
APART = 4
RARE = 0.03
"""A word is rare if at most this share of the passages of the two documents has it."""
NAMED = 5
"""How many shared words are named as the reason."""
REPEATED = 3
"""Two passages with so many runs of words in common repeat a text, such as a notice that many books carry."""
SAME_TEXT = "both have the same text"
BLOCK = 1024
"""So many passages are compared with a whole document at once: with 20,000 passages that takes 80 MB."""


@dataclass(frozen=True, slots=True)
class Passages:
    """The passages of one document, in order, with their vectors."""

    document: str
    model: str
    ids: Sequence[str]
    positions: Sequence[int]
    texts: Sequence[str]
    vectors: Matrix


@dataclass(frozen=True, slots=True)
class Link:
    """Two passages that belong together. The left one is of the document whose id comes first; in one document it is
    the earlier one."""

    left: str
    right: str
    score: float
    why: str


def links(left: Passages, right: Passages) -> list[Link]:
    """The connections between two documents, or within one if both are the same; the strongest first."""
    if left.document > right.document:
        left, right = right, left
    if left.model != right.model:
        return []
    is_same = left.document == right.document
    left_words = [told_words_kept(text) for text in left.texts]
    right_words = left_words if is_same else [told_words_kept(text) for text in right.texts]
    left_rows, right_rows = _telling(left_words), _telling(right_words)
    rare = rare_words(left_words if is_same else [*left_words, *right_words], RARE)
    found: list[Link] = []
    for row, column in _alike(left, right, left_rows, right_rows):
        shared = left_words[row] & right_words[column]
        named = sorted((rare[word], word) for word in shared if word in rare and _singular(word) not in shared)
        if len(named) >= SHARED:
            is_repeated = len(word_runs(left.texts[row]) & word_runs(right.texts[column])) >= REPEATED
            why = SAME_TEXT if is_repeated else _why([word for _, word in named])
            found.append(Link(left.ids[row], right.ids[column], _cosine(left.vectors[row], right.vectors[column]), why))
    return sorted(found, key=lambda link: (-link.score, link.left, link.right))


def worth_comparing(mine: Passages, others: Sequence[Passages]) -> list[Passages]:
    """Return those of several documents that have a passage alike enough to one of mine, by one product of all vectors.

    Nothing is lost by it: what is alike in no passage has no connection. Most documents of a large library are not.
    """
    import numpy as np

    near = [one for one in others if one.document == mine.document]
    rest = [one for one in others if one.document != mine.document and one.model == mine.model]
    if not rest:
        return near
    best = (mine.vectors @ np.concatenate([one.vectors for one in rest]).T).max(axis=0)
    starts = np.cumsum([0, *(len(one.ids) for one in rest[:-1])])
    peaks = np.maximum.reduceat(best, starts)
    return near + [one for one, peak in zip(rest, peaks, strict=True) if peak >= np.float32(BETWEEN)]


def _telling(words: Sequence[frozenset[str]]) -> NDArray[np.intp]:
    """The passages that have enough words, by their place."""
    import numpy as np

    return np.array([place for place, told in enumerate(words) if len(told) >= LEAST_WORDS], np.intp)


def _alike(
    left: Passages, right: Passages, left_rows: NDArray[np.intp], right_rows: NDArray[np.intp]
) -> list[tuple[int, int]]:
    """The pairs whose vectors are alike enough and that are among the best of one of their two passages."""
    import numpy as np

    is_same = left.document == right.document
    if not len(left_rows) or not len(right_rows):
        return []
    threshold = np.float32(WITHIN if is_same else BETWEEN)
    columns = np.ascontiguousarray(right.vectors[right_rows].T)
    places = np.asarray(right.positions)[right_rows]
    best = _Best(len(right_rows))
    pairs: set[tuple[int, int]] = set()
    for start in range(0, len(left_rows), BLOCK):
        rows = left_rows[start : start + BLOCK]
        scores = left.vectors[rows] @ columns
        if is_same:
            near_from = np.searchsorted(places, places[start : start + BLOCK] - APART, side="right")
            near_to = np.searchsorted(places, places[start : start + BLOCK] + APART, side="left")
            for row, (first, end) in enumerate(zip(near_from, near_to, strict=True)):
                scores[row, first:end] = -1
        promising = np.flatnonzero(scores.max(axis=1) >= threshold)
        kept, values = _top(scores[promising])
        for row, column in zip(*np.nonzero(values >= threshold), strict=True):
            pairs.add((int(rows[promising[row]]), int(right_rows[kept[row, column]])))
        if not is_same:  # within one document, the best of a column are those of the row of the same passage
            best.add(scores, start, threshold)
    if is_same:
        return sorted({(min(pair), max(pair)) for pair in pairs})
    pairs.update((int(left_rows[row]), int(right_rows[column])) for row, column in best.pairs(threshold))
    return sorted(pairs)


class _Best:
    """The best rows of every column, while blocks of rows go by."""

    def __init__(self, width: int) -> None:
        import numpy as np

        self._rows = np.zeros((width, BEST), np.intp)
        self._scores = np.full((width, BEST), -1, np.float32)

    def add(self, scores: Matrix, start: int, threshold: np.float32) -> None:
        """Look at a block of rows, the first of which has this place. At equal scores the earlier row stays."""
        import numpy as np

        peaks = scores.max(axis=0)
        columns = np.flatnonzero((peaks >= threshold) & (peaks > self._scores[:, -1]))
        rows, values = _top(np.ascontiguousarray(scores[:, columns].T))
        both = np.concatenate([self._scores[columns], values], axis=1)
        places = np.concatenate([self._rows[columns], rows + start], axis=1)
        order = np.argsort(-both, axis=1, kind="stable")[:, :BEST]
        self._scores[columns] = np.take_along_axis(both, order, axis=1)
        self._rows[columns] = np.take_along_axis(places, order, axis=1)

    def pairs(self, threshold: np.float32) -> list[tuple[int, int]]:
        """Row and column of all that was kept."""
        import numpy as np

        columns, ranks = np.nonzero(self._scores >= threshold)
        return [(int(self._rows[column, rank]), int(column)) for column, rank in zip(columns, ranks, strict=True)]


def _top(scores: Matrix) -> tuple[NDArray[np.intp], Matrix]:
    """The places and scores of the best in every row, the best first; at equal scores the earlier one. The scores that
    were taken are overwritten."""
    import numpy as np

    height = np.arange(len(scores))
    places = np.zeros((len(scores), BEST), np.intp)
    values = np.full((len(scores), BEST), -1, np.float32)
    for rank in range(min(BEST, scores.shape[1])):
        places[:, rank] = scores.argmax(axis=1)
        values[:, rank] = scores[height, places[:, rank]]
        scores[height, places[:, rank]] = -1
    return places, values


def _cosine(left: Matrix, right: Matrix) -> float:
    """How alike two vectors are, added up in one order on every machine."""
    import numpy as np

    return round(float(np.sum(left.astype(np.float64) * right.astype(np.float64))), 4)


def _singular(word: str) -> str:
    """What a word may be the plural of: two words that are one count once."""
    return word.removesuffix("s") if word.endswith("s") else ""


def _why(words: Sequence[str]) -> str:
    """The shared rare words, the rarest first."""
    rest = len(words) - NAMED
    return "both speak of " + ", ".join(words[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
