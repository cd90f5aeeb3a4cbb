"""
The limits that keep one web site from costing a crawl more than its share.

Every number is a setting of a connection; the defaults are what a public crawl wants. Durations are
seconds, sizes are bytes.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    # Of the text that comes out of every decompression, and of what comes over the wire.
    body_bytes: int = 20 * 1024 * 1024
    # From the first look at the name to the last byte of the body.
    request_seconds: float = 60.0
    # Seconds of all requests of a document together, also those for robots.txt, a login, and redirects.
    document_seconds: float = 120.0
    # A body that has had `least_rate_after` seconds must have come at this many bytes a second.
    least_rate: int = 1024
    least_rate_after: float = 10.0
    # Of one header line, name and value together.
    header_bytes: int = 32 * 1024
    headers: int = 256
    redirects: int = 10

    url_characters: int = 2083
    path_segments: int = 20

    # RFC 9309 asks for 500 KiB and five hops at least; what is cached may be used for a day.
    robots_bytes: int = 500 * 1024
    robots_redirects: int = 5
    robots_seconds: float = 24 * 3600.0
    # A larger Crawl-delay is taken as this much: a site may slow us, not park us.
    crawl_delay: float = 60.0

    # The waits before another attempt at what may pass by itself; after them the document fails.
    retry_delays: tuple[float, ...] = (1.0, 5.0)
    # A document whose host says 429 or 503 is asked for so often in all; a Retry-After holds up to this long.
    back_off_attempts: int = 5
    longest_retry_after: float = 24 * 3600.0


DEFAULT_LIMITS = Limits()
