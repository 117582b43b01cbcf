"""Documents that are made, not found: for `validate`, and for tests that must know what is in them.

The words mean nothing. Every topic has words of its own, so that two passages belong together exactly if they are on
the same topic, and everybody can count the connections beforehand.
"""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Sequence

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
WORDS_PER_TOPIC = 24
PASSAGE_CHARACTERS = 1_000
A_DAY = (2026, 1, 1, 0, 0, 0)
"""The time of everything in an archive, so that the same book is the same bytes."""


def word(number: int) -> str:
    """A word of three syllables, another one for every number."""
    syllables = []
    mixed = number * 48_271 % (70**3)
    for _ in range(3):
        mixed, syllable = divmod(mixed, 70)
        syllables.append(CONSONANTS[syllable // 5] + VOWELS[syllable % 5])
    return "".join(syllables)


def passage(topic: int, variant: int = 0) -> str:
    """About a thousand characters on a topic, in sentences; each variant says it in another order."""
    dice = random.Random(topic * 1_000 + variant)
    own = [word(topic * WORDS_PER_TOPIC + place) for place in range(WORDS_PER_TOPIC)]
    sentences: list[str] = []
    while sum(map(len, sentences)) < PASSAGE_CHARACTERS - 60:
        chosen = dice.sample(own, 8)
        sentences.append(" ".join(chosen).capitalize() + ".")
    return " ".join(sentences)


def epub(title: str, chapters: Sequence[Sequence[tuple[str, str]]]) -> bytes:
    """A book. A chapter is a file of its own, made of sections with a heading and a text."""
    names = [f"chapter{number:03}.xhtml" for number, _ in enumerate(chapters, 1)]
    items = "".join(
        f'<item id="i{place}" href="{name}" media-type="application/xhtml+xml"/>' for place, name in enumerate(names)
    )
    spine = "".join(f'<itemref idref="i{place}"/>' for place, _ in enumerate(names))
    package = (
        '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f'<dc:identifier id="id">made:{title}</dc:identifier><dc:title>{title}</dc:title>'
        "<dc:language>en</dc:language><dc:creator>Anonymous</dc:creator></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
        '<rootfiles><rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    files = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "book.opf": package}
    for name, sections in zip(names, chapters, strict=True):
        body = "".join(f"<h2>{heading}</h2><p>{text}</p>" for heading, text in sections)
        files[name] = (
            '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>'
            f"{title}</title></head><body>{body}</body></html>"
        )
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, text in files.items():
            packing = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name, A_DAY), text, packing)
    return held.getvalue()


def pdf(pages: Sequence[str]) -> bytes:
    """A file with a page for each text, in letters that every reader has."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        shown = " ".join(f"({line}) Tj T*" for line in _lines(text, 90))
        content = f"BT /F1 10 Tf 50 780 Td 14 TL {shown} ET"
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
            f" /Contents {len(objects) + 2} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    made = bytearray(b"%PDF-1.4\n")
    places = []
    for number, held in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{held}\nendobj\n".encode("ascii")
    table_at = len(made)
    made += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode("ascii")
    made += b"".join(f"{place:010} 00000 n \n".encode("ascii") for place in places)
    made += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{table_at}\n%%EOF\n".encode("ascii")
    return bytes(made)


def _lines(text: str, width: int) -> list[str]:
    lines = [""]
    for one in text.split():
        if len(lines[-1]) + len(one) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {one}".strip()
    return lines
