"""Serve the invented web: prints its port, and ends when its standard input does.

python -m onceward_apps.jobfinder.world '{"companies": 40}'
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime

import msgspec

from onceward_apps.jobfinder.world.http import Server
from onceward_apps.jobfinder.world.web import Size, Web


async def _serve(size: Size) -> None:
    server = Server(Web(size, datetime.now(UTC).date()).answer)
    print(await server.open(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.close()


if __name__ == "__main__":
    asyncio.run(_serve(msgspec.json.decode(sys.argv[1] if len(sys.argv) > 1 else "{}", type=Size)))
