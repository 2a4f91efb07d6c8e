"""The profile pages of a manager: `/debug/profile`, `/debug/tasks`, `/debug/threads`, `/debug/memory`.

They are for the people who run the process, so they are off unless an address is given, and that must be a loopback
address: only programs on the same machine, and users who may forward a port to the Pod, reach it. controller-runtime
leaves that to the network; we do not, because stacks tell more about a program than metrics do. One profile is made at
a time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from typing import TYPE_CHECKING, Final

from kapi.base.webhandler import Limits, Response

if TYPE_CHECKING:
    from kapi.base.webhandler import Request

DEFAULT_SECONDS: Final = 10.0
MAX_SECONDS: Final = 60.0
LIMITS: Final = Limits(body_bytes=0, connections=8, answer=MAX_SECONDS + 30.0)

_INDEX: Final = f"""\
/debug/profile?seconds={DEFAULT_SECONDS:g}  CPU time by stack, in microseconds: for flame graphs and speedscope
/debug/tasks                what the tasks of the event loop wait for
/debug/threads              the stacks of all threads
/debug/memory               the size of the process, objects by type, and allocations if tracemalloc was started
"""


def checked_address(address: tuple[str, int] | None) -> tuple[str, int] | None:
    """Return the address of profile pages; ValueError for one that other machines reach."""
    if address is None or address[0] == "localhost":
        return address
    try:
        is_loopback = ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ValueError(
            f"profile pages at {address[0]!r}: expected a loopback address, such as 127.0.0.1; "
            "`kubectl port-forward` reaches it in a Pod"
        )
    return address


class ProfilePages:
    """Answers requests for profiles."""

    def __init__(self) -> None:
        self._is_profiling = False

    async def all(self, request: Request) -> Response:
        """Answer a request for any page."""
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"method not allowed\n")
        from kapi.controller.manager import profile

        match request.path:
            case "/debug/tasks":
                return _text(profile.tasks())
            case "/debug/threads":
                return _text(profile.threads())
            case "/debug/profile" | "/debug/memory":
                return await self._exclusive(request)
            case "/debug" | "/debug/":
                return _text(_INDEX)
        return Response(404, b"page not found\n")

    async def _exclusive(self, request: Request) -> Response:
        seconds = _seconds(request.query.get("seconds", ""))
        if seconds is None:
            return Response(400, f"seconds: expected a number from 0.1 to {MAX_SECONDS:g}\n".encode())
        if self._is_profiling:
            return Response(409, b"another profile is being made\n")
        self._is_profiling = True
        try:
            return _text(await (_memory() if request.path == "/debug/memory" else _cpu(seconds)))
        finally:
            self._is_profiling = False


async def _memory() -> str:
    from kapi.controller.manager import profile

    return await asyncio.to_thread(profile.memory)


async def _cpu(seconds: float) -> str:
    from kapi.controller.manager import profile

    cpu = profile.CPUProfile()
    cpu.start()
    try:
        await asyncio.sleep(seconds)
    finally:
        await asyncio.to_thread(cpu.stop)
    return cpu.text()


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text or DEFAULT_SECONDS)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0.1 <= seconds <= MAX_SECONDS else None


def _text(text: str) -> Response:
    return Response(200, text.encode(errors="replace"))
