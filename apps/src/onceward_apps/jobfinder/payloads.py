"""The work of the job finder: what a task is asked to do."""

from __future__ import annotations

from onceward import Payload
from onceward_apps.jobfinder.identities import listing_key, website_of
from onceward_apps.jobfinder.pages import Request


class Company(Payload, kind="company"):
    """Look at a company: its site, what it is, what it works with, and where its jobs are."""

    website: str
    name: str | None = None
    board: str | None = None
    """A job board that is known already, from a file of companies say."""

    def key(self) -> str:
        """The website, in one spelling."""
        return website_of(self.website)

    @property
    def title(self) -> str | None:
        """What a stop list looks at beside the address."""
        return self.name


class Discovery(Payload, kind="source_discovery"):
    """Test a job board, and learn how it is read."""

    source: str
    kind_of_board: str
    token: str
    url: str
    company: str | None = None
    confidence: str = "high"

    def key(self) -> str:
        """The address of the board, in one spelling."""
        return listing_key(self.url)


class Reading(Payload, kind="scrape_source"):
    """Read all listings of a source."""

    source: str

    def key(self) -> str:
        """The id of the source."""
        return self.source


class Scrape(Payload, kind="scrape"):
    """Have every source read that is enabled and due."""

    def key(self) -> str:
        """There is one such piece of work at a time."""
        return "every source that is due"


class Job(Payload, kind="job"):
    """Look at a listing: scrape it, filter it, see how well it fits, and save it."""

    url: str
    source: str | None = None
    title: str | None = None

    def key(self) -> str:
        """Its address, in one spelling."""
        return listing_key(self.url)


class Fetch(Payload, kind="fetch"):
    """Fetch one page for a listing, when its host can serve it."""

    request: Request

    def key(self) -> str:
        """The address of the page."""
        return listing_key(self.request.url)


class Question(Payload, kind="model_question"):
    """Ask a model something about a company or a listing, within the budget."""

    purpose: str
    about: str
    model: str
    text: str

    def key(self) -> str:
        """One answer for each purpose and subject."""
        return f"{self.purpose}:{self.about}"
