"""How crawlctl logs: one event a line, control characters escaped, to stderr."""

import logging
import sys

import structlog

from crawlctl.log_handler import LogHandler


def configure(*, level: str, as_json: bool) -> None:
    """Send every logger of the process through one structlog renderer."""
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.PositionalArgumentsFormatter(),
    ]
    renderer = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _escape_control_characters,
            renderer,
        ],
    )
    handler = LogHandler()
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _escape_control_characters(
    _logger: object, _name: str, event: structlog.types.EventDict
) -> structlog.types.EventDict:
    # A URL with a line break in it must not be able to write a log line of its own.
    message = str(event.get("event", ""))
    event["event"] = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    return event
