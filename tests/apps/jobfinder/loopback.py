"""A small invented web on loopback: any number of hosts on one port, each answering as a test says."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast


@dataclass(frozen=True)
class Answer:
    """What a page answers."""

    body: str = ""
    status: int = 200
    content_type: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


Page = Answer | Callable[[], Answer]


class World:
    """The hosts, their pages, and everything that was asked."""

    def __init__(self) -> None:
        self.pages: dict[tuple[str, str], Page] = {}
        self.asked: Counter[str] = Counter()
        """How often each address was asked, robots.txt aside."""
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        cast(Any, self._server).world = self
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    def page(self, host: str, path: str, body: str | Page, status: int = 200, **headers: str) -> str:
        """Have a host answer a path; returns the address."""
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[host, path] = Answer(body, status, headers=shown) if isinstance(body, str) else body
        return self.url(host, path)

    def json(self, host: str, path: str, value: Any) -> str:
        self.pages[host, path] = Answer(json.dumps(value), content_type="application/json")
        return self.url(host, path)

    def options(self) -> dict[str, Any]:
        """What ONCEWARD_JOBS_WEB says for this world."""
        return {
            "loopback": True,
            "names": {"*.example": "127.0.0.1"},
            "total_s": 5,
            "hosts": {
                "boards-api.greenhouse.io": self.url("greenhouse.example", ""),
                "api.lever.co": self.url("lever.example", ""),
                "*.myworkdayjobs.com": self.url("workday.example", ""),
                "api.smartrecruiters.com": self.url("smartrecruiters.example", ""),
            },
        }

    # What there is in it

    def company(self, name: str, *, board: str = "", stack: str = "Python and PostgreSQL", more: str = "") -> str:
        """A company with a site that tells enough; returns its website."""
        host = f"{name.lower().replace(' ', '-')}.example"
        about = (
            f"<html><head><title>About | {name}</title></head><body><h1>About {name}</h1><p>{name} builds tools for "
            f"people who grow tomatoes in large greenhouses, and has done so for a long time. We work with {stack}. "
            f"{more}</p><h2>Our culture</h2><p>We listen, we write things down, we go home at five and we come back "
            "with ideas of our own.</p></body></html>"
        )
        home = f'<html><head><title>{name}</title></head><body><h1>{name}</h1><a href="/about">About</a></body></html>'
        careers = f"<html><head><title>Careers | {name}</title></head><body><h1>Jobs</h1>{board}</body></html>"
        self.page(host, "/", home)
        self.page(host, "/about", about)
        self.page(host, "/careers", careers)
        return self.url(host)

    def greenhouse(self, token: str, jobs: list[dict[str, Any]], company: str = "Acme") -> str:
        """A Greenhouse board; returns the link that a page of careers has."""
        listed = [{"company_name": company, **job} for job in jobs]
        self.json("greenhouse.example", f"/v1/boards/{token}/jobs?content=true", {
            "jobs": listed, "meta": {"total": len(jobs)},
        })  # fmt: skip
        return f'<a href="https://boards.greenhouse.io/{token}">All jobs</a>'


def job(number: int, title: str = "Senior Backend Engineer", **more: Any) -> dict[str, Any]:
    """A job of a Greenhouse board that fits the profile of the tests."""
    text = (
        "&lt;p&gt;We look for somebody who writes Python for PostgreSQL, with Docker, Go and Redis, and who likes to "
        "work with others on things that last.&lt;/p&gt;&lt;h3&gt;Requirements&lt;/h3&gt;&lt;ul&gt;&lt;li&gt;5 years "
        "of Python&lt;/li&gt;&lt;/ul&gt;"
    )
    return {
        "id": number,
        "title": title,
        "absolute_url": f"https://boards.greenhouse.io/acme/jobs/{number}",
        "location": {"name": "Portland, OR"},
        "first_published": "2025-12-28T00:00:00Z",
        "updated_at": "2025-12-28T00:00:00Z",
        "content": text,
        **more,
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        world = cast(World, cast(Any, self.server).world)
        host = (self.headers.get("Host") or "").partition(":")[0]
        if self.command == "POST":
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/robots.txt":
            with world._lock:
                world.asked[f"{host}{self.path}"] += 1
        found = world.pages.get((host, self.path), Answer("not here", 404))
        answer = found if isinstance(found, Answer) else found()
        body = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - as its base class looks for it

    def log_message(self, format: str, *args: Any) -> None:
        pass
