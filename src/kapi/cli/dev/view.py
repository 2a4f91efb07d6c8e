"""The views of `kapi dev`: a picture of the whole state in a terminal, and a line for each change elsewhere."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from kapi.api.duration import human_duration
from kapi.api.meta import parse_time
from kapi.cli.screen import Screen, printable, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kapi.api.meta import Object
    from kapi.cli.dev.report import Reconciled

_DRAW_SECONDS: Final = 0.1
_AGE_SECONDS: Final = 1.0
_KEPT: Final = 200
_FIELDS: Final = 4
_FIXED_LINES: Final = 12
"""The title, the heads of the tables, empty lines between them, and the last line, which stays empty."""


class View(Protocol):
    """Shows what happens. All methods return at once."""

    def state(self, text: str) -> None:
        """Show what the operator as a whole does: it starts, restarts, has exited."""
        ...

    def changed(self, obj: Object, *, is_deleted: bool) -> None:
        """Show an object that was added, changed or deleted."""
        ...

    def reconciled(self, report: Reconciled) -> None:
        """Show a reconcile that ended."""
        ...

    def queues(self, queued: dict[str, int]) -> None:
        """Show the number of keys in each queue."""
        ...

    def event(self, event: Object) -> None:
        """Show an Event."""
        ...

    def log(self, line: str) -> None:
        """Show a line that the operator wrote."""
        ...

    async def run(self) -> None:
        """Show changes until cancelled."""
        ...


class LineView:
    """A line for each change, on standard output; the operator's own lines go to standard error as they are."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str, str], str] = {}

    def state(self, text: str) -> None:
        """See `View`."""
        self._line("dev", text)

    def changed(self, obj: Object, *, is_deleted: bool) -> None:
        """See `View`. A change that the line would not show is left out."""
        key, status = _identity(obj), "deleted" if is_deleted else status_of(obj)
        if self._shown.get(key) != status:
            self._shown[key] = status
            self._line("object", f"{_named(*key)}  {status}")
        if is_deleted:
            self._shown.pop(key, None)

    def reconciled(self, report: Reconciled) -> None:
        """See `View`."""
        key = _named(report.controller, report.namespace, report.name)
        self._line("reconcile", f"{key}  {report.result}  {_milliseconds(report)}  queue {report.queued}")

    def queues(self, queued: dict[str, int]) -> None:
        """See `View`. Reconciles say it."""

    def event(self, event: Object) -> None:
        """See `View`."""
        kind, reason, about, note = _event_cells(event)
        self._line("event", f"{about}  {kind} {reason}: {note}")

    def log(self, line: str) -> None:
        """See `View`."""
        sys.stderr.write(f"{line}\n")

    async def run(self) -> None:
        """See `View`. Nothing is left to do here."""
        await asyncio.Event().wait()

    def _line(self, what: str, text: str) -> None:
        sys.stdout.write(f"{what:<9}  {printable(text)}\n")
        sys.stdout.flush()


@dataclass(slots=True)
class _Controller:
    queued: int = 0
    reconciles: int = 0
    errors: int = 0


