"""One POST of a JSON document, with a time limit.

No redirect is followed: what is posted, and the headers it goes with, reach the given address and no other.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO, Any


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def post(url: str, document: Mapping[str, Any], headers: Mapping[str, str], *, time_limit_s: float) -> None:
    """Post it. Any answer but 2xx is an error, as is none."""
    request = urllib.request.Request(
        url,
        data=json.dumps(document, ensure_ascii=False).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "onceward", **headers},
        method="POST",
    )
    with _opener.open(request, timeout=time_limit_s):
        pass
