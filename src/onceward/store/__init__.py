"""All that knows SQL, in rooms. Imports point down the list:

    verify       every rule of the engine, checked on a live database
    reports      what people ask
    operations   what operators and maintenance write
    attempts     claims, leases, commits, lost workers
    lineage      spawning, joins, batches, trees
    governance   gates of sources and budgets, the cache
    lines        places in line
    drivers      connections and transactions of both databases

Operations are written once, as generators that yield queries (`op`); a session of either database drives them.
"""

__all__ = ["op"]
