"""EPUB: every word of the spine once and in order, and a reason for every book that can't be read."""

from __future__ import annotations

import contextlib
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from onceward_apps.documents.chunking import chunks_of
from onceward_apps.documents.limits import ReadingLimits
from onceward_apps.documents.opening import open_document
from onceward_apps.documents.readers.prose import markdown_of
from onceward_apps.documents.reading import Document, Reason, Unreadable, joined
from tests.apps.documents.making import make_book, make_epub, make_zip, package, page
from tests.apps.documents.shared_data import shared, shared_file

ENTITY = '<?xml version="1.0"?>\n<!DOCTYPE html [{}]>\n'
BACK = "../" * 8


def markdown_in(document: Document) -> str:
    return joined(document.part(index).markdown for index in range(document.part_count))


def read(path: Path) -> str:
    return markdown_in(open_document(path))


def read_body(tmp_path: Path, body: str, **options: str) -> str:
    """What a book of one page says."""
    return read(make_book(tmp_path / "a.epub", {"one.xhtml": page(body, **options)}))


def reason_of(path: Path, limits: ReadingLimits | None = None) -> Reason:
    with pytest.raises(Unreadable) as refused:
        markdown_in(open_document(path, limits=limits) if limits else open_document(path))
    return refused.value.reason


# ---------------------------------------------------------------- what is read


def test_chapters_are_parts_in_the_order_of_the_spine(tmp_path: Path) -> None:
    path = make_book(
        tmp_path / "a.epub",
        {"z.xhtml": page("<h1>Last</h1>"), "a.xhtml": page("<h1>First</h1><p>Words.</p>")},
        spine='<itemref idref="a.xhtml"/><itemref idref="z.xhtml"/>',
    )
    document = open_document(path)
    assert [document.part(index).markdown for index in range(2)] == ["# First\n\nWords.", "# Last"]
    assert [document.part(index).title for index in range(2)] == ["First", "Last"]


def test_a_part_can_be_read_alone_and_again(tmp_path: Path) -> None:
    path = make_epub(tmp_path / "a.epub", [("I", "One."), ("II", "Two."), ("III", "Three.")])
    document = open_document(path)
    assert document.part(2).markdown == document.part(2).markdown == "## III\n\nThree."
    assert open_document(path).part(1).markdown == "## II\n\nTwo."


def test_metadata_is_kept(tmp_path: Path) -> None:
    about = open_document(make_epub(tmp_path / "a.epub", [("I", "One.")])).about
    assert (about.format, about.title, about.creators) == ("epub", "A Book", ("A Writer", "Another"))
    assert (about.language, about.published, about.identifier) == ("en", "1869-01-01", "urn:book:1")
    assert about.warnings == ()


def test_pages_beside_the_main_line_stand_at_their_place_and_once(tmp_path: Path) -> None:
    path = make_book(
        tmp_path / "a.epub",
        {"a.xhtml": page("<p>alpha</p>"), "notes.xhtml": page("<p>beta</p>"), "b.xhtml": page("<p>gamma</p>")},
        spine='<itemref idref="a.xhtml"/><itemref idref="notes.xhtml" linear="no"/><itemref idref="b.xhtml"/>'
        '<itemref idref="notes.xhtml"/>',
    )
    assert read(path) == "alpha\n\nbeta\n\ngamma"


def test_the_cover_and_the_contents_are_left_out(tmp_path: Path) -> None:
    nav = '<h1>Contents</h1><nav epub:type="toc"><ol><li><a href="a.xhtml">Chapter</a></li></ol></nav>'
    path = make_book(
        tmp_path / "a.epub",
        {
            "guide.xhtml": page("<p>Covered by the guide</p>"),
            "typed.xhtml": page('<section epub:type="cover"><h1>Covered by type</h1></section>'),
            "nav.xhtml": page(nav),
            "list.xhtml": page("<nav><p>A list of pictures</p></nav>"),
            "a.xhtml": page("<p>Text.</p>"),
        },
        properties={"nav.xhtml": "nav"},
        more='<guide><reference type="cover" href="guide.xhtml"/></guide>',
    )
    assert read(path) == "A list of pictures\n\nText."


