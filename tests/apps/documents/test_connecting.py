"""Which passages belong together: symmetric, deterministic, bounded."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from onceward_apps.documents import connecting
from onceward_apps.documents.connecting import APART, BEST, SAME_TEXT, Passages, links, worth_comparing
from onceward_apps.documents.embedding import offline

BEES = "The bees carry pollen from flower to flower, and without their visits the clover of the meadow bears no seed."
CLOVER = (
    "Clover needs the bees: where nobody visits its flowers and carries their pollen, there will be no seed next year."
)
WAR = (
    "The general ordered the regiment across the bridge, and the cannon fired at the retreating enemy until nightfall."
)
SHIPS = "A sailor mends the torn sail while his captain reads an old chart of the northern harbours by lantern light."


def document(name: str, *texts: str, model: str = "m") -> Passages:
    return Passages(
        name, model, [f"{name}{place}" for place in range(len(texts))], range(len(texts)), texts, offline().embed(texts)
    )


def test_passages_about_the_same_are_connected_and_others_are_not() -> None:
    [link] = links(document("a", BEES, WAR), document("b", SHIPS, CLOVER))
    assert (link.left, link.right) == ("a0", "b1")
    assert 0.5 <= link.score <= 1
    assert link.why.startswith("both speak of ")
    assert "pollen" in link.why


def test_the_answer_is_the_same_whichever_is_named_first() -> None:
    left, right = document("a", BEES, WAR, SHIPS), document("b", SHIPS, CLOVER, WAR, BEES)
    assert links(left, right) == links(right, left) == links(left, right)
    assert all(link.left.startswith("a") and link.right.startswith("b") for link in links(right, left))


def test_documents_that_are_not_worth_comparing_have_no_connection_and_the_others_are_kept() -> None:
    mine = document("m", BEES, WAR)
    others = [document("a", CLOVER), mine, document("b", SHIPS), document("c", BEES, model="other"), document("d", WAR)]
    kept = worth_comparing(mine, others)
    assert {one.document for one in kept} == {"a", "d", "m"}
    assert all(links(mine, one) == [] for one in others if one not in kept)
    assert worth_comparing(mine, [mine]) == [mine]


def test_a_text_that_is_repeated_is_called_so() -> None:
    [link] = links(document("a", WAR), document("b", WAR))
    assert link.why == SAME_TEXT
    assert link.score == 1


def test_neighbours_in_one_document_are_not_connected() -> None:
    fillers = [f"{SHIPS.replace('sailor', word)}" for word in ("cook", "pilot", "boy")]
    near = document("a", BEES, *fillers[: APART - 2], CLOVER)
    far = document("a", BEES, *fillers[: APART - 1], CLOVER)
    assert not [link for link in links(near, near) if {link.left, link.right} == {"a0", f"a{APART - 1}"}]
    assert [(link.left, link.right) for link in links(far, far) if link.left == "a0"] == [("a0", f"a{APART}")]


def test_a_passage_is_never_connected_with_itself_nor_a_pair_twice() -> None:
    many = document("a", *[BEES if place % 5 == 0 else f"{SHIPS} {place}" for place in range(40)])
    pairs = [(link.left, link.right) for link in links(many, many)]
    assert len(pairs) == len(set(pairs)) == len({frozenset(pair) for pair in pairs})
    assert all(int(right[1:]) - int(left[1:]) >= APART for left, right in pairs)


def test_a_pair_is_among_the_best_of_one_of_its_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    left, right = _random("a", 90, rng), _random("b", 70, rng)
    monkeypatch.setattr(connecting, "SHARED", 0)
    scores = left.vectors @ right.vectors.T
    expected = {
        (row, column)
        for row in range(90)
        for column in range(70)
        if scores[row, column] >= connecting.BETWEEN
        and ((scores[row] > scores[row, column]).sum() < BEST or (scores[:, column] > scores[row, column]).sum() < BEST)
    }
    assert expected
    for block in (1, 8, 33, 1024):
        monkeypatch.setattr(connecting, "BLOCK", block)
        found = {(int(link.left[1:]), int(link.right[1:])) for link in links(left, right)}
        assert found == expected, f"in blocks of {block}"


def test_a_document_of_one_text_over_and_over_has_no_more_than_the_best() -> None:
    same = document("a", *[BEES] * 60)
    assert len(links(same, document("b", *[BEES] * 60))) <= 2 * BEST * 60
    assert len(links(same, same)) <= BEST * 60


def test_two_words_in_common_are_needed() -> None:
    left = document("a", "The bee visits one flower after another during every warm morning in summer near home.")
    right = document("b", "An insect flies between blossoms all day long while sunlight heats their small garden.")
    assert left.vectors[0] @ right.vectors[0] > 0.3
    assert links(left, right) == []


def test_headings_and_short_lines_are_not_connected() -> None:
    assert links(document("a", "## Chapter One", "> So be it."), document("b", "## Chapter One", "> So be it.")) == []


def test_vectors_of_two_models_are_not_compared() -> None:
    assert links(document("a", BEES), document("b", CLOVER, model="other")) == []


def test_documents_without_passages_have_no_connections() -> None:
    assert links(document("a"), document("b", BEES)) == []
    assert links(document("a"), document("a")) == []


WORDS = [
    f"{first}{second}{third}" for first in "bdfghklmnp" for second in "aeiou" for third in ("ra", "ti", "lo", "gen")
]


def _random(name: str, count: int, rng: np.random.Generator) -> Passages:
    """Passages of made-up words, with vectors that have some neighbours."""
    texts = [" ".join(rng.choice(WORDS, 40)) for _ in range(count)]
    topics = rng.standard_normal((max(2, count // 10), 32))
    rows = topics[rng.integers(0, len(topics), count)] + 0.9 * rng.standard_normal((count, 32))
    vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return Passages(name, "m", [f"{name}{place}" for place in range(count)], range(count), texts, vectors)


@pytest.mark.torture
def test_20_000_passages_against_each_other_take_less_than_a_minute_and_a_gigabyte() -> None:
    program = Path(__file__).with_name("connect_many.py")
    began = time.monotonic()
    done = subprocess.run([sys.executable, program], check=True, capture_output=True, text=True, timeout=300)
    taken = time.monotonic() - began
    memory_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    assert int(done.stdout) > 0
    assert taken < 60, f"{taken:.0f} s"
    assert memory_mb < 1_000, f"{memory_mb:.0f} MB"
