"""
The limits of the cost that one web site can cause.

Every number is a setting of a connection. The defaults suit a public crawl. Durations are seconds, sizes are bytes.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    # Largest size of the decompressed text, and of the body on the wire (bytes).
    body_bytes: int = 20 * 1024 * 1024
    # Longest time from the name look-up to the last byte of the body (seconds).
    request_seconds: float = 60.0
    # Longest time of all requests of a document together, including requests for robots.txt, a login, and redirects
    # (seconds).
    document_seconds: float = 120.0
    # Minimum average rate of a body (bytes a second), once it has taken `least_rate_after` seconds.
    least_rate: int = 1024
    least_rate_after: float = 10.0
    # Largest size of one header line, name and value together (bytes).
    header_bytes: int = 32 * 1024
    headers: int = 256
    redirects: int = 10

    url_characters: int = 2083
    path_segments: int = 20

    # RFC 9309 requires at least 500 KiB and five hops. A cached answer may be used for a day.
    robots_bytes: int = 500 * 1024
    robots_redirects: int = 5
    robots_seconds: float = 24 * 3600.0
    # Highest Crawl-delay that is applied (seconds): a site may slow the crawler, not stop it.
    crawl_delay: float = 60.0

    # Pauses before further attempts after a passing failure (seconds). After them the document fails.
    retry_delays: tuple[float, ...] = (1.0, 5.0)
    # Largest number of attempts at a document whose host answers 429 or 503, and the longest Retry-After that is
    # applied (seconds).
    back_off_attempts: int = 5
    longest_retry_after: float = 24 * 3600.0


DEFAULT_LIMITS = Limits()
