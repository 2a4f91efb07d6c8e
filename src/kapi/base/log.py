"""Logs: one line per event on standard error, in one format for server, client, informers and controllers.

As text a line is `timestamp level logger event key=value …`, as JSON an object with the same keys. A traceback follows
its line in text, and is a value in JSON. Modules log through structlog or through the standard logging module; both end
in the same handler. Nothing that logs is handed bodies, headers or tokens, so no secret can reach a log.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMATS: Final = ("text", "json")


class _StandardError:
    """Standard error as it is when something is written, not as it was when logging was configured."""

    def write(self, text: str) -> int:
        """Write."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """Flush."""
        sys.stderr.flush()


_STDERR = cast("TextIO", _StandardError())


class _Handler(logging.StreamHandler[TextIO]):
    """The handler that `configure` adds, and replaces when it is called again; handlers of the program stay."""


def ensure_configured() -> None:
    """Configure the logs of a program that did not: at level info, as text on standard error.

    A configuration that the program makes, before or after, takes precedence. Where it set up the standard library's
    logging only, structlog keeps its own format, without values of variables: by default it prints those of all
    variables with a traceback, if it finds a library that can, and one of them may be a password.
    """
    if structlog.is_configured():
        return
    if not logging.getLogger().handlers:
        configure("info", is_final=False)
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


def configure(level: str, form: str = "text", *, is_final: bool = True) -> None:
    """Configure the logs of this process; ValueError for a level or format that does not exist.

    Unless `is_final`, loggers that were used already follow a later configuration, at a small cost for each line.
    """
    if level not in LEVELS:
        raise ValueError(f"--log-level {level!r}: expected one of {', '.join(LEVELS)}")
    if form not in FORMATS:
        raise ValueError(f"--log-format {form!r}: expected one of {', '.join(FORMATS)}")
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    render: Processor = _render_text if form == "text" else structlog.processors.JSONRenderer(default=str)
    handler = _Handler(_STDERR)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [*(one for one in root.handlers if not isinstance(one, _Handler)), handler]
    root.setLevel(LEVELS[level])
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=is_final,
    )


def _render_text(_: Any, __: str, event: EventDict) -> str:
    """Return one line; values with spaces, quotes or line breaks in them are quoted."""
    head = (event.pop("timestamp"), event.pop("level").upper(), event.pop("logger", "root"), str(event.pop("event")))
    traceback = event.pop("exception", "")
    fields = [f"{key}={_quoted(value)}" for key, value in event.items()]
    line = " ".join([*head[:3], head[3].replace("\n", "\\n"), *fields])
    return f"{line}\n{traceback}" if traceback else line


def _quoted(value: object) -> str:
    text = str(value)
    if text and not any(character in ' "=\n' for character in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
