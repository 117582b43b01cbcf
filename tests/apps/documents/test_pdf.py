"""PDF: text in reading order, headings from the outline, and a reason for every file that can't be read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from onceward_apps.documents.limits import ReadingLimits
from onceward_apps.documents.opening import open_document
from onceward_apps.documents.outline import outline_of
from onceward_apps.documents.readers.page_text import Bookmark, markdown_of_page
from onceward_apps.documents.reading import Reason, Unreadable, joined
from tests.apps.documents.making import make_locked_pdf, make_long_pdf, make_pdf
from tests.apps.documents.shared_data import shared, shared_file

PROSE = "It was a dark and stormy night, and the rain fell in torrents except at occasional intervals. " * 6


def read(path: Path) -> str:
    document = open_document(path)
    try:
        return joined(document.part(index).markdown for index in range(document.part_count))
    finally:
        document.close()


def reason_of(path: Path, limits: ReadingLimits | None = None) -> Reason:
    with pytest.raises(Unreadable) as refused:
        open_document(path, limits=limits) if limits else open_document(path)
    return refused.value.reason


def test_parts_are_runs_of_ten_pages(tmp_path: Path) -> None:
    document = open_document(make_pdf(tmp_path / "a.pdf", [f"Page {number}" for number in range(1, 26)]))
    assert document.part_count == 3
    assert [document.part(index).title for index in range(3)] == ["pages 1–10", "pages 11–20", "pages 21–25"]
    assert document.part(2).markdown == "\n\n".join(f"Page {number}" for number in range(21, 26))


def test_lines_become_paragraphs(tmp_path: Path) -> None:
    assert read(make_pdf(tmp_path / "a.pdf", [f"{PROSE}\n{PROSE}"])) == f"{PROSE.strip()}\n\n{PROSE.strip()}"


def test_words_that_are_parted_at_the_end_of_a_line_are_joined() -> None:
    text = (
        "A long line that ends in an in\ufffecredible word, and a long line that ends in a won-\n"
        "derful one, by Mr. Smith-\nJones"
    )
    assert markdown_of_page(text, []) == (
        "A long line that ends in an incredible word, and a long line that ends in a wonderful one, by Mr. Smith- Jones"
    )


def test_the_outline_gives_headings(tmp_path: Path) -> None:
    outline = [("The Beginning", 0), ("The End", 1), ("Not Printed", 1)]
    path = make_pdf(
        tmp_path / "a.pdf", [f"1 The Beginning\n{PROSE}", f"Before.\nII. THE END\n{PROSE}"], outline=outline
    )
    text = read(path)
    assert [(one.level, one.title) for one in outline_of(text)] == [
        (1, "1 The Beginning"),
        (1, "Not Printed"),
        (1, "II. THE END"),
    ]
    assert text.count(PROSE.strip()) == 2


def test_a_heading_may_take_lines_and_a_like_one_follows() -> None:
    marks = [Bookmark(2, "A Title of Two Lines"), Bookmark(3, "Twice"), Bookmark(3, "Twice")]
    assert markdown_of_page("A Title\nof Two Lines\nText.\nTwice\nOne.\nTwice\nTwo.", marks) == (
        "## A Title of Two Lines\n\nText.\n\n### Twice\n\nOne.\n\n### Twice\n\nTwo."
    )


def test_what_looks_like_markup_is_text() -> None:
    assert (
        outline_of(
            markdown_of_page("# 1 is a number\nShort\n====\nAnd so on, for a longer line than all the others", [])
        )
        == []
    )


def test_metadata_is_kept(tmp_path: Path) -> None:
    about = open_document(make_pdf(tmp_path / "a.pdf", ["Text"], title="A Paper")).about
    assert (about.format, about.title, about.creators, about.published) == (
        "pdf",
        "A Paper",
        ("A Writer",),
        "2024-02-29",
    )


def test_a_password_is_a_reason(tmp_path: Path) -> None:
    assert reason_of(make_locked_pdf(tmp_path / "a.pdf", ["Secret"])) is Reason.ENCRYPTED


def test_pages_that_are_images_have_no_text(tmp_path: Path) -> None:
    assert reason_of(make_pdf(tmp_path / "a.pdf", ["", "", ""])) is Reason.NO_TEXT
    assert read(make_pdf(tmp_path / "b.pdf", ["", "", "On the third."])) == "On the third."


def test_a_hundred_thousand_pages_are_refused_at_once(tmp_path: Path) -> None:
    path = make_long_pdf(tmp_path / "a.pdf", 100_000)
    began = time.process_time()
    assert reason_of(path) is Reason.TOO_MANY_PAGES
    assert time.process_time() - began < 2
    assert reason_of(make_pdf(tmp_path / "b.pdf", ["a", "b", "c"]), ReadingLimits(pages=2)) is Reason.TOO_MANY_PAGES


def test_a_broken_file_is_broken(tmp_path: Path) -> None:
    whole = make_pdf(tmp_path / "a.pdf", [PROSE]).read_bytes()
    (tmp_path / "b.pdf").write_bytes(whole[:60])
    assert reason_of(tmp_path / "b.pdf") is Reason.BROKEN
    (tmp_path / "c.pdf").write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 10)
    assert reason_of(tmp_path / "c.pdf") is Reason.BROKEN


def test_a_page_that_is_not_there_is_no_silent_loss(tmp_path: Path) -> None:
    path = make_pdf(tmp_path / "a.pdf", ["First.", "Second."])
    path.write_bytes(path.read_bytes().replace(b"/Kids [4 0 R 6 0 R]", b"/Kids [4 0 R 9 0 R]"))
    document = open_document(path)
    with pytest.raises(Unreadable) as refused:
        document.part(0)
    assert refused.value.reason is Reason.BROKEN


EXPECTED = {
    "crazyones-pdfa": "They push the human race forward.",
    "google-doc-document": "Although that way may not be obvious at first unless you're Dutch.",
    "grayscale-image": Reason.NO_TEXT,
    "habibi": "حَبيبي",
    "libreoffice-writer-password": Reason.ENCRYPTED,
    "multicolumn": "Lorem ipsum dolor sit amet, consectetuer adipiscing elit. Ut purus elit, vestibulum ut",
    "pdfkit": "ABC: DEF",
    "pdflatex-4-pages": "This text should show what a printed text will look like at this place.",
    "pdflatex-outline": "# 1 Foo\n\nHello, here is some text without a meaning.",
}


@pytest.mark.parametrize("path", shared("pdf"), ids=lambda path: path.stem)
def test_every_shared_paper_is_read_or_has_a_reason(path: Path) -> None:
    expected = EXPECTED[path.stem]
    if isinstance(expected, Reason):
        assert reason_of(path) is expected
    else:
        assert expected in read(path)


def test_columns_are_read_one_after_the_other() -> None:
    text = read(shared_file("pdf/multicolumn.pdf"))
    assert "\ufffe" not in text
    assert (
        text.index("This is a sample document") < text.index("Nam dui ligula") < text.index("Curabitur consectetuer.")
    )


def test_titles_are_looked_for_in_no_time() -> None:
    lines = "\n".join("divi" * 200 + f" {number} z" for number in range(200))
    began = time.process_time()
    markdown_of_page(lines, [Bookmark(1, f"title {number}") for number in range(50)])
    assert time.process_time() - began < 5
