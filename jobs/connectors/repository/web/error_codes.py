"""The result codes of requests that got no complete response."""

import errno
import ssl

import aiohttp
from aiohttp.http import HttpProcessingError


class AddressForbidden(OSError):
    """Raised in place of a socket. The text names no address, so that errors of several addresses count as one."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "the address is not public")


def code_of(error: Exception) -> tuple[str, str]:
    """Return the result code of an aiohttp exception, and a phrase."""
    match error:
        case aiohttp.ClientConnectorDNSError() | aiohttp.InvalidURL():
            return "DNS", "the name has no address"
        case aiohttp.ClientSSLError() | ssl.SSLError() | ssl.CertificateError():
            return "TLS", str(error)
        case aiohttp.ClientConnectorError():
            return _code_of_connecting(error.os_error)
        case aiohttp.ClientPayloadError():
            return "INCOMPLETE", "the body ended early"
        case HttpProcessingError():
            return "PROTOCOL", error.message
        case aiohttp.ServerDisconnectedError():
            return "RESET", "the connection was closed before a response"
        case OSError(errno=errno.ETIMEDOUT):
            return "DEADLINE", "the connection timed out"
        case OSError() | aiohttp.ClientConnectionError():
            return "RESET", str(error)
        case _:
            return "PROTOCOL", str(error)


def _code_of_connecting(error: OSError) -> tuple[str, str]:
    match error:
        case AddressForbidden():
            return "ADDRESS_FORBIDDEN", "the address is not public"
        case TimeoutError():
            return "DEADLINE", "no answer to the connection"
        case ConnectionResetError():
            return "RESET", "reset while connecting"
        case ssl.SSLError():
            return "TLS", str(error)
        case _:
            return "REFUSED", error.strerror or str(error)
