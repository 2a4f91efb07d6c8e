"""Logs: one structured line per event, on standard error.

Nothing that logs is handed bodies, headers or tokens, so nothing secret can reach a log.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO, cast

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _StandardError:
    """Standard error as it is when something is written, not as it was when logging was set up."""

    def write(self, text: str) -> int:
        """Write."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """Flush."""
        sys.stderr.flush()


_STDERR = cast("TextIO", _StandardError())


def ensure_configured() -> None:
    """Where nobody has set up structlog, do: as it is by itself, but on standard error, and without values.

    By itself it prints the values of all variables with a traceback, if it finds a library that can. One of them may be
    a password. Whoever sets structlog up, before or after, has his way.
    """
    if structlog.is_configured():
        return
    *processors, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty() and os.name != "nt", exception_formatter=structlog.dev.plain_traceback
    )
    structlog.configure(
        processors=[*processors, renderer],
        logger_factory=structlog.PrintLoggerFactory(file=_STDERR),
        cache_logger_on_first_use=False,
    )


def configure(level: str) -> None:
    """Set up logging for a process; ValueError for a level that does not exist."""
    if level not in LEVELS:
        raise ValueError(f"--log-level {level!r}: expected one of {', '.join(LEVELS)}")
    # Modules that only ever report trouble use the standard logging module; it goes to the same place.
    logging.basicConfig(
        level=LEVELS[level],
        stream=_STDERR,
        format="timestamp='%(asctime)s' level='%(levelname)s' event='%(message)s' logger='%(name)s'",
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"], sort_keys=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(file=_STDERR),
        cache_logger_on_first_use=True,
    )
