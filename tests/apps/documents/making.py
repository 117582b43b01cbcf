"""Small books, papers and pages made for tests, and hostile ones."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from textwrap import wrap

CONTAINER = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
  <rootfiles><rootfile full-path="book/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>"""

HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'


def page(body: str, *, head: str = HEAD, title: str = "A page", attributes: str = "") -> str:
    """A page of a book with this in its body."""
    spaces = 'xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"'
    return f"{head}<html {spaces}><head><title>{title}</title></head><body {attributes}>{body}</body></html>"


def package(items: str, spine: str, *, more: str = "", metadata: str = "") -> str:
    """A package file with these items and this spine."""
    return f"""<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">
  <metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
    <dc:identifier id="other">urn:other</dc:identifier><dc:identifier id="id">urn:book:1</dc:identifier>
    <dc:title>A Book</dc:title><dc:creator>A Writer</dc:creator><dc:creator>Another</dc:creator>
    <dc:language>en</dc:language><dc:date>1869-01-01</dc:date>{metadata}
  </metadata>
  <manifest>{items}</manifest><spine>{spine}</spine>{more}
</package>"""


def make_zip(path: Path, files: Mapping[str, str | bytes], *, packed: int = zipfile.ZIP_DEFLATED) -> Path:
    """A zip with these files, in this order."""
    with zipfile.ZipFile(path, "w", packed) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, packed if name != "mimetype" else zipfile.ZIP_STORED)
    return path


def make_book(
    path: Path,
    pages: Mapping[str, str | bytes],
    *,
    properties: Mapping[str, str] | None = None,
    spine: str | None = None,
    more: str = "",
    files: Mapping[str, str | bytes] | None = None,
) -> Path:
    """An EPUB with these pages, by name, and more files beside them."""
    items = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml" '
        f'properties="{(properties or {}).get(name, "")}"/>'
        for name in pages
    )
    refs = spine if spine is not None else "".join(f'<itemref idref="{name}"/>' for name in pages)
    return make_zip(
        path,
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": CONTAINER,
            "book/package.opf": package(items, refs, more=more),
            **{f"book/{name}": content for name, content in pages.items()},
            **(files or {}),
        },
    )


def make_epub(path: Path, chapters: Sequence[tuple[str, str]]) -> Path:
    """An EPUB with these chapters: a heading and a text, whose paragraphs are parted by blank lines."""
    return make_book(
        path,
        {
            f"chapter-{number}.xhtml": page(
                f"<h2>{escape(heading)}</h2>"
                + "".join(f"<p>{escape(paragraph)}</p>" for paragraph in text.split("\n\n")),
                title=escape(heading),
            )
            for number, (heading, text) in enumerate(chapters, 1)
        },
    )


def make_pdf(
    path: Path,
    pages: Sequence[str],
    *,
    outline: Sequence[tuple[str, int]] = (),
    title: str | None = None,
    extra: str = "",
    width: int = 80,
) -> Path:
    """A PDF with these pages of text, in letters of Western Europe; the outline has titles and pages from 0."""
    first_page = 4
    first_mark = first_page + 2 * len(pages)
    kids = " ".join(f"{first_page + 2 * number} 0 R" for number in range(len(pages)))
    marks = f"/Outlines {first_mark} 0 R" if outline else ""
    info = f"<< /Title ({title}) /Author (A Writer) /CreationDate (D:20240229120000Z) >>" if title else "<< >>"
    objects: list[str | bytes] = [
        f"<< /Type /Catalog /Pages 2 0 R {marks} >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, text in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {first_page + 2 * number + 1} 0 R "
            "/Resources << /Font << /F 3 0 R >> >> >>"
        )
        lines = [line for block in text.split("\n") for line in (wrap(block, width) or [""])]
        shown = "".join(f"({_in_pdf(line)}) Tj T*\n" for line in lines)
        objects.append(_stream(f"BT /F 11 Tf 14 TL 50 800 Td\n{shown}ET" if text else "0 0 100 100 re f"))
    if outline:
        last = first_mark + len(outline)
        objects.append(f"<< /Type /Outlines /First {first_mark + 1} 0 R /Last {last} 0 R /Count {len(outline)} >>")
        for number, (heading, target) in enumerate(outline, first_mark + 1):
            following = f"/Next {number + 1} 0 R" if number < last else ""
            objects.append(
                f"<< /Title ({_in_pdf(heading)}) /Parent {first_mark} 0 R {following} "
                f"/Dest [{first_page + 2 * target} 0 R /Fit] >>"
            )
    objects.append(info)
    return _write_pdf(path, objects, f"/Info {len(objects)} 0 R {extra}")


def make_long_pdf(path: Path, count: int) -> Path:
    """A PDF of very many pages, all of them the same."""
    return _write_pdf(
        path,
        [
            "<< /Type /Catalog /Pages 2 0 R >>",
            f"<< /Type /Pages /Count {count} /Kids [{'3 0 R ' * count}] >>",
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] >>",
        ],
    )


def make_locked_pdf(path: Path, pages: Sequence[str]) -> Path:
    """A PDF that asks for a password."""
    key = "00" * 32
    return make_pdf(
        path,
        pages,
        extra=f"/ID [<{key}> <{key}>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{key}> /U <{key}> >>",
    )


def _in_pdf(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def _stream(content: str) -> bytes:
    data = content.encode("cp1252")
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(data), data)


def _write_pdf(path: Path, objects: Sequence[str | bytes], trailer: str = "") -> Path:
    """Number the objects, and say where they are."""
    data = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (
            number,
            content if isinstance(content, bytes) else content.encode("cp1252"),
        )
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    data += f"xref\n0 {size}\n0000000000 65535 f \n{table}".encode()
    data += f"trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{data.rindex(b'xref')}\n%%EOF\n".encode()
    path.write_bytes(data)
    return path
