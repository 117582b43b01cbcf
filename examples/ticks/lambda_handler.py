"""A tick as an AWS Lambda function: scheduled by EventBridge every five minutes, and by itself while work is ready.

Its time-out must be longer than the tick: 660 s for a tick of 600 s. A database that all its runs share is needed:
PostgreSQL, in `SHOP_DATABASE`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tasks import app

from onceward import LambdaTrigger

TIME_LIMIT_S = 600
MOST_TASKS, LONGEST_CHAIN = 1_000, 2


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run one tick. The schedule says nothing of a chain; an event that a tick has sent says how much of it is left.

    An event can ask for less than these bounds, not for more. One that comes over a URL of the function is refused:
    its sender is not checked, unless the URL has `AuthType: AWS_IAM`.
    """
    if "requestContext" in event:
        return {"statusCode": 403}
    left_s = context.get_remaining_time_in_millis() / 1_000 - 30
    report = app.tick(
        max_tasks=min(int(event.get("max_tasks", MOST_TASKS)), MOST_TASKS),
        time_limit=min(TIME_LIMIT_S, left_s),
        chain=min(int(event.get("chain", LONGEST_CHAIN)), LONGEST_CHAIN),
        chain_left=event.get("chain_left"),
        concurrency=event.get("concurrency"),
        queues=event.get("queues"),
        trigger=LambdaTrigger(),
    )
    return asdict(report)
