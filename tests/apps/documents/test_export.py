"""Documents out of the library: the text as it is, every passage, and a page in which a document can do nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from onceward_apps.documents import reads
from onceward_apps.documents.cli import main
from onceward_apps.documents.exporting import book, write_file
from onceward_apps.documents.reader_page import page
from onceward_apps.documents.rendering import rendered
from tests.apps.documents.bookcase import Bookcase, bookcase

FILLING = " ".join(["And nothing else is to be said of it here, so that what was said may stand by itself."] * 9)
HUMMING = " ".join(["Their pollen feeds the seed of the clover in this meadow."] * 14)
BEES = f"""# On <b>bees</b> & "wax"

## Pollen

The bees carry pollen from flower to flower, and without their visits the clover of the meadow bears no seed at all. The
clover, the bees and the pollen belong together in every meadow, and the seed of next summer depends on them. {HUMMING}

## <script>alert(1)</script>

Here is <script>alert("text")</script> and <img src=x onerror=alert(2)> and [a link](javascript:alert(3)) and
![a picture](https://example.com/spy.png) and <a href="https://example.com" onclick="alert(4)">raw</a> and
[fine](https://example.com/a?b=1&c="). {FILLING}
"""
CLOVER = """# A meadow

## Seed

Clover needs the bees: where nobody visits its flowers and carries their pollen from meadow to meadow, there will be no
seed in summer. The clover of one meadow lives by the pollen that the bees bring from another one.
"""


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def case(lasting_library_url: str) -> Iterator[Bookcase]:
    made = bookcase(lasting_library_url)
    documents = [
        made.put("bees.md", BEES, title='On <b>bees</b> & "wax"'),
        made.put("meadow.md", CLOVER, title="A meadow"),
    ]
    made.connect(documents)
    yield made
    made.app.close()


@pytest.fixture
def run(case: Bookcase, capsys: pytest.CaptureFixture[str]) -> Run:
    def carried_out(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--library", case.app.url])
        said = capsys.readouterr()
        return code, said.out, said.err

    return carried_out


class Seen(HTMLParser):
    """What a browser would see: elements with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def html_of(case: Bookcase, *names: str) -> str:
    entries = [entry for entry in case.app.read(reads.entries) if not names or entry.path.rpartition("/")[2] in names]
    titles = {entry.document: entry.name for entry in case.app.read(reads.entries)}
    return "".join(page([book(case.app, entry) for entry in entries], titles))


# The page


def test_a_hostile_document_stays_text(case: Bookcase) -> None:
    html = html_of(case)
    seen = Seen(html)
    assert [attributes for tag, attributes in seen.elements if tag == "script"] == [{}], "the page's own alone"
    assert not [
        tag for tag, _ in seen.elements if tag in ("img", "iframe", "object", "embed", "link", "base", "form", "b")
    ]
    assert not [name for _, attributes in seen.elements for name in attributes if name.startswith("on")]
    assert all(
        (attributes.get("href") or "#").startswith(("#", "https://example.com/a")) for _, attributes in seen.elements
    )
    for text in ('<script>alert("text")</script>', "<img src=x onerror=alert(2)>", 'On <b>bees</b> & "wax"'):
        assert text in seen.text


def test_the_page_needs_nothing_from_outside_and_allows_no_other_script(case: Bookcase) -> None:
    html = html_of(case)
    policy = next(attributes["content"] for tag, attributes in Seen(html).elements if attributes.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert policy.count("'sha256-") == 2
    assert "unsafe" not in policy
    assert not re.search(r"(src|url|@import)\s*[=(]\s*[\"']?\s*(https?:)?//", html)


def test_every_word_is_on_the_page_in_order(case: Bookcase) -> None:
    words = re.findall(r"\w+", Seen(html_of(case, "meadow.md")).text.partition("Skip to the text")[2])
    wanted = re.findall(r"\w+", CLOVER)
    place = 0
    for word in wanted:
        assert word in words[place:], word
        place = words.index(word, place) + 1


def test_connections_stand_beside_their_passages_and_lead_to_the_others(case: Bookcase) -> None:
    html = html_of(case)
    ids = re.findall(r'id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    notes = re.findall(r'<section class="passage has-notes" id="(c\w+)">.*?<aside(.*?)</aside>', html, re.S)
    assert len(notes) == 2
    assert [re.findall(r'href="#(c\w+)"', note) for _, note in notes] == [[notes[1][0]], [notes[0][0]]]
    assert all("both speak of" in note and "pollen" in note for _, note in notes)
    targets = {
        attributes["href"][1:]
        for tag, attributes in Seen(html).elements
        if (attributes.get("href") or "").startswith("#")
    }
    assert targets <= set(ids)


def test_a_passage_that_is_not_on_the_page_is_named_without_a_link(case: Bookcase) -> None:
    html = html_of(case, "meadow.md")
    assert '<span class="unlinked"' in html
    assert "On &lt;b&gt;bees&lt;/b&gt; &amp; &quot;wax&quot; › Pollen" in html


def test_the_outline_leads_to_the_headings(case: Bookcase) -> None:
    html = html_of(case, "meadow.md")
    links = re.findall(r'<a class="l\d" href="#([^"]+)"[^>]*>([^<]*)</a>', html)
    assert [title for _, title in links] == ["A meadow", "Seed"]
    assert all(re.search(rf'<h[12] id="{target}">{title}</h[12]>', html) for target, title in links)


def test_links_into_files_that_are_not_here_lead_nowhere() -> None:
    html = rendered(
        "[a](chapter.xhtml#n) [b](data:text/html,x) [c](//evil.example) [d](mailto:a@b.example)", lambda _: None
    )
    assert re.findall(r'href="([^"]*)"', html) == ["mailto:a@b.example"]


# The command


def test_markdown_is_the_text_as_it_is_stored(run: Run, tmp_path: Path) -> None:
    assert run("export", "meadow", "--output", str(tmp_path / "meadow.md"))[0] == 0
    assert (tmp_path / "meadow.md").read_text(encoding="utf-8").strip() == CLOVER.strip()
    assert run("export", "meadow")[1].strip() == CLOVER.strip()


def test_several_documents_as_markdown_go_into_a_folder(run: Run, tmp_path: Path) -> None:
    code, said, _ = run("export", "--all", "--output", str(tmp_path / "out"))
    assert code == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert [name.rpartition("-")[0] for name in names] == ["A-meadow", "On-b-bees-b-wax"]
    assert said.count("wrote ") == 2


def test_json_lines_hold_every_passage_with_its_connections(run: Run, case: Bookcase) -> None:
    lines = [json.loads(line) for line in run("export", "--all", "--format", "jsonl")[1].splitlines()]
    assert (
        len(lines)
        == case.app.read(lambda connection: connection.execute("SELECT count(*) FROM docs_chunk").fetchone())[0]
    )
    texts = {"A meadow": CLOVER}
    for line in lines:
        markdown = texts.get(line["title"], BEES)
        assert markdown[line["start"] : line["end"]] == line["text"]
    by_chunk = {line["chunk"]: line for line in lines}
    ends = [(line["chunk"], other["chunk"]) for line in lines for other in line["connections"]]
    assert len(ends) == 2
    assert all((right, left) in ends and right in by_chunk for left, right in ends)


def test_a_page_is_written_whole(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "new" / "library.html"
    assert run("export", "--all", "-f", "html", "-o", str(target))[0] == 0
    assert target.read_text(encoding="utf-8").endswith("</html>\n")
    assert [path.name for path in target.parent.iterdir()] == ["library.html"]


def test_what_was_there_stays_when_writing_fails(tmp_path: Path) -> None:
    def pieces() -> Iterator[str]:
        yield "half"
        raise OSError("the disk is full")

    target = tmp_path / "library.html"
    target.write_text("before")
    with pytest.raises(OSError, match="full"):
        write_file(target, pieces())
    assert target.read_text() == "before"
    assert [*tmp_path.iterdir()] == [target]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export"], "name the documents"),
        (["export", "meadow", "--all"], "name the documents"),
        (["export", "nothing like it"], "no document 'nothing like it'"),
        (["export", "e"], "may be any of 2 documents"),
        (["show", "meadow", "--chunk", "9"], "has 1 passages"),
        (["search", "clover", "--document", "novel"], "no document 'novel'"),
    ],
)
def test_wrong_usage_is_told(run: Run, arguments: list[str], said: str) -> None:
    code, _, error = run(*arguments)
    assert code == 2
    assert said in error


# The other commands


def test_search_says_where_a_passage_stands(run: Run) -> None:
    code, said, _ = run("search", "who", "carries", "pollen", "--document", "meadow")
    assert code == 0
    assert "A meadow  Seed  passage 1 of 1" in said
    found = json.loads(run("search", "who carries pollen?", "--json")[1])
    assert {hit["title"] for hit in found["hits"]} == {"A meadow", 'On <b>bees</b> & "wax"'}
    assert found["hits"][0]["score"] >= found["hits"][1]["score"]
    assert run("search", "😀")[0] == 1


def test_connections_show_both_passages_and_why(run: Run) -> None:
    code, said, _ = run("connections")
    assert code == 0
    assert "both speak of" in said
    assert "A meadow" in said
    [tie] = json.loads(run("connections", "meadow", "--json")[1])["connections"]
    assert {tie["left"]["title"], tie["right"]["title"]} == {"A meadow", 'On <b>bees</b> & "wax"'}


def test_show_tells_what_is_known_and_shows_passages(run: Run) -> None:
    said = run("show", "meadow")[1]
    for text in ("A meadow", "An author", "Outline", "Seed", "/books/meadow.md"):
        assert text in said
    passage = run("show", "meadow", "--chunk", "1")[1]
    assert "Clover needs the bees" in passage
    assert "Connections" in passage
    told = json.loads(run("show", "meadow", "--passages", "--json")[1])
    assert told["passages"] == len(told["texts"]) == 1
    assert told["connections"] == 1
    assert [heading["title"] for heading in told["outline"]] == ["A meadow", "Seed"]
