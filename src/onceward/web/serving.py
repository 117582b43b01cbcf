"""Serves a site with uvicorn: on loopback for whoever is on this machine, elsewhere for callers with a token alone."""

from __future__ import annotations

import uvicorn

from onceward.app import App
from onceward.errors import ConfigError
from onceward.web.guard import LOCAL_HOSTS, Access, is_loopback
from onceward.web.roles import Role
from onceward.web.site import DATABASE_WAIT, Site

GRACE_S = 3


def serve(
    app: App, host: str, port: int, *, base_path: str = "", host_names: list[str] | None = None, name: str = ""
) -> None:
    """Serve the dashboard of an app until Ctrl-C; refuses a public address as long as there is no token."""
    on_loopback = is_loopback(host)
    if not on_loopback and not app.tokens.any():
        raise ConfigError(
            f"{host} can be reached from other machines, and this database has no token: "
            "anybody could retry, cancel and pay. Make one: onceward token add NAME --role admin"
        )
    if base_path and (not base_path.startswith("/") or base_path.endswith("/")):
        raise ConfigError(f"--base-path {base_path}: it begins with a slash and ends without one, like /onceward")
    app._in_force.pin(database_wait=DATABASE_WAIT)
    names = {*LOCAL_HOSTS, host.lower(), *(one.lower() for one in host_names or ())}
    access = Access(names, Role.ADMIN if on_loopback else Role.NONE)
    config = uvicorn.Config(
        Site(app, access, name=name).asgi(),
        host=host,
        port=port,
        root_path=base_path,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    uvicorn.Server(config).run()
