"""A document of one part: a file that is read as a whole."""

from __future__ import annotations

from onceward_apps.documents.outline import outline_of
from onceward_apps.documents.reading import About, Part, Reason, Unreadable


class OnePart:
    """An open file whose markdown is known. Raises Unreadable if there is no word in it."""

    part_count = 1

    def __init__(self, about: About, markdown: str) -> None:
        if not any(character.isalnum() for character in markdown):
            raise Unreadable(Reason.NO_TEXT, "there is no word in it")
        self.about = about
        self._markdown = markdown

    def part(self, index: int) -> Part:
        headings = outline_of(self._markdown)
        return Part((0,)[index], headings[0].title if headings else self.about.title, self._markdown)

    def close(self) -> None:
        self._markdown = ""
