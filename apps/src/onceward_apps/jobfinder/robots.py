"""The rules of a robots.txt, by RFC 9309: protego, with the start of the file and the names of agents put right before.

A rule and an address that differ only in how they are percent-encoded are the same, as the RFC has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from protego import Protego

BYTES_READ = 500 * 1024
"""What the RFC asks for at least; the rest of a longer file is left unread."""

_MARK = b"\xef\xbb\xbf"
_AGENT_LINE = re.compile(r"^([ \t]*user[- ]?agent[ \t]*:[ \t]*)([^\s#/]+)[^\r\n]*", re.IGNORECASE | re.MULTILINE)
_TOKEN = re.compile(r"[\w-]+", re.ASCII)
_NOBODY = "\x00"
"""An agent that no group names: the rules for all apply to it."""


@dataclass(frozen=True)
class Robots:
    """What a site lets programs do."""

    rules: Protego

    def allows(self, url: str, agent: str) -> bool:
        """Whether an agent, named by its product token, may fetch an address."""
        return self.rules.can_fetch(url, agent if _TOKEN.fullmatch(agent) else _NOBODY)

    def crawl_delay_s(self, agent: str) -> float | None:
        """How many seconds an agent is asked to leave between two requests."""
        return self.rules.crawl_delay(agent)

    def sitemaps(self) -> list[str]:
        """The sitemaps that the file names."""
        return list(self.rules.sitemaps)


NO_RULES = Robots(Protego.parse(""))
"""Of a site without a robots.txt: everything is allowed."""


def parsed(body: bytes) -> Robots:
    """The rules in a file, whatever it contains; a file without any allows everything."""
    text = _without_mark(body[:BYTES_READ]).decode("utf-8", "replace")
    if len(body) > BYTES_READ:
        text = text[: text.rfind("\n") + 1]  # half a line may mean the opposite of the whole
    return Robots(Protego.parse(_AGENT_LINE.sub(r"\1\2", text)))


def _without_mark(body: bytes) -> bytes:
    """The body without a byte-order mark, or the first bytes of one."""
    length = 0
    while length < len(_MARK) and body[length : length + 1] == _MARK[length : length + 1]:
        length += 1
    return body[length:]
