"""The header that carries a lineage: what is read from it, what is kept of it, and what is refused."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from onceward import ConfigError, NoLineage
from onceward.baggage import Far, far_task, incoming, outgoing_headers

LINEAGE = uuid.UUID("0190b6d2-7b4e-7c3a-9f00-1234567890ab")
OURS = f"onceward.lineage={LINEAGE},onceward.task=17,onceward.depth=2"

FORMS: dict[str, Any] = {
    "a mapping": {"Baggage": OURS},
    "pairs": [("accept", "*/*"), ("baggage", OURS)],
    "pairs of bytes, as in ASGI": [(b"accept", b"*/*"), (b"baggage", OURS.encode())],
    "environ, as in WSGI": {"HTTP_BAGGAGE": OURS, "wsgi.version": (1, 0), "wsgi.input": object()},
    "spread over headers": [("baggage", f"a=1,onceward.lineage={LINEAGE}"), ("baggage", "onceward.task=17, b=2")],
    "with spaces and properties": {"baggage": f" onceward.lineage = {LINEAGE} ;p=1 , onceward.task = 17 "},
}


@pytest.mark.parametrize("headers", FORMS.values(), ids=FORMS)
def test_headers_are_read_in_every_form_that_servers_have(headers: Any) -> None:
    with incoming(headers):
        far = far_task(root=False)
    assert far is not None
    assert (far.lineage, far.task) == (LINEAGE, 17)
    assert far_task(root=False) is None


BROKEN = {
    "no task": f"onceward.lineage={LINEAGE}",
    "no lineage": "onceward.task=17",
    "no uuid": "onceward.lineage=abc,onceward.task=17",
    "no number": f"onceward.lineage={LINEAGE},onceward.task=seventeen",
    "negative": f"onceward.lineage={LINEAGE},onceward.task=-17",
    "too large": f"onceward.lineage={LINEAGE},onceward.task={10**30}",
    "digits of another script": f"onceward.lineage={LINEAGE},onceward.task=١٧",
    "an absurd depth": f"onceward.lineage={LINEAGE},onceward.task=17,onceward.depth=deep",
}


@pytest.mark.parametrize("value", BROKEN.values(), ids=BROKEN)
def test_a_header_that_cannot_be_read_is_refused_or_ignored(value: str) -> None:
    with pytest.raises(NoLineage, match="baggage header of the request cannot be read"), incoming({"baggage": value}):
        pass
    with incoming({"baggage": value}, otherwise="root"):
        assert far_task(root=False) is None


def test_a_request_without_a_lineage_is_fine_unless_it_must_have_one() -> None:
    with incoming({"baggage": "tenant=7"}):
        assert far_task(root=False) is None
    with pytest.raises(NoLineage, match="names no lineage"), incoming({}, required=True):
        pass
    with pytest.raises(ConfigError, match="'raise' or 'root'"), incoming({}, otherwise="maybe"):  # type: ignore[arg-type]
        pass


def test_a_root_is_a_root_also_while_a_request_is_served() -> None:
    with incoming({"baggage": OURS}):
        assert far_task(root=True) is None
        with incoming({}):
            assert far_task(root=False) is None
        assert far_task(root=False) == Far(LINEAGE, 17, 2)


def test_outside_of_a_stage_headers_stay_as_they_are() -> None:
    assert outgoing_headers() == {}
    assert outgoing_headers({"Accept": "*/*", "baggage": "tenant=7"}) == {"Accept": "*/*", "baggage": "tenant=7"}


def test_what_others_have_in_the_header_is_kept_and_ours_is_there_once() -> None:
    with incoming({"baggage": OURS}):  # a server that passes a request on
        headers = outgoing_headers({"Baggage": "tenant=7;ttl=3, onceward.task=1 , user=%C3%A4", "Accept": "*/*"})
    assert headers == {"Accept": "*/*", "baggage": f"{OURS},tenant=7;ttl=3,user=%C3%A4"}
