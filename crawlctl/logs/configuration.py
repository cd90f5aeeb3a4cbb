"""The log of crawlctl: one event a line, control characters escaped, to stderr."""

import logging
import sys
import threading
from types import TracebackType
from typing import Final

import structlog

from crawlctl.logs.handler import LogHandler
from nodes.life.log_facts import known_facts

# Facts that a line may have in addition to its sentence.
_FACTS: Final = ("job", "run", "document", "host")

_logger: Final = logging.getLogger("crawlctl")


def configure(*, level: str, as_json: bool) -> None:
    """
    Send every logger of the process through one structlog renderer. With `as_json`, include warnings and unexpected
    errors.
    """
    shared: list[structlog.types.Processor] = [
        _add_known_facts,
        structlog.stdlib.ExtraAdder(allow=_FACTS),
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
    if as_json:
        logging.captureWarnings(capture=True)
        sys.excepthook = _log_unexpected
        threading.excepthook = lambda ended: _log_unexpected(ended.exc_type, ended.exc_value, ended.exc_traceback)


def _log_unexpected(kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None) -> None:
    """Log an exception that Python would print as a traceback of many lines."""
    if error is not None and not issubclass(kind, SystemExit | KeyboardInterrupt):
        _logger.critical("ended by an unexpected error", exc_info=(kind, error, traceback))


def _add_known_facts(_logger: object, _name: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Add the node and the current job, document and host. Values of the line itself take precedence."""
    return {**known_facts(), **event}


def _escape_control_characters(
    _logger: object, _name: str, event: structlog.types.EventDict
) -> structlog.types.EventDict:
    # A URL with a line break in it must not write a separate log line.
    for name in ("event", *_FACTS):
        if isinstance(value := event.get(name), str):
            event[name] = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
    return event
