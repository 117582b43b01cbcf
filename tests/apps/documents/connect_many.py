"""Connects 20,000 passages with each other, in a process that can be measured."""

from __future__ import annotations

import numpy as np

from onceward_apps.documents.connecting import Passages, links

COUNT, DIMENSIONS = 20_000, 256


def made(name: str, rng: np.random.Generator) -> Passages:
    """Passages of about 150 words out of 30,000, as rare as in a book; one in ten is about the same as some others."""
    words = np.array([f"w{'abcdefghij'[number % 10]}{_letters(number)}" for number in range(30_000)])
    shares = 1 / np.arange(10, 30_010)
    drawn = rng.choice(len(words), (COUNT, 150), p=shares / shares.sum())
    texts = [" ".join(words[row]) for row in drawn]
    topics = rng.standard_normal((COUNT // 10, DIMENSIONS)).astype(np.float32)
    noise = rng.standard_normal((COUNT, DIMENSIONS)).astype(np.float32)
    rows = topics[rng.integers(0, len(topics), COUNT)] + noise * rng.uniform(0.3, 1.5, (COUNT, 1)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Passages(name, "m", [f"{name}{place}" for place in range(COUNT)], range(COUNT), texts, rows)


def _letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    left = made("a", rng)
    print(len(links(left, left)))