def test_a_first_chapter_that_is_called_the_cover_is_read(tmp_path: Path) -> None:
    path = make_book(
        tmp_path / "a.epub",
        {"a.xhtml": page(f"<p>{'many words ' * 300}</p>", attributes='epub:type="cover"')},
        more='<guide><reference type="cover" href="a.xhtml"/></guide>',
    )
    assert read(path).count("many words") == 300


def test_notes_are_referred_to_without_touching_the_word_before(tmp_path: Path) -> None:
    body = (
        '<p>First<a href="n.xhtml#1" epub:type="noteref">1</a> second<sup><a href="#2">2</a></sup> 10<sup>3</sup>'
        " H<sub>2</sub>O 1<sup>st</sup></p>"
        '<ol><li><p>A note. <a href="#r1" epub:type="backlink">↩</a></p></li><li>Another.</li></ol>'
    )
    text = "First[^1] second[^2] 10^3 H2O 1st\n\n1. A note.\n\n2. Another."
    assert read_body(tmp_path, body) == text


HEADINGS = {
    "<h4>IV</h4><p>x</p>": "#### IV\n\nx",
    "<h2>\n <span>Book</span>\n <span>I</span></h2>": "## Book I",
    "<h2>Chapter<br/>One <b>bold</b></h2>": "## Chapter One bold",
    "<h2><div>Chapter</div><div>One</div></h2>": "## Chapter One",
    "<hgroup><h2>I</h2><p>Variation</p></hgroup>": "## I: Variation",
    "<h1></h1><p>x</p>": "x",
    "<p># no heading</p>": "\\# no heading",
}
PROSE = {
    "<p><b>W</b>ar and <i>la grippe</i>; <em>a<em>b</em></em></p>": "War and *la grippe*; *ab*",
    "<i><p>block in line</p></i>": "block in line",
    '<div hidden="hidden">a</div><div style="display:none">b</div><header>c</header><form>d<p>e</p></form>': (
        "a\n\nb\n\nc\n\nd\n\ne"
    ),
    "<ruby>漢<rt>かん</rt></ruby><ruby>字<rp>(</rp><rt>じ</rt><rp>)</rp></ruby>": "漢(かん)字(じ)",
    "<ul>stray<li>x<ul><li>y</li></ul></li></ul><li>z</li>": "stray\n\n- x\n\n  * y\n\nz",
    "<table><tr><th>a|b</th><th>c</th></tr><tr><td><p>d</p></td><td>e</td></tr></table>": (
        "| a\\|b | c |\n| ---- | --- |\n| d    | e |"
    ),
    "<table><tr><td><h2>H</h2>text</td><td><ul><li>x</li></ul></td></tr></table>": "## H\n\ntext\n\n- x",
    "<blockquote><p>a</p></blockquote><hr/><pre>  b\n   c</pre>": "> a\n---\n\n```\n  b\n   c\n```",
    "<ol start='3'><li><pre>code</pre></li><li><blockquote>said</blockquote></li></ol>": (
        "3. ```\n   code\n   ```\n\n4. > said"
    ),
    # Conversion hides the heading: the plainer rendering is taken.
    "<ol><li><h3>Heading</h3><p>a <i>b</i> &lt;c&gt;</p></li></ol><table><tr><td>d</td><td>e</td></tr></table>": (
        "### Heading\n\na b <c>\n\nd e"
    ),
    "<script>x()</script><style>p{}</style><p>a<!-- no -->b</p>": "ab",
    "<svg><text>in a picture</text></svg><math><mi>x</mi><mo>=</mo><mn>1</mn></math>": "in a picture\n\nx=1",
    "<p>so\u00adft a\u00a0b</p>": "soft a b",
    "<p>line<br/>two</p>": "line  \ntwo",
}


