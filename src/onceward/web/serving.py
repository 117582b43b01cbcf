"""Serves a site with uvicorn: on loopback for every caller there, elsewhere for callers with a token alone."""

from __future__ import annotations

from typing import Any

import uvicorn

from onceward.app import App
from onceward.errors import ConfigError
from onceward.web.carrying import carry, leave
from onceward.web.guard import LOCAL_HOSTS, Access, is_loopback
from onceward.web.roles import Role
from onceward.web.site import DATABASE_WAIT, Site

GRACE_S = 3


def serve(
    app: App, host: str, port: int, *, base_path: str = "", host_names: list[str] | None = None, name: str = ""
) -> None:
    """Serve the dashboard of an app until Ctrl-C; refuses a public address as long as there is no token."""
    # Under a name of its own it is meant for others, who come by a proxy if not by themselves.
    is_public = not is_loopback(host) or bool(host_names)
    if is_public and not app.tokens.any():
        raise ConfigError(
            f"{host_names[0] if host_names else host} can be reached from other machines, and this database has no "
            "token: any caller could retry, cancel and pay. Make one: onceward token add NAME --role admin"
        )
    if base_path and (not base_path.startswith("/") or base_path.endswith("/")):
        raise ConfigError(f"--base-path {base_path}: it begins with a slash and ends without one, like /onceward")
    app._in_force.pin(database_wait=DATABASE_WAIT)
    names = {*LOCAL_HOSTS, host.lower(), *(one.lower() for one in host_names or ())}
    access = Access(names, Role.NONE if is_public else Role.ADMIN)
    config = uvicorn.Config(
        _Mounted(Site(app, access, name=name).asgi(), base_path),
        host=host,
        port=port,
        root_path=base_path,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    carry(app)
    try:
        uvicorn.Server(config).run()
    finally:
        leave(app)


class _Mounted:
    """Takes requests of both kinds of proxies: of those that leave the base path in the address, and of the others.

    uvicorn puts the base path in front of every path, so that it stands there twice if the proxy has left it.
    """

    def __init__(self, app: Any, base_path: str) -> None:
        self._app = app
        self._base = base_path

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        twice = f"{self._base}{self._base}/"
        if self._base and scope["type"] == "http" and scope["path"].startswith(twice):
            scope = {**scope, "path": scope["path"].removeprefix(self._base)}
        await self._app(scope, receive, send)
