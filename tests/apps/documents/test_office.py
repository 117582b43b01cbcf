"""Documents of Word and LibreOffice: headings, lists, tables and emphasis as markdown, and no text lost or invented."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from onceward_apps.documents.opening import open_document
from onceward_apps.documents.reading import Reason, Unreadable

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
STYLES = f"""<w:styles {W}>
  <w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>
  <w:style w:styleId="Titel"><w:name w:val="Title"/></w:style>
  <w:style w:styleId="Punkte">
    <w:name w:val="List Bullet"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>
  </w:style>
</w:styles>"""
CORE = '<p xmlns:dc="d"><dc:title>On bees</dc:title><dc:creator>A Keeper</dc:creator></p>'
OPEN = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
)


def packed(path: Path, **files: str) -> Path:
    """Write a zip; `word__document` is the file word/document.xml."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        if path.suffix == ".odt":
            archive.writestr("mimetype", "application/vnd.oasis.opendocument.text", zipfile.ZIP_STORED)
        for name, text in files.items():
            archive.writestr(f"{name.replace('__', '/')}.xml", text)
    path.write_bytes(data.getvalue())
    return path


def docx(folder: Path, body: str, **files: str) -> Path:
    document = f"<w:document {W}><w:body>{body}</w:body></w:document>"
    return packed(folder / "a.docx", word__document=document, word__styles=STYLES, docProps__core=CORE, **files)


def odt(folder: Path, body: str, **files: str) -> Path:
    content = f"<office:document {OPEN}><office:body><office:text>{body}</office:text></office:body></office:document>"
    return packed(folder / "a.odt", content=content, **files)


def paragraph(*runs: str, style: str = "", **properties: str) -> str:
    """A paragraph of Word, whose runs are texts."""
    own = f'<w:pStyle w:val="{style}"/>' if style else ""
    own += "".join(f"<w:{name}>{value}</w:{name}>" for name, value in properties.items())
    return f"<w:p><w:pPr>{own}</w:pPr>{''.join(runs)}</w:p>"


def run(text: str, *marks: str) -> str:
    return f"<w:r><w:rPr>{''.join(f'<w:{mark}/>' for mark in marks)}</w:rPr><w:t>{text}</w:t></w:r>"


def read(path: Path) -> str:
    document = open_document(path)
    return document.part(0).markdown


def test_a_word_document_is_read_with_its_structure(tmp_path: Path) -> None:
    cell = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    rows = [f"<w:tr>{cell.format(left)}{cell.format(right)}</w:tr>" for left, right in ("ab", "cd")]
    table = f"<w:tbl>{''.join(rows)}</w:tbl>"
    nested = '<w:ilvl w:val="1"/><w:numId w:val="1"/>'
    path = docx(
        tmp_path,
        paragraph(run("On bees"), style="Titel")
        + paragraph(run("The hive"), style="berschrift2")
        + paragraph(run("They carry "), run("pollen", "b"), run(" from "), run("flower", "i"), run(" to flower."))
        + paragraph(run("one"), style="Punkte")
        + paragraph(run("in one"), numPr=nested)
        + paragraph(run("no item"), style="Punkte", numPr='<w:numId w:val="0"/>')
        + table,
    )
    about = open_document(path).about
    assert (about.format, about.title, about.creators) == ("docx", "On bees", ("A Keeper",))
    text = read(path)
    assert text.startswith("# On bees\n\n## The hive\n\nThey carry **pollen** from *flower* to flower.\n\n- one\n")
    assert "\n  * in one\n\nno item\n\n| a | b |" in text


def test_what_was_deleted_or_is_a_fallback_is_not_read_and_what_stands_in_a_frame_is(tmp_path: Path) -> None:
    frame = "<w:r><w:pict><w:txbxContent><w:p><w:r><w:t>framed</w:t></w:r></w:p></w:txbxContent></w:pict></w:r>"
    twice = (
        '<mc:AlternateContent xmlns:mc="m"><mc:Choice>{}</mc:Choice><mc:Fallback>{}</mc:Fallback></mc:AlternateContent>'
    )
    deleted = "<w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
    notes = f"<w:footnotes {W}><w:footnote>{paragraph(run('A note.'))}</w:footnote></w:footnotes>"
    text = read(docx(tmp_path, f"<w:p>{deleted}{twice.format(frame, frame)}</w:p>", word__footnotes=notes))
    assert text == "new framed\n\nA note."


def test_a_libreoffice_document_is_read_with_its_structure(tmp_path: Path) -> None:
    path = odt(
        tmp_path,
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        '<text:h text:outline-level="1">Ships</text:h>'
        '<text:p>A <text:span>sailor</text:span><text:s text:c="2"/>mends'
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A note.</text:p></text:note-body>"
        "</text:note> a sail.</text:p>"
        "<text:section><text:list><text:list-item><text:p>mast</text:p><text:list><text:list-item><text:p>top</text:p>"
        "</text:list-item></text:list></text:list-item></text:list></text:section>"
        "<table:table><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell>"
        "<table:table-cell><text:p>y</text:p></table:table-cell></table:table-row></table:table>",
        meta='<m xmlns:dc="d"><dc:title>Of ships</dc:title></m>',
    )
    text = read(path)
    assert open_document(path).about.title == "Of ships"
    assert text.startswith("# Ships\n\nA sailor mends a sail.\n\n- mast")
    assert [word in text for word in ("top", "| x | y |", "A note.", "deleted")] == [True, True, True, False]
    assert text.endswith("A note.")


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    secret = '<m xmlns="x"><file-entry><encryption-data/></file-entry></m>'
    bomb = '<!DOCTYPE x [<!ENTITY a "&b;&b;"><!ENTITY b "&a;">]><x>&a;</x>'
    cases = [
        (odt(tmp_path, "<text:p>x</text:p>", **{"META-INF__manifest": secret}), Reason.ENCRYPTED),
        (packed(tmp_path / "b.odt", other="<x/>"), Reason.BROKEN),
        (docx(tmp_path, "<w:p/>"), Reason.NO_TEXT),
        (packed(tmp_path / "c.docx", word__document=bomb), Reason.UNSAFE_XML),
    ]
    for path, reason in cases:
        with pytest.raises(Unreadable) as refused:
            open_document(path)
        assert refused.value.reason is reason, path


def test_a_document_is_known_by_its_content_whatever_its_name(tmp_path: Path) -> None:
    path = docx(tmp_path, paragraph(run("Some words.")))
    other = path.rename(tmp_path / "a.odt")
    assert open_document(other).about.warnings == ("it is named .odt but is docx, and was read as that",)
