"""Logs: one structured line per event, on standard error.

Nothing that logs is handed bodies, headers or tokens, so nothing secret can reach a log.
"""

from __future__ import annotations

import logging
import sys

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str) -> None:
    """Set up logging for a process; ValueError for a level that does not exist."""
    if level not in LEVELS:
        raise ValueError(f"--log-level {level!r}: expected one of {', '.join(LEVELS)}")
    # Modules that only ever report trouble use the standard logging module; it goes to the same place.
    logging.basicConfig(
        level=LEVELS[level],
        stream=sys.stderr,
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
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
