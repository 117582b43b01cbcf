"""The store: how large its tables are, what is dead in them, and what holds its log back."""

from __future__ import annotations

from onceward.web.answers import Page
from onceward.web.route import Answer, Route, page
from onceward.web.view import View

MUCH_DEAD = 0.2
"""The share of dead rows of a large table from which on it is pointed out."""
DEAD_ROWS = 10_000
LARGE_LOG = 64 << 20
OLD_TRANSACTIONS = 1_000_000_000


async def show(view: View) -> Answer:
    """Show how the database does."""
    health = await view.app.stats.astore()
    values = {
        "health": health,
        "facts": health.facts,
        "much_dead": MUCH_DEAD,
        "dead_rows": DEAD_ROWS,
        "is_large_log": health.log_bytes > LARGE_LOG,
        "is_old": (health.facts.transactions_old or 0) > OLD_TRANSACTIONS,
        "is_sqlite": view.app.dialect == "sqlite",
        "kept": view.app.config,
    }
    return Page("store.html", values, "Store", "store", refresh_s=30)


ROUTES: list[Route] = [page("/store", show)]