@pytest.mark.parametrize(("body", "markdown"), [*HEADINGS.items(), *PROSE.items()])
def test_html_becomes_markdown(tmp_path: Path, body: str, markdown: str) -> None:
    found = read_body(tmp_path, body + ("<p>.</p>" if not markdown else ""))
    assert re.sub(r" +\|", " |", found) == re.sub(r" +\|", " |", markdown)


TAGS = [
    "p", "div", "span", "i", "b", "code", "h1", "h3", "ul", "ol", "li", "table", "tr", "td", "th", "caption", "pre",
    "a", "blockquote", "sup", "ruby", "rt", "q", "br", "hr", "dl", "dt", "dd", "hgroup", "header", "section", "nav",
    "form", "svg", "text", "math", "mi",
]  # fmt: skip
WORDS = ["word", " ", "\n", "12", "3. ", "# ", "- ", "*", "_x_", "`y`", "[z]", "<t>", "&amp;", "a|b", "漢"]


@st.composite
def elements(draw: st.DrawFn, depth: int = 4) -> etree._Element:
    """Any element in any other."""
    element = etree.Element(draw(st.sampled_from(TAGS)))
    element.text = "".join(draw(st.lists(st.sampled_from(WORDS), max_size=3)))
    for _ in range(draw(st.integers(0, 3)) if depth else 0):
        below = draw(elements(depth - 1))
        below.tail = "".join(draw(st.lists(st.sampled_from(WORDS), max_size=2)))
        element.append(below)
    return element


@given(elements())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_no_letter_is_lost_or_added_wherever_it_stands(element: etree._Element) -> None:
    body = etree.Element("body")
    body.append(element)
    for numbered in body.iter("ol"):
        numbered.tag = "ul"  # the numbers are the only thing that is added
    assert letters(markdown_of(body)) == letters("".join(body.itertext()))


def test_a_thousand_elements_deep_is_read(tmp_path: Path) -> None:
    for tag in ("div", "blockquote", "i", "ul"):
        assert "deep" in read_body(tmp_path, f"<{tag}>" * 1000 + "deep" + f"</{tag}>" * 1000)


def test_a_page_that_is_not_quite_xml_is_read(tmp_path: Path) -> None:
    text = read_body(
        tmp_path, '<p>one<br>two &eacute;t&eacute; AT&T <a id="x"/>three<p>four <script src="x"/><title/><style/>five'
    )
    assert re.findall(r"\w+", text) == ["one", "two", "été", "AT", "T", "three", "four", "five"]


def test_named_characters_and_doctypes_of_real_books_are_read(tmp_path: Path) -> None:
    doctype = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">\n'
    assert read_body(tmp_path, "<p>caf&eacute;&nbsp;&mdash; &lt;b&gt; &unknown;</p>", head=doctype) == (
        "café — <b> &unknown;"
    )
    own = ENTITY.format('<!ENTITY oe "&#339;"><!ENTITY house "Bleak House">')
    assert read_body(tmp_path, "<p>&oe;uvre of &house;</p>", head=own) == "œuvre of Bleak House"


def test_a_page_in_another_encoding_is_read(tmp_path: Path) -> None:
    for encoding in ("utf-16", "iso-8859-1", "shift_jis"):
        word = "猫" if encoding == "shift_jis" else "été"
        text = page(f"<p>{word}</p>", head=f'<?xml version="1.0" encoding="{encoding}"?>')
        assert read(make_book(tmp_path / "a.epub", {"a.xhtml": text.encode(encoding)})) == word


def test_names_with_spaces_accents_and_other_case_are_found(tmp_path: Path) -> None:
    items = '<item id="a" href="Te%20xt/%C3%A9.xhtml" media-type="application/xhtml+xml"/>'
    files = {
        "META-INF/container.xml": '<container><rootfile full-path="p.opf"/></container>',
        "p.opf": package(items, '<itemref idref="a"/>'),
        "te xt/e\u0301.XHTML": page("<p>found</p>"),
    }
    assert read(make_zip(tmp_path / "a.epub", files)) == "found"


# ---------------------------------------------------------------- what is missing or broken


