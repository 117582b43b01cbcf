"""TLS goes by the name of the host, although the connection goes to an address that was checked."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from onceward_apps.jobfinder.errors import Refused, RefusedReason
from onceward_apps.jobfinder.fetching import Fetcher
from tests.apps.jobfinder.raw_server import RawServer, answer

PAGE = b"<!doctype html>"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for shop.example, signed by itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not here to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
         "-subj", "/CN=shop.example", "-addext", "subjectAltName=DNS:shop.example", "-out", certificate,
         "-keyout", key],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return certificate, key


async def resolve(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def fetch(certificate: tuple[Path, Path], host: str, *, is_trusted: bool) -> tuple[list[str | None], bytes]:
    """The server names that a server was shown, and the body of its page."""
    shown: list[str | None] = []
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*certificate)
    serving.sni_callback = lambda _connection, name, _context: shown.append(name)
    trusting = ssl.create_default_context()
    if is_trusted:
        trusting.load_verify_locations(certificate[0])

    async def ask() -> bytes:
        async with RawServer({"/": answer(PAGE)}, tls=serving) as server:
            fetcher = Fetcher(allow_loopback=True, resolve=resolve, tls=trusting, obey_robots=False)
            return (await fetcher.get(f"https://{host}:{server.port}/")).body

    return shown, asyncio.run(ask())


def test_the_server_is_asked_for_by_name_and_must_prove_it(certificate: tuple[Path, Path]) -> None:
    shown, body = fetch(certificate, "shop.example", is_trusted=True)
    assert (shown, body) == (["shop.example"], PAGE)


@pytest.mark.parametrize(("host", "is_trusted"), [("shop.example", False), ("bank.example", True)])
def test_a_certificate_of_nobody_or_of_somebody_else_is_refused(
    certificate: tuple[Path, Path], host: str, is_trusted: bool
) -> None:
    with pytest.raises(Refused) as refused:
        fetch(certificate, host, is_trusted=is_trusted)
    assert refused.value.reason is RefusedReason.CERTIFICATE
