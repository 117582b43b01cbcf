"""Chunks: exact offsets, nothing lost, ids that last, and the headings above each passage."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward_apps.documents.chunking import (
    JOINED,
    LARGEST,
    Chunk,
    Heading,
    chunk_id,
    chunks_of,
    outline_of,
    word_count,
)
from onceward_apps.documents.cleaning import clean

SENTENCE = "The quick brown fox jumps over the lazy dog near the river bank. "
PIECES = [
    "# Title\n\n", "## Part one\n", "\n\n", "\n", " ", "Setext\n======\n\n", "- item\n", "1. item\n", "> quoted\n",
    "```\ncode # no heading\n```\n", "| a | b |\n| - | - |\n| c | d |\n", SENTENCE * 3, SENTENCE * 30, "漢字" * 800,
    "é", "\t", "word" * 700, "**bold** ", "[^1]", "🙂", "---\n", "    indented\n", "\\# x\n", "<b>raw</b>\n",
]  # fmt: skip


def check(markdown: str, chunks: list[Chunk]) -> None:
    """Nothing lost, nothing twice, everything where it says it is."""
    place = 0
    for position, chunk in enumerate(chunks):
        assert chunk.position == position
        assert markdown[chunk.start : chunk.end] == chunk.text
        assert chunk.text.strip()
        assert not markdown[place : chunk.start].strip()
        assert len(chunk.text) <= JOINED
        place = chunk.end
    assert not markdown[place:].strip()


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_nothing_is_lost_and_offsets_are_exact(markdown: str) -> None:
    check(markdown, chunks_of("d", markdown))


@given(st.text(max_size=3000).map(clean))
def test_any_text_can_be_cut(markdown: str) -> None:
    check(markdown, chunks_of("d", markdown))


def test_passages_have_about_a_thousand_characters() -> None:
    text = "\n\n".join(SENTENCE * 5 for _ in range(100))
    sizes = [len(chunk.text) for chunk in chunks_of("d", text)]
    assert all(600 < size <= LARGEST for size in sizes[:-1])


@pytest.mark.parametrize("piece", ["x", "word ", "漢", "# ", "a\n", "*_`[("])
def test_one_endless_line_is_cut_quickly(piece: str) -> None:
    text = piece * (300_000 // len(piece))
    began = time.process_time()
    chunks = chunks_of("d", text)
    assert time.process_time() - began < 5
    check(text, chunks)


def test_a_paragraph_of_many_pages_is_cut_between_words() -> None:
    words = [f"word{number}" for number in range(9000)]
    chunks = chunks_of("d", "Before.\n\n" + " ".join(words) + "\n\nAfter.")
    assert " ".join(chunk.text for chunk in chunks).split() == ["Before.", *words, "After."]


def test_ids_depend_on_document_place_and_text_alone() -> None:
    text = "\n\n".join(f"{number}. {SENTENCE * 5}" for number in range(20))
    ids = [chunk.chunk for chunk in chunks_of("d", text)]
    assert ids == [chunk.chunk for chunk in chunks_of("d", text)]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & {chunk.chunk for chunk in chunks_of("other", text)}
    assert all(re.fullmatch("c[0-9a-f]{23}", one) for one in ids)
    assert chunk_id("d", 0, 4, "text") == "c83a5b1809108d8a0185c7bb"
    later = text + "\n\nOne more.\n\n" + SENTENCE * 40
    assert ids[:-1] == [chunk.chunk for chunk in chunks_of("d", later)][: len(ids) - 1]


def test_each_passage_knows_the_headings_above_it() -> None:
    long = SENTENCE * 18
    text = (
        f"# Book\n\n## Part One\n\n### I\n\n{long}\n\n{long}\n\n### II\n\n{long}\n\n## Part Two\n\n{long}\n\n"
        f"# Notes\n\n{long}"
    )
    assert [chunk.heading for chunk in chunks_of("d", text)] == [
        "Book › Part One › I",
        "Book › Part One › I",
        "Book › Part One › II",
        "Book › Part Two",
        "Notes",
    ]


def test_a_heading_goes_with_the_text_below_it_and_a_last_line_with_the_text_above() -> None:
    text = f"## Lone\n\n{SENTENCE * 17}\n\n{SENTENCE}\n\n## Next\n\n{SENTENCE * 17}"
    chunks = chunks_of("d", text)
    assert [chunk.text[:7] for chunk in chunks] == ["## Lone", "## Next"]
    assert chunks[0].text.endswith(SENTENCE.strip())


def test_the_outline_has_all_headings_and_no_code() -> None:
    text = (
        "# One\n\nText\n#hash\n\n```\n# code\n```\n~~~~\n# code\n~~~\n# code\n~~~~\n  ## *Two* `x` ##\n\nThree\n===\n\n"
        "Four\n---\n\n- item\n---\n\n> quoted\n---\n\n---\n\n# \n\n    # indented\n\n###### Six [^1] \\# [link](http://a.b)"
    )
    found = outline_of(text)
    assert [(one.level, one.title) for one in found] == [
        (1, "One"),
        (2, "Two x"),
        (1, "Three"),
        (2, "Four"),
        (6, "Six # link"),
    ]
    assert all(re.match(r" *(#|Three|Four)", text[one.start :]) for one in found)
    assert found[0] == Heading(1, "One", 0)


def test_words_are_counted() -> None:
    assert word_count("# The *quick* fox’s 3 jumps\n\n- it's snake_case") == 8
    assert word_count("草枕を読む") == 5
    assert word_count("") == 0
