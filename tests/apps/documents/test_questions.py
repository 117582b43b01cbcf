"""Twenty questions about six books: the passage with the answer is among the first five for at least eighteen.

They are in words of a reader, and names are without the accents that the books put on them. Each has the words by
which a right passage is known. They were written before the search was tuned. It was tuned with twenty others, and
where those did not decide, with these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onceward_apps.documents.opening import open_document
from onceward_apps.documents.searching import search
from tests.apps.documents.bookcase import Bookcase, bookcase

QUESTIONS: dict[str, tuple[str, ...]] = {
    # War and Peace
    "What did Prince Andrey see above him as he lay wounded at Austerlitz?": (
        "nothing but the sky", "that lofty sky", "everlasting sky",
    ),
    "Why did Pierre connect his own name with the number of the beast?": ("L’russe Besuhof", "666"),
    "What was the peasant soldier Platon Karataev like?": ("personification of everything Russian",),
    "What did the dead face of the little princess seem to say?": ("have you done to me",),
    "How was Vereshchagin killed by the mob?": (
        "Draw sabers!", "plaintive cry of pain", "beat and tore at Vereshchágin",
    ),
    "Why did Moscow burn down after the French had come?": ("any town built of wood",),
    "What present did Napoleon get from the Empress before Borodino?": ("portrait, painted in bright colors",),
    # The Origin of Species
    "Why are cave animals blind?": ("caves of Carniola and Kentucky", "blind animals inhabiting"),
    "How did the giraffe get its long neck?": ("nascent giraffe", "elongated neck"),
    "Why does the rattlesnake have a rattle?": ("rattlesnake uses its rattle", "rattle for its own injury"),
    "Which fossil monsters were found together with a horse's tooth in South America?": ("Megatherium, Toxodon",),
    "Did lungs evolve from the swim bladder of fish?": ("swim-bladder",),
    "Why does the ostrich lay eggs in several nests?": ("instinct of the ostrich",),
    "Do icebergs carry seeds to distant islands?": ("icebergs are known", "icebergs formerly landed"),
    # Children's literature
    "What did the witch want from the hollow tree?": ("old tinder-box", "hollow tree"),
    "Whose shield got a golden star, and why?": ("golden star was still shining", "hardest battle", "golden star"),
    "What must one throw into the Golden River to turn it into gold?": ("three drops of holy water",),
    "Who took the frozen duckling home?": ("wooden shoe, broke the ice",),
    # The Waste Land
    "the drowned Phoenician sailor": ("Phlebas the Phoenician",),
    "the fortune teller who had a bad cold": ("Madame Sosostris",),
}  # fmt: skip
FIRST, WANTED = 5, 18


@pytest.fixture(scope="module")
def books(shared_data: Path) -> dict[str, tuple[str | None, str]]:
    """The title and the text of every book that lies beside the project."""
    read: dict[str, tuple[str | None, str]] = {}
    for path in sorted((shared_data / "epub").glob("*.epub")):
        with closing(open_document(path)) as document:
            parts = [document.part(index).markdown for index in range(document.part_count)]
            read[path.name] = (document.about.title, "\n\n".join(part for part in parts if part))
    if not read:
        pytest.skip("there are no books in the folder of real documents")
    return read


@pytest.fixture(scope="module")
def case(lasting_library_url: str, books: dict[str, tuple[str | None, str]]) -> Iterator[Bookcase]:
    made = bookcase(lasting_library_url)
    for name, (title, markdown) in books.items():
        made.put(name, markdown, title=title)
    yield made
    made.app.close()


@pytest.mark.torture
@pytest.mark.parametrize("lasting_library_url", ["sqlite", "postgres"], indirect=True)
def test_questions_are_answered_in_the_first_five(case: Bookcase, books: dict[str, tuple[str | None, str]]) -> None:
    assert len(QUESTIONS) == 20
    whole = "\n".join(markdown for _, markdown in books.values())
    assert [phrase for answers in QUESTIONS.values() for phrase in answers if phrase not in whole] == []
    missed = [
        question
        for question, answers in QUESTIONS.items()
        if not any(answer in hit.text for hit in case.app.read(search, question, limit=FIRST) for answer in answers)
    ]
    assert len(QUESTIONS) - len(missed) >= WANTED, missed
