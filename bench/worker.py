"""The process that runs jobs: `python -m bench.worker [--until-idle] [--fans] [--kinds] [--few]`."""

import sys

from bench import floor_loop, loops, runlog
from bench.plan import FANS
from bench.target import Target, from_environment


async def floor_sqlite(target: Target, *, until_idle: bool) -> None:
    """Run the floor's worker on a SQLite file."""
    from bench.floor_sqlite import SqliteFloorStore

    await floor_loop.work(SqliteFloorStore(target.url), runlog.recorder(target.log), until_idle=until_idle)


async def floor_postgres(target: Target, *, until_idle: bool) -> None:
    """Run the floor's worker on a PostgreSQL database."""
    from bench.floor_postgres import PostgresFloorStore

    store = PostgresFloorStore()
    await store.open(target.url)
    await floor_loop.work(store, runlog.recorder(target.log), until_idle=until_idle)


def main() -> None:
    """Run a worker until it is told to stop or, with --until-idle, until nothing is left."""
    target = from_environment()
    until_idle = "--until-idle" in sys.argv[1:]
    if target.side == "engine":
        loops.make_fast_loops_the_default()
        from bench import engine

        queues = [FANS] if "--fans" in sys.argv[1:] else None
        engine.work(until_idle=until_idle, queues=queues, kinds="--kinds" in sys.argv[1:], few="--few" in sys.argv[1:])
    elif target.store == "sqlite":
        loops.run(floor_sqlite(target, until_idle=until_idle))
    else:
        loops.run(floor_postgres(target, until_idle=until_idle))


if __name__ == "__main__":
    main()