def test_missing_pages_are_told_and_the_rest_is_read(tmp_path: Path) -> None:
    items = "".join(
        f'<item id="{one}" href="{href}" media-type="application/xhtml+xml"/>'
        for one, href in {"a": "a.xhtml", "b": "gone.xhtml", "c": "http://example.com/c.xhtml"}.items()
    )
    spine = "".join(f'<itemref idref="{one}"/>' for one in "abcd")
    files = {
        "META-INF/container.xml": '<container><rootfile full-path="p.opf"/></container>',
        "p.opf": package(items, spine),
        "a.xhtml": page("<p>here</p>"),
    }
    document = open_document(make_zip(tmp_path / "a.epub", files))
    assert markdown_in(document) == "here"
    assert document.about.warnings == (
        "a page is missing: gone.xhtml",
        "a page is elsewhere: http://example.com/c.xhtml",
        "its spine names 'd', which is no page",
    )


def test_a_book_without_a_container_is_read(tmp_path: Path) -> None:
    item = '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
    files = {
        "mimetype": "application/epub+zip",
        "x/p.opf": package(item, '<itemref idref="a"/>'),
        "x/a.xhtml": page("t"),
    }
    document = open_document(make_zip(tmp_path / "a.epub", files))
    assert markdown_in(document) == "t"
    assert "x/p.opf was taken" in document.about.warnings[0]


def test_a_spine_with_nothing_to_read_has_no_text(tmp_path: Path) -> None:
    assert reason_of(make_book(tmp_path / "a.epub", {"a.xhtml": page('<img src="x" alt="x"/>')})) is Reason.NO_TEXT
    assert reason_of(make_book(tmp_path / "a.epub", {}, spine='<itemref idref="x"/>')) is Reason.NO_TEXT


