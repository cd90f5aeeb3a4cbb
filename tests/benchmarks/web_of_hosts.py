"""
A web of many hosts on loopback, each with its own latency: `python -m tests.benchmarks.web_of_hosts LOG ...`.

The hosts have the addresses from 127.1.0.0 on, behind one port. Page 0 of a host links to all its pages.
Pages have an ETag and answer 304. With `--tls DIRECTORY` the hosts speak TLS, and the directory receives `ca.pem`.
Then each 50 hosts share a port and a certificate: a client keeps the decoded certificate of each connection in memory,
and one with a thousand names would take 400 KB. The process prints its ports when it listens, in the order of the
hosts, and logs each request as the synthetic site does.
"""

import argparse
import asyncio
import datetime as dt
import random
import signal
import socket
import ssl
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from ipaddress import ip_address
from pathlib import Path

import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from crawlctl.demo.log import RequestLog
from tests.benchmarks.many_hosts import host

# Seconds between two writes of the log.
_FLUSH_INTERVAL = 0.1
# Text of a page. A page has about 14 KB and 35 links to other pages of its host, like a page of the synthetic site.
_TEXT = "".join(f"<p>{' '.join(f'word{number % 97}' for number in range(80))}</p>" for _ in range(24))
_LINKS_A_PAGE = 35
# Number of hosts that share a certificate, and so a port.
HOSTS_A_CERTIFICATE = 50
_MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def latencies(*, hosts: int, least: float, most: float) -> list[float]:
    """Return the seconds that each host takes to answer: evenly drawn between two bounds, the same in each process."""
    drawn = random.Random(1)
    return [drawn.uniform(least, most) for _ in range(hosts)]


def skewed_latencies(*, hosts: int, median: float) -> list[float]:
    """Return the seconds that each host takes to answer: log-normal, at most 1 s, the same in each process."""
    drawn = random.Random(1)
    return [min(1.0, median * drawn.lognormvariate(0, 0.8)) for _ in range(hosts)]


class _Web:
    def __init__(self, log: RequestLog, *, pages: int, seconds: Sequence[float]) -> None:
        self.log, self.pages = log, pages
        self.latency = {host(number): latency for number, latency in enumerate(seconds)}
        self._links = "".join(f'<a href="/p{page}">page {page}</a> ' for page in range(1, pages))

    def answer(self, address: str, path: str, head: bytes) -> tuple[int, bytes]:
        """Return the status and the whole answer to a request."""
        number = path.removeprefix("/p") if path != "/" else "0"
        if not number.isdigit() or int(number) >= self.pages:
            return 404, _MISSING
        tag = f'"{address}-{number}"'
        if tag.encode() in head:
            return 304, f"HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\n\r\n".encode()
        links = self._links if number == "0" else self._links_of(int(number))
        body = f"<html><title>Page {number} of {address}</title>{_TEXT}{links}</html>".encode()
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: {tag}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )
        return 200, head + body

    def _links_of(self, number: int) -> str:
        others = ((number * 7 + place) % self.pages for place in range(_LINKS_A_PAGE))
        return "".join(f'<a href="/p{page}">page {page}</a> ' if page else '<a href="/">start</a> ' for page in others)


class _Answering(asyncio.Protocol):
    def __init__(self, web: _Web) -> None:
        self._web = web
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert hasattr(transport, "write")
        self._transport = transport
        self._address, port = transport.get_extra_info("sockname")
        self._host = f"{self._address}:{port}"

    def data_received(self, data: bytes) -> None:
        *heads, self._received = (self._received + data).split(b"\r\n\r\n")
        for head in heads:
            path = head.split(b" ", 2)[1].decode("latin-1")
            status, answer = self._web.answer(self._address, path, head)
            self._web.log.write(
                at=time.monotonic_ns(),
                host=self._host,
                path=path,
                status=status,
                open_requests=1,
                method="GET",
                agent="-",
            )
            if latency := self._web.latency.get(self._address, 0.0):
                asyncio.get_running_loop().call_later(latency, self._write, answer)
            else:
                self._write(answer)

    def _write(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


def _certify(directory: Path, *, hosts: int) -> list[ssl.SSLContext]:
    """Make an authority and certificates for all hosts. Write the authority's certificate to `ca.pem`."""
    now = dt.datetime.now(dt.UTC)
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a benchmark")])
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    pem = serialization.Encoding.PEM

    def begin(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        certificate = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        certificate = certificate.serial_number(x509.random_serial_number())
        return certificate.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=30))

    signer = x509.SubjectKeyIdentifier.from_public_key(keys[0].public_key())
    authority = begin(issuer, keys[0]).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    authority = authority.add_extension(signer, critical=False)
    (directory / "ca.pem").write_bytes(authority.sign(keys[0], hashes.SHA256()).public_bytes(pem))
    plain = keys[1].private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "leaf.key").write_bytes(plain)
    contexts = []
    for first in range(0, hosts, HOSTS_A_CERTIFICATE):
        numbers = range(first, min(first + HOSTS_A_CERTIFICATE, hosts))
        addresses = [x509.IPAddress(ip_address(host(number))) for number in numbers]
        leaf = begin(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"hosts from {first}")]), keys[1])
        leaf = leaf.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        named = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer)
        leaf = leaf.add_extension(named, critical=False)
        (directory / "leaf.pem").write_bytes(leaf.sign(keys[0], hashes.SHA256()).public_bytes(pem))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "leaf.pem", directory / "leaf.key")
        contexts.append(context)
    return contexts


async def _serve(web: _Web, *, tls: Sequence[ssl.SSLContext | None]) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    ports = []
    for context in tls:
        listener = socket.socket()
        # Listen on all addresses of the loopback interface.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        listener.bind(("0.0.0.0", 0))
        listener.listen(4096)
        await loop.create_server(lambda: _Answering(web), sock=listener, ssl=context)
        ports.append(str(listener.getsockname()[1]))
    sys.stdout.write(f"{' '.join(ports)}\n")
    sys.stdout.flush()
    while not stop.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_INTERVAL):
                await stop.wait()
        web.log.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve many hosts on loopback.")
    parser.add_argument("log", type=Path)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--pages", type=int, default=1, help="pages of each host")
    parser.add_argument("--latency", type=float, nargs=2, default=(0.0, 0.0), metavar=("LEAST", "MOST"))
    parser.add_argument("--median", type=float, help="median of log-normal latencies, in place of --latency")
    parser.add_argument("--tls", type=Path, metavar="DIRECTORY")
    options = parser.parse_args()
    least, most = options.latency
    if options.median is None:
        seconds = latencies(hosts=options.hosts, least=least, most=most)
    else:
        seconds = skewed_latencies(hosts=options.hosts, median=options.median)
    tls = [None] if options.tls is None else _certify(options.tls, hosts=options.hosts)
    with (
        closing(RequestLog(options.log)) as log,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        web = _Web(log, pages=options.pages, seconds=seconds)
        runner.run(_serve(web, tls=tls))


if __name__ == "__main__":
    main()
