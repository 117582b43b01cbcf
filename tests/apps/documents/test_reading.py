"""Files as they come: read as what they are, or refused with a reason, and never read by halves."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
from pathlib import Path
from typing import Any

import pytest

from onceward_apps.documents.limits import ReadingLimits
from onceward_apps.documents.opening import document_in, open_document
from onceward_apps.documents.outline import word_count
from onceward_apps.documents.reading import Reason, Unreadable, joined
from onceward_apps.documents.snapshot import Snapshot, take_snapshot
from tests.apps.documents.making import make_epub, make_pdf, make_zip
from tests.apps.documents.shared_data import shared

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
ARTICLE = "".join(
    f"<p>Paragraph {number} of the article, which says something about whales.</p>" for number in range(20)
)
WEB_PAGE = f"""<!DOCTYPE html><html lang="en"><head><title>Whales - The Paper</title>
<meta name="author" content="A Writer"><meta property="og:title" content="Whales">
<meta property="article:published_time" content="2024-02-29"></head>
<body><nav><a href="/">Home</a> <a href="/s">Sports</a></nav><article><h1>Whales</h1>{ARTICLE}
<h2>Smaller ones</h2>{ARTICLE}</article><footer>All rights reserved, cookies and so on</footer></body></html>"""


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path) -> str:
    document = open_document(path)
    return joined(document.part(index).markdown for index in range(document.part_count))


def reason_of(path: Path, **options: Any) -> Reason:
    with pytest.raises(Unreadable) as refused:
        open_document(path, **options)
    return refused.value.reason


# ---------------------------------------------------------------- the file


def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    assert reason_of(tmp_path / "none.txt") is Reason.MISSING
    assert reason_of(write(tmp_path / "file", "x") / "below.txt") is Reason.MISSING


def test_what_is_no_file_is_not_readable(tmp_path: Path) -> None:
    assert reason_of(tmp_path) is Reason.NOT_READABLE
    os.mkfifo(tmp_path / "pipe.txt")
    assert reason_of(tmp_path / "pipe.txt") is Reason.NOT_READABLE
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    assert reason_of(tmp_path / "loop.txt") is Reason.NOT_READABLE


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_not_readable(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "x").chmod(0)
    assert reason_of(tmp_path / "a.txt") is Reason.NOT_READABLE


@pytest.mark.parametrize("name", ["a.txt", "a.epub", "a.pdf", "a.html", "a.md", "a"])
def test_an_empty_file_is_empty(tmp_path: Path, name: str) -> None:
    assert reason_of(write(tmp_path / name, b"")) is Reason.EMPTY


def test_a_file_without_a_word_has_no_text(tmp_path: Path) -> None:
    for name in ("a.txt", "a.md", "a.html"):
        assert reason_of(write(tmp_path / name, " \n * \n\n")) is Reason.NO_TEXT


def test_too_large_is_seen_before_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    assert reason_of(path) is Reason.TOO_LARGE
    assert reason_of(write(tmp_path / "b.txt", "word " * 100), limits=ReadingLimits(page_bytes=499)) is Reason.TOO_LARGE


class ChangesWhenOpened(type(Path())):  # type: ignore[misc]
    """A file that something happens to between the look at it and its reading."""

    happens: Any = None

    def open(self, *arguments: Any, **options: Any) -> Any:
        file = super().open(*arguments, **options)
        happens, self.happens = self.happens, None
        happens(Path(self))
        return file


def replace(path: Path) -> None:
    """With a file of the same size and time."""
    status = path.stat()
    other = write(path.with_name("other"), path.read_bytes())
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


CHANGES = {
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"and more"),
    "shorter": lambda path: path.write_bytes(b"less"),
    "emptied": lambda path: path.write_bytes(b""),
    "other": lambda path: (path.write_bytes(path.read_bytes()[::-1]), os.utime(path, ns=(1, 1))),
    "replaced": replace,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, change: Any) -> None:
    path = ChangesWhenOpened(write(tmp_path / "a.txt", "some words " * 1000))
    path.happens = change
    assert reason_of(path) is Reason.CHANGED


def test_a_file_that_is_another_than_the_one_begun_is_refused(tmp_path: Path) -> None:
    path = make_epub(tmp_path / "a.epub", [("I", "One."), ("II", "Two.")])
    begun = take_snapshot(path).content_hash
    assert open_document(path, content_hash=begun).part(1).markdown == "## II\n\nTwo."
    make_epub(path, [("I", "One."), ("II", "Three.")])
    assert reason_of(path, content_hash=begun) is Reason.CHANGED


def test_what_happens_to_an_open_file_changes_nothing(tmp_path: Path) -> None:
    path = make_epub(tmp_path / "a.epub", [("I", "One."), ("II", "Two.")])
    snapshot = take_snapshot(path)
    document = document_in(snapshot)
    path.unlink()
    assert document.part(1).markdown == "## II\n\nTwo."


# ---------------------------------------------------------------- what it is


def test_content_decides_and_a_wrong_name_is_told(tmp_path: Path) -> None:
    book = make_epub(tmp_path / "a.epub", [("I", "One.")]).read_bytes()
    paper = make_pdf(tmp_path / "a.pdf", ["Paper."]).read_bytes()
    for name, content, found in (
        ("b.pdf", book, "epub"),
        ("b.zip", book, "epub"),
        ("b.txt", paper, "pdf"),
        ("b.epub", paper, "pdf"),
        ("c.txt", WEB_PAGE, "html"),
        ("c.pdf", WEB_PAGE, "html"),
        ("notes", "Just words.", "text"),
        ("notes.log", "Just words.", "text"),
    ):
        about = open_document(write(tmp_path / name, content)).about
        assert about.format == found
        assert found in about.warnings[-1]
    for name, content in (("d.md", "<p>HTML in Markdown</p>"), ("d.html", "bare words"), ("d.TXT", "words")):
        assert open_document(write(tmp_path / name, content)).about.warnings == ()


def test_what_is_none_of_ours_is_refused_by_its_content(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", {"x.txt": "x"}).read_bytes()
    for name, content, reason in (
        ("a.epub", PNG, Reason.WRONG_EXTENSION),
        ("a.txt", PNG, Reason.WRONG_EXTENSION),
        ("a.txt", archive, Reason.WRONG_EXTENSION),
        ("a.png", PNG, Reason.UNKNOWN_TYPE),
        ("a.docx", archive, Reason.WRONG_EXTENSION),
        ("a.zip", archive, Reason.UNKNOWN_TYPE),
        ("a.bin", os.urandom(1000), Reason.UNKNOWN_TYPE),
        ("a.epub", bytes(1000), Reason.BROKEN),
        ("a.pdf", bytes(1000), Reason.BROKEN),
        ("a.txt", bytes(1000), Reason.ENCODING),
        ("a.html", os.urandom(1000), Reason.ENCODING),
    ):
        assert reason_of(write(tmp_path / name, content)) is reason, name


@pytest.mark.parametrize("name", ["a.epub", "a.pdf"])
def test_a_damaged_file_is_read_or_has_a_reason(tmp_path: Path, name: str) -> None:
    make_epub(tmp_path / "a.epub", [("I", "Some words. " * 20), ("II", "More words. " * 20)])
    make_pdf(tmp_path / "a.pdf", ["Some words.", "More words."], outline=[("Some", 0)], title="Words")
    whole = (tmp_path / name).read_bytes()
    chance = random.Random(7)
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 2, 10])):
            place = chance.randrange(len(data) - 60)
            if chance.random() < 0.7:
                data[place] = chance.randrange(256)
            else:
                del data[place : place + chance.randrange(50)]
        with contextlib.suppress(Unreadable):
            document = document_in(Snapshot(name, bytes(data), ""))
            assert all("\x00" not in document.part(index).markdown for index in range(document.part_count))


# ---------------------------------------------------------------- encodings

TEXT = "Der König sagte: „Grüße aus Köln – und zwar sofort“, und ging."


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        TEXT.encode("utf-32"),
        TEXT.encode("cp1252"),
    ],
    ids=["utf-8", "with mark", "utf-16", "utf-16-be", "unmarked", "unmarked-be", "utf-32", "cp1252"],
)
def test_encodings_are_known(tmp_path: Path, data: bytes) -> None:
    assert read(write(tmp_path / "a.txt", data)) == TEXT


def test_a_declared_encoding_is_used_if_it_is_true(tmp_path: Path) -> None:
    page = '<html><head><meta charset="{}"></head><body><p>{}</p></body></html>'
    assert read(write(tmp_path / "a.html", page.format("koi8-r", "Война и мир").encode("koi8-r"))) == "Война и мир"
    assert read(write(tmp_path / "b.html", page.format("ascii", "Война и мир").encode())) == "Война и мир"
    assert read(write(tmp_path / "c.html", page.format("hex", "Война и мир").encode())) == "Война и мир"


@pytest.mark.parametrize("name", ["undefined", "punycode", "idna", "unicode_escape", "raw_unicode_escape", "utf-7"])
def test_what_no_page_is_written_in_is_not_believed(tmp_path: Path, name: str) -> None:
    page = f'<html><head><meta charset="{name}"></head><body><p>{TEXT} +AGE- C:/x41</p></body></html>'.replace(
        "/x", "\\x"
    )
    assert read(write(tmp_path / "a.html", page.encode())) == f"{TEXT} +AGE- C:\\x41"


def test_a_wrong_byte_here_and_there_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    data = (TEXT * 20).encode()
    place = data.index("ö".encode())
    document = open_document(write(tmp_path / "a.txt", data[:place] + b"\xff" + data[place + 2 :]))
    assert document.part(0).markdown == (TEXT * 20).replace("ö", "\ufffd", 1)
    assert document.about.warnings == ("characters lost, because their bytes are not in its encoding: 1",)


@pytest.mark.parametrize("encoding", ["koi8-r", "shift_jis", "iso-8859-7", "gb18030"])
def test_text_that_nothing_tells_the_encoding_of_is_refused(tmp_path: Path, encoding: str) -> None:
    text = {"koi8-r": "Война и мир " * 20, "iso-8859-7": "Ἰλιάς Ιλιάδα μῆνιν ".replace("Ἰ", "Ι").replace("ῆ", "η") * 20}
    data = text.get(encoding, "戦争と平和、そして人間。" * 20).encode(encoding)
    assert reason_of(write(tmp_path / "a.txt", data)) is Reason.ENCODING


def test_characters_that_a_database_refuses_are_left_out(tmp_path: Path) -> None:
    words = "words and more words, again and again. " * 20
    assert read(write(tmp_path / "a.txt", f"ze\x00ro so\u00adft\r\nli\u2028ne {words}".encode())) == (
        f"zero soft\nli\nne {words}"
    )


# ---------------------------------------------------------------- HTML, Markdown, text


def test_the_main_text_of_a_page_is_read(tmp_path: Path) -> None:
    document = open_document(write(tmp_path / "a.html", WEB_PAGE))
    text = document.part(0).markdown
    assert text.startswith("# Whales\n\n")
    assert "## Smaller ones" in text
    assert "Paragraph 19 of the article" in text
    assert "Sports" not in text
    about = document.about
    assert (about.title, about.creators, about.language, about.published) == (
        "Whales",
        ("A Writer",),
        "en",
        "2024-02-29",
    )


def test_a_page_without_a_main_text_is_read_as_a_whole(tmp_path: Path) -> None:
    links = "".join(f"<li><a href='/{number}'>Subject number {number}</a></li>" for number in range(60))
    text = read(write(tmp_path / "a.html", f"<html><body><nav><ul>{links}</ul></nav></body></html>"))
    assert [f"Subject number {number}" in text for number in range(60)] == [True] * 60


def test_a_book_in_one_page_is_read_as_a_whole(tmp_path: Path) -> None:
    book = "".join(
        f"<h2>Chapter {number}</h2><p>{'word ' * 500}</p><aside>Aside {number}</aside>" for number in range(45)
    )
    text = read(write(tmp_path / "a.html", f"<html><body>{book}<footer>The end</footer></body></html>"))
    assert [f"Aside {number}\n" in text for number in range(45)] == [True] * 45
    assert text.endswith("The end")


def test_a_page_nested_beyond_sense_is_broken(tmp_path: Path) -> None:
    assert reason_of(write(tmp_path / "a.html", "<html>" + "<div>" * 5000 + "deep")) is Reason.BROKEN
    assert "deep" in read(write(tmp_path / "b.html", "<html>" + "<div>" * 1500 + "deep"))


@pytest.mark.parametrize(
    "path", [one for one in shared("html/articles") if one.suffix == ".gz"], ids=lambda one: one.stem[:8]
)
def test_shared_articles_are_read(tmp_path: Path, path: Path) -> None:
    assert word_count(read(write(tmp_path / "a.html", gzip.decompress(path.read_bytes())))) > 80


def test_markdown_is_kept_as_it_is(tmp_path: Path) -> None:
    text = "## Below\n\nText with *marks*.\n\n# Above #\n\n```\n# no heading\n```"
    document = open_document(write(tmp_path / "a.md", f"\n{text}\n\n"))
    assert document.part(0).markdown == text
    assert document.about.title == "Above"
    assert (document.part_count, document.part(0).title) == (1, "Below")


def test_text_is_kept_as_it_is(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.txt", "One.\r\nTwo.\r\n\r\nThree.")) == "One.\nTwo.\n\nThree."
