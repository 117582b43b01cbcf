"""A provider of models on this machine, spoken to by the real client. It remembers every call it was paid for."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSIONS = 32


class Provider:
    """The server; `environment` is what a client needs to find it."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.fails = 0
        self.delay_s = 0.0
        self._lock = threading.Lock()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = provider.answer(self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that was killed hangs up; that is what the tests are about."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """Where the client finds it."""
        return {
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self._server.server_address[1]}/v1",
            "OPENAI_API_KEY": "made-for-tests",
        }

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """What is answered to a request."""
        asked = hashlib.sha256(json.dumps(body.get("input") or body.get("messages")).encode()).hexdigest()
        with self._lock:
            self.calls[asked] += 1
            if self.fails:
                self.fails -= 1
                return 503, {"error": {"message": "busy", "type": "server_error"}}
        time.sleep(self.delay_s)
        answer = self._vectors(body) if path.endswith("/embeddings") else self._repaired(body)
        with self._lock:
            self.answered[asked] += 1
        return 200, answer

    def _vectors(self, body: dict[str, Any]) -> dict[str, Any]:
        data = []
        for index, text in enumerate(body["input"]):
            numbers = [0.01] * DIMENSIONS
            for word in text.lower().replace(".", " ").split():
                numbers[hashlib.sha256(word.encode()).digest()[0] % DIMENSIONS] += 1
            packed = struct.pack(f"<{DIMENSIONS}f", *numbers)
            shown = base64.b64encode(packed).decode() if body.get("encoding_format") == "base64" else numbers
            data.append({"object": "embedding", "index": index, "embedding": shown})
        words = sum(len(text.split()) for text in body["input"])
        usage = {"prompt_tokens": words, "total_tokens": words}
        return {"object": "list", "data": data, "model": body["model"], "usage": usage}

    def _repaired(self, body: dict[str, Any]) -> dict[str, Any]:
        text = body["messages"][-1]["content"].replace("~", "")
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        return {
            "id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice],
            "usage": usage,
        }  # fmt: skip

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