def test_a_broken_zip_is_broken(tmp_path: Path) -> None:
    path = make_epub(tmp_path / "a.epub", [("I", "words " * 5000), ("II", "words " * 5000)])
    whole = path.read_bytes()
    (tmp_path / "half.epub").write_bytes(whole[: len(whole) // 2])
    assert reason_of(tmp_path / "half.epub") is Reason.BROKEN
    (tmp_path / "none.epub").write_bytes(b"PK\x03\x04" + bytes(100))
    assert reason_of(tmp_path / "none.epub") is Reason.BROKEN
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("book/chapter-2.xhtml").header_offset + 80
    (tmp_path / "bit.epub").write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
    assert reason_of(tmp_path / "bit.epub") is Reason.BROKEN


def test_a_zip_without_a_package_is_broken(tmp_path: Path) -> None:
    assert reason_of(make_zip(tmp_path / "a.epub", {"readme.txt": "no book"})) is Reason.BROKEN
    files = {"META-INF/container.xml": "no xml at all <", "b/p.opf": "<"}
    assert reason_of(make_zip(tmp_path / "a.epub", files)) is Reason.BROKEN


# ---------------------------------------------------------------- what is hostile


def test_what_unpacks_to_too_much_is_a_bomb(tmp_path: Path) -> None:
    bomb = make_book(tmp_path / "a.epub", {"a.xhtml": b" " * (30 << 20)})
    assert bomb.stat().st_size < 100_000
    assert reason_of(bomb) is Reason.ZIP_BOMB
    limits = ReadingLimits(unpacked_bytes=5000)
    assert reason_of(make_epub(tmp_path / "b.epub", [("I", "word " * 2000)]), limits) is Reason.ZIP_BOMB
    assert (
        reason_of(make_epub(tmp_path / "c.epub", [("I", "word")] * 50), ReadingLimits(zip_entries=40))
        is Reason.ZIP_BOMB
    )
    assert reason_of(make_epub(tmp_path / "d.epub", [("I", "word " * 2000)]), ReadingLimits(page_bytes=5000)) is (
        Reason.TOO_LARGE
    )


def test_sizes_are_counted_and_not_believed(tmp_path: Path) -> None:
    path = make_book(tmp_path / "a.epub", {"a.xhtml": page(f"<p>{'word ' * 400_000}</p>")})
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("book/a.xhtml").file_size
    assert data.count(size.to_bytes(4, "little")) == 2
    path.write_bytes(data.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))
    assert reason_of(path) is Reason.BROKEN
    path.write_bytes(data)
    assert reason_of(path, ReadingLimits(unpacked_bytes=1 << 20)) is Reason.ZIP_BOMB


def test_pages_of_a_book_share_one_limit(tmp_path: Path) -> None:
    path = make_epub(tmp_path / "a.epub", [(str(number), "word " * 1000) for number in range(10)])
    assert reason_of(path, ReadingLimits(unpacked_bytes=30_000)) is Reason.ZIP_BOMB
    document = open_document(path, limits=ReadingLimits(unpacked_bytes=80_000))
    assert all(document.part(index).markdown for _ in range(5) for index in range(10))


EXPANDING = [
    '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">',
    '<!ENTITY c SYSTEM "file:///etc/passwd">',
    '<!ENTITY c PUBLIC "x" "http://example.com/x">',
    '<!ENTITY % p SYSTEM "http://example.com/x"> %p; <!ENTITY c "x">',
    '<!ENTITY c "&#38;c;">',
]


@pytest.mark.parametrize("declared", EXPANDING)
def test_entities_that_expand_or_fetch_are_refused(tmp_path: Path, declared: str) -> None:
    book = make_book(tmp_path / "a.epub", {"a.xhtml": page("<p>&c;</p>", head=ENTITY.format(declared))})
    assert reason_of(book) is Reason.UNSAFE_XML
    opf = package("", "").replace("<package", f"<!DOCTYPE package [{declared}]><package", 1)
    book = make_zip(tmp_path / "b.epub", {"mimetype": "application/epub+zip", "p.opf": opf})
    assert reason_of(book) is Reason.UNSAFE_XML


@pytest.mark.parametrize("name", [f"{BACK}etc/passwd", "/etc/passwd", "a/../../b", "C:\\b", "..\\b"])
def test_names_that_lead_out_of_the_zip_are_refused(tmp_path: Path, name: str) -> None:
    book = make_book(tmp_path / "a.epub", {"a.xhtml": page("<p>a</p>")}, files={name: "x"})
    assert reason_of(book) is Reason.UNSAFE_PATH


@pytest.mark.parametrize("href", [f"{BACK}etc/passwd", "/etc/passwd", "%2e%2e/%2e%2e/secret.xhtml", "../../x.xhtml"])
def test_references_that_lead_out_of_the_zip_are_refused(tmp_path: Path, href: str) -> None:
    item = f'<item id="a" href="{href}" media-type="application/xhtml+xml"/>'
    files = {"mimetype": "application/epub+zip", "book/package.opf": package(item, '<itemref idref="a"/>')}
    assert reason_of(make_zip(tmp_path / "a.epub", files)) is Reason.UNSAFE_PATH
    files = {"META-INF/container.xml": f'<container><rootfile full-path="{href}"/></container>', "p.opf": "<package/>"}
    assert reason_of(make_zip(tmp_path / "b.epub", files)) is Reason.UNSAFE_PATH


def test_packing_that_books_do_not_use_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.epub"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("p.opf", bytes(50 << 20), zipfile.ZIP_BZIP2)
    assert reason_of(path) is Reason.BROKEN


def encryption(algorithm: str, target: str) -> str:
    return (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" '
        'xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData>'
        f'<enc:EncryptionMethod Algorithm="{algorithm}"/><enc:CipherData><enc:CipherReference URI="{target}"/>'
        "</enc:CipherData></enc:EncryptedData></encryption>"
    )


def test_an_encrypted_book_is_encrypted_and_hidden_fonts_are_not(tmp_path: Path) -> None:
    aes, fonts = "http://www.w3.org/2001/04/xmlenc#aes128-cbc", "http://www.idpf.org/2008/embedding"
    pages = {"a.xhtml": page("<p>a</p>")}

    def book(text: str) -> Path:
        return make_book(tmp_path / "a.epub", pages, files={"META-INF/encryption.xml": text, "book/f.otf": b"x"})

    assert reason_of(book(encryption(aes, "book/a.xhtml"))) is Reason.ENCRYPTED
    assert read(book(encryption(fonts, "book/f.otf"))) == "a"


def test_a_zip_with_a_password_is_encrypted(tmp_path: Path) -> None:
    path = make_epub(tmp_path / "a.epub", [("I", "One.")])
    data = bytearray(path.read_bytes())
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        found = data.find(signature)
        while found >= 0:
            data[found + place] |= 1
            found = data.find(signature, found + 1)
    path.write_bytes(data)
    assert reason_of(path) is Reason.ENCRYPTED


def test_a_book_may_offer_one_thing_after_another_and_not_without_end(tmp_path: Path) -> None:
    others = "".join(f'<item id="{one}" href="{one}.bin" fallback="{one + 1}"/>' for one in range(20_000))
    spine = '<itemref idref="one.xhtml"/>' + '<itemref idref="0"/>' * 20_000
    path = make_book(tmp_path / "a.epub", {"one.xhtml": page("<p>Some words.</p>")}, spine=others + spine)
    assert read(path) == "Some words."


def test_hostile_markup_does_not_take_long(tmp_path: Path) -> None:
    began = time.process_time()
    for begun in ("<!DOCTYPE a [", "<!--", "&", "<a ", "<![CDATA[", "1", "<rt>a</rt>", "<ruby>", "<h1>" + " " * 50):
        with contextlib.suppress(Unreadable):
            read(make_book(tmp_path / "a.epub", {"a.xhtml": page("<p>a</p>"), "b.xhtml": begun * 100_000}))
    assert time.process_time() - began < 20


# ---------------------------------------------------------------- the shared books


@pytest.mark.parametrize("path", shared("epub"), ids=lambda path: path.stem)
def test_every_word_of_the_spine_is_in_the_chunks_in_order_and_once(path: Path) -> None:
    text = read(path)
    chunks = chunks_of("d", text)
    said = "\n".join(chunk.text for chunk in chunks)
    without_numbers_of_lists = re.sub(r"(?m)^([> ]*)\d+\. (?=\S)", r"\1", said)  # in a text they are escaped
    assert letters(without_numbers_of_lists) == letters("".join(words_of_the_spine(path)))


def test_war_and_peace_has_all_its_chapters() -> None:
    path = shared_file("epub/tolstoy_war-and-peace.epub")
    with zipfile.ZipFile(path) as archive:
        files = sum(bool(re.search(r"/(chapter-|epilogue-\d-)", name)) for name in archive.namelist())
    chunks = chunks_of("d", read(path))
    paths = {chunk.heading for chunk in chunks}
    assert sum(len(one.split(" › ")) == 4 for one in paths) == files == 364
    assert "War and Peace › Book I › Part I 1805 › I" in paths
    assert len({chunk.chunk for chunk in chunks}) == len(chunks)


def letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.replace("\u00ad", ""))


def words_of_the_spine(path: Path) -> Iterator[str]:
    """The text of the spine, taken without any code of the reader; the contents and the cover are no part of it."""
    parser = etree.XMLParser(resolve_entities=False, remove_comments=True, remove_pis=True)
    with zipfile.ZipFile(path) as archive:
        package_name = next(name for name in archive.namelist() if name.endswith(".opf"))
        root = etree.fromstring(archive.read(package_name), parser)
        items = {one.get("id"): one for one in root.iter("{*}item")}
        for reference in root.iter("{*}itemref"):
            item = items[reference.get("idref")]
            if "nav" in item.get("properties", "").split():
                continue
            name = (Path(package_name).parent / item.get("href", "")).as_posix()
            body = etree.fromstring(archive.read(name), parser).find("{*}body")
            assert body is not None
            if body.find(".//*[@{http://www.idpf.org/2007/ops}type='cover']") is not None:
                continue
            for element in body.iter("{*}script", "{*}style"):
                element.text = None
            yield "".join(body.itertext())
