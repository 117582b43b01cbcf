"""The documentation as tests see it: pages, their fenced blocks, and what each block is for.

What a block is follows from its language and from what stands around it:

`python`    runs, in order, in one process a page; what it prints is the `text` block right after it, if there is one.
            A first line `# name.py` makes it a file instead, `# name.py, at the end` adds to one, and a comment
            `<!-- replaces: a line -->` above it puts the rest of the block in place of that line of the file.
`console`   every line after `$ ` is a command; what follows it, if anything, is what it prints.
`sql`       runs on an up-to-date database of each kind.
`toml`      a first line `# name.toml` makes it a file.

In what is printed, `...` stands for anything, and white space is not compared. `<!-- not run: why -->` above a block is
the only way out, and it gives a reason; `<!-- exit 1 -->` is the code with which the commands of a console block end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*) *$")
_COMMENT = re.compile(r"^<!-- (?P<text>.*) -->$")
_FILE = re.compile(r"^# (?P<name>[\w/]+\.(?:py|toml))(?P<adds>, at the end)?(?:, .*)?$")
RUNS = frozenset({"python", "console", "sql"})


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    comment: str
    """The HTML comment right above it."""
    output: str | None
    """The `text` block right after it."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def why_not_run(self) -> str | None:
        """The reason that is given for not running it."""
        return self.comment.removeprefix("not run: ") if self.comment.startswith("not run") else None

    @property
    def file(self) -> str | None:
        """The file that it is, or changes."""
        match = _FILE.match(self.text.split("\n", 1)[0])
        return match["name"] if match and self.language in ("python", "toml") else None

    @property
    def adds(self) -> bool:
        """Whether it is added at the end of its file."""
        match = _FILE.match(self.text.split("\n", 1)[0])
        return bool(match and match["adds"])

    @property
    def replaces(self) -> str | None:
        """The line of its file that it stands in for."""
        return self.comment.removeprefix("replaces: ") if self.comment.startswith("replaces: ") else None

    @property
    def exit_code(self) -> int:
        """How its commands end."""
        return int(self.comment.removeprefix("exit ")) if self.comment.startswith("exit ") else 0

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Each command of a console block, and what it is said to print."""
        found: list[tuple[str, str]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], ""))
            elif found[-1][0].endswith("\\"):
                found[-1] = (f"{found[-1][0][:-1]}{line.strip()}", "")
            else:
                found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
        return found


def name_of(page: Path) -> str:
    """A page as one speaks of it."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, each with what stands right above and right below it."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    place, comment, last_end = 0, "", -1
    while place < len(lines):
        line = lines[place]
        opening = _FENCE.match(line)
        if opening is None:
            if match := _COMMENT.match(line.strip()):
                comment = match["text"]
            elif line.strip():
                comment, last_end = "", -1
            place += 1
            continue
        indent, start = len(opening["indent"]), place + 1
        end = next(number for number in range(start, len(lines)) if lines[number].strip() == "```")
        text = "\n".join(one[indent:] for one in lines[start:end]) + "\n"
        if opening["language"] == "text" and last_end >= 0 and not comment:
            before = found.pop()
            found.append(Block(before.page, before.line, before.language, before.text, before.comment, text))
        else:
            found.append(Block(name_of(page), start + 1, opening["language"], text, comment, None))
        place, comment, last_end = end + 1, "", end
    return found
