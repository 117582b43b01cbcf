"""How a tick that has left work starts the next one of its chain.

A trigger is any callable that takes a `NextTick`. If it raises, the tick says so in its report and nothing is lost: the
next tick of the schedule does what was left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from onceward import extras
from onceward.errors import ConfigError
from onceward.model.times import Duration, milliseconds

_ALWAYS_SENT = ("app", "max_tasks", "time_limit_s", "chain", "chain_left")


@dataclass(frozen=True, slots=True)
class NextTick:
    """The tick that is to be started: for the same work, with the same bounds, and one self-trigger less."""

    app: str | None
    """Where it finds the app, as module:name; None if the app cannot be found from another process."""
    max_tasks: int
    time_limit_s: float
    chain: int
    chain_left: int
    queues: tuple[str, ...] | None = None
    """The queues whose work it does; None for all."""
    concurrency: int | None = None
    """How many tasks it works on at a time; None for as many as the settings say."""

    @property
    def document(self) -> dict[str, Any]:
        """What is sent to the program that starts it elsewhere; `queues` and `concurrency` only if they were given."""
        return {name: value for name, value in asdict(self).items() if name in _ALWAYS_SENT or value is not None}


Trigger = Callable[[NextTick], None]
"""Starts the next tick, and does not wait for it."""


@dataclass(frozen=True, slots=True)
class SubprocessTrigger:
    """Starts `onceward tick` on this machine, in a process of its own that outlives this one."""

    python: str = sys.executable
    arguments: tuple[str, ...] = ()
    """More options for it, as in `("--json",)`."""

    def __call__(self, tick: NextTick) -> None:
        """Start it."""
        if tick.app is None:
            raise ConfigError("another process must be able to import the app: make it at the top of a module")
        subprocess.Popen(
            self.command(tick),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def command(self, tick: NextTick) -> list[str]:
        """The command line of the next tick."""
        bounds = ["--max-tasks", f"{tick.max_tasks}", "--time-limit", f"{tick.time_limit_s:g}"]
        chain = ["--chain", f"{tick.chain}", "--chain-left", f"{tick.chain_left}"]
        work = [] if tick.concurrency is None else ["--concurrency", f"{tick.concurrency}"]
        if tick.queues is not None:
            if odd := [queue for queue in tick.queues if "," in queue or queue != queue.strip()]:
                raise ConfigError(f"the queue {odd[0]!r} cannot be named on a command line; take another trigger")
            work.append(f"--queues={','.join(tick.queues)}")
        return [self.python, "-m", "onceward", "tick", str(tick.app), *bounds, *chain, *work, *self.arguments]


@dataclass(frozen=True, slots=True)
class HttpTrigger:
    """Posts the next tick to an address, as JSON. What answers there starts it; any answer but 2xx is an error.

    No redirect is followed: what `headers` hold goes to this address alone.
    """

    url: str
    timeout: Duration = "10s"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"{self.url!r} is no address for a trigger; it begins with http:// or https://")
        milliseconds(self.timeout)

    def __call__(self, tick: NextTick) -> None:
        """Post it."""
        from onceward.support.http_post import (
            post,  # not before: it takes all of urllib and http, and few processes post
        )

        post(self.url, tick.document, self.headers, time_limit_s=milliseconds(self.timeout) / 1_000)


@dataclass(frozen=True, slots=True)
class LambdaTrigger:
    """Invokes an AWS Lambda function without waiting for it: by default the one that this code runs in.

    Needs the extra `aws` (boto3), and for its role the right to invoke that function.
    """

    function: str | None = None
    client: Any = None
    """A client of boto3 for `lambda`; by default one is made when it is needed."""

    def __call__(self, tick: NextTick) -> None:
        """Invoke it."""
        name = self.function or os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
        if not name:
            raise ConfigError("AWS_LAMBDA_FUNCTION_NAME is not set here; say which function: LambdaTrigger(function=…)")
        client = self.client
        if client is None:
            try:
                import boto3
            except ImportError as error:
                raise ConfigError(f"a Lambda function cannot be invoked: {extras.missing('boto3')}") from error
            client = boto3.client("lambda")
        client.invoke(FunctionName=name, InvocationType="Event", Payload=json.dumps(tick.document).encode())