class ScreenView:
    """The whole state as a picture, drawn again when something has changed."""

    def __init__(self, screen: Screen, title: str) -> None:
        self._screen = screen
        self._title = title
        self._state = "starting"
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._controllers: dict[str, _Controller] = {}
        self._reconciles: deque[tuple[str, ...]] = deque(maxlen=_KEPT)
        self._events: deque[tuple[str, ...]] = deque(maxlen=_KEPT)
        self._log: deque[str] = deque(maxlen=_KEPT)
        self._news = asyncio.Event()

    def state(self, text: str) -> None:
        """See `View`."""
        self._state = text
        self._news.set()

    def changed(self, obj: Object, *, is_deleted: bool) -> None:
        """See `View`."""
        if is_deleted:
            self._objects.pop(_identity(obj), None)
        else:
            self._objects[_identity(obj)] = obj
        self._news.set()

    def reconciled(self, report: Reconciled) -> None:
        """See `View`."""
        controller = self._controllers.setdefault(report.controller, _Controller())
        controller.queued = report.queued
        controller.reconciles += 1
        controller.errors += not report.is_ok
        key = f"{report.namespace}/{report.name}".lstrip("/")
        self._reconciles.append((_clock(), report.controller, key, _milliseconds(report), report.result))
        self._news.set()

    def queues(self, queued: dict[str, int]) -> None:
        """See `View`."""
        for name, number in queued.items():
            self._controllers.setdefault(name, _Controller()).queued = number
        self._news.set()

    def event(self, event: Object) -> None:
        """See `View`."""
        self._events.append((_clock(), *_event_cells(event)))
        self._news.set()

    def log(self, line: str) -> None:
        """See `View`."""
        self._log.append(line)
        self._news.set()

    async def run(self) -> None:
        """See `View`. Ages are drawn again each second."""
        while True:
            self._news.clear()
            self._screen.draw(self.lines(self._screen.size.lines))
            await asyncio.sleep(_DRAW_SECONDS)
            await asyncio.wait(
                [waiting := asyncio.ensure_future(self._news.wait())], timeout=_AGE_SECONDS - _DRAW_SECONDS
            )
            waiting.cancel()

    def lines(self, height: int) -> Iterator[str]:
        """Return the picture. Sections that need few lines leave theirs to the others."""
        controllers = [
            (name, str(one.queued), str(one.reconciles), str(one.errors))
            for name, one in sorted(self._controllers.items())
        ]
        # Objects that others own come last: the kinds of the project are what the operator is about.
        found = sorted(
            self._objects.items(), key=lambda item: (bool(item[1]["metadata"].get("ownerReferences")), item[0])
        )
        objects = [(kind, namespace, name, _age(obj), status_of(obj)) for (kind, namespace, name), obj in found]
        wanted = [len(one) for one in (objects, self._reconciles, self._events, self._log)]
        shown, reconciles, events, log = fair_shares(wanted, height - len(controllers) - _FIXED_LINES)
        hidden = len(objects) - shown
        yield self._title
        yield f"Operator: {printable(self._state)}. Ctrl-C stops and deletes everything."
        yield ""
        yield from table([("KIND", "NAMESPACE", "NAME", "AGE", "STATUS"), *objects[:shown]])
        yield f"... and {hidden} more" if hidden > 0 else ""
        yield from table([("CONTROLLER", "QUEUE", "RECONCILES", "ERRORS"), *controllers])
        yield ""
        yield from table([("TIME", "CONTROLLER", "OBJECT", "TOOK", "RESULT"), *_last(self._reconciles, reconciles)])
        yield ""
        yield from table([("TIME", "EVENT", "REASON", "OBJECT", "NOTE"), *_last(self._events, events)])
        yield ""
        yield from (printable(line) for line in _last(self._log, log))


def fair_shares(wanted: Sequence[int], available: int) -> list[int]:
    """Divide lines among sections: each gets what it wants, or as much as any other; at least two if it wants them."""
    shares = [min(2, one) for one in wanted]
    while sum(shares) < available:
        # A line for the section that has fewest and wants more, until there are no lines or no wishes left.
        open_sections = [number for number, one in enumerate(wanted) if shares[number] < one]
        if not open_sections:
            break
        shares[min(open_sections, key=lambda number: shares[number])] += 1
    return shares


def view_for(title: str, screen: Screen | None) -> View:
    """The view on a screen, or as lines."""
    if screen is not None:
        return ScreenView(screen, title)
    view = LineView()
    view.state(title)
    return view


def status_of(obj: Object) -> str:
    """The status of an object in a few words: its conditions, or its phase, or the first fields."""
    status = obj.get("status")
    ending = ["Terminating"] if obj["metadata"].get("deletionTimestamp") else []
    if not isinstance(status, dict):
        return " ".join(ending) or "-"
    conditions = [one for one in status.get("conditions") or [] if isinstance(one, dict)]
    if conditions:
        shown = [_condition(one) for one in conditions]
    elif isinstance(status.get("phase"), str):
        shown = [status["phase"]]
    else:
        plain = {key: value for key, value in status.items() if not isinstance(value, dict | list)}
        shown = [f"{key}={value}" for key, value in list(plain.items())[:_FIELDS]]
    return " ".join([*ending, *shown]) or "-"


def _condition(condition: dict[str, Any]) -> str:
    text = f"{condition.get('type')}={condition.get('status')}"
    return text if condition.get("status") == "True" else f"{text} ({condition.get('reason') or 'no reason'})"


def _event_cells(event: Object) -> tuple[str, str, str, str]:
    about = event.get("regarding") or {}
    key = _named(about.get("kind", ""), about.get("namespace", ""), about.get("name", ""))
    return event.get("type") or "", event.get("reason") or "", key, event.get("note") or ""


def _identity(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace") or "", metadata["name"]


def _named(kind: str, namespace: str, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def _milliseconds(report: Reconciled) -> str:
    return f"{report.seconds * 1000:.0f} ms"


def _age(obj: Object) -> str:
    created = parse_time(obj["metadata"].get("creationTimestamp") or "")
    return human_duration((dt.datetime.now(dt.UTC) - created).total_seconds()) if created else ""


def _clock() -> str:
    return dt.datetime.now().astimezone().strftime("%H:%M:%S")


def _last(kept: deque[Any], number: int) -> list[Any]:
    return list(kept)[len(kept) - number :]
