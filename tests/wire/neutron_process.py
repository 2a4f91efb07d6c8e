"""A Neutron server of our own for the wire tests, and a proxy in front of it that fails when it is told to."""

from __future__ import annotations

import contextlib
import http.client
import re
import selectors
import socket
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Self

from peers import PEERS, peer

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).parent / "neutron" / "server.py"
START_SECONDS = 300
SECONDS = 300
"""After which something that must happen is taken to have failed. A guard, not a measurement."""


class NeutronServer:
    """Neutron on a directory; started again it has the same port and the same networks."""

    def __init__(self, directory: Path, *, quota: int = -1) -> None:
        self._directory = directory
        self._quota = quota
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        python = peer(PEERS / "neutron/bin/python", "neutron")
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / "log").open("a") as log:
            self._process = subprocess.Popen(
                [python, "-W", "ignore", PROGRAM, self._directory, str(self.port), str(self._quota)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            line = self._process.stdout.readline() if selector.select(START_SECONDS) else ""
        found = re.fullmatch(r"neutron \S+ at (\d+)\n", line)
        if found is None:
            self.kill()
            raise AssertionError(f"Neutron said {line!r}; its errors:\n{(self._directory / 'log').read_text()[-3000:]}")
        self.port = int(found[1])
        return self

    def kill(self) -> None:
        """End it as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:
                process.wait()


@dataclass(eq=False)
class Fault:
    """What happens to the next requests of a method to a path.

    `answer` is sent in place of Neutron's. `hold` keeps the request (`before`) or the answer (`after`) until `release`; the
    request of a client that has gone meanwhile is carried out all the same. `drop` closes the connection without an answer.
    """

    method: str
    path: str
    answer: tuple[int, dict[str, str], bytes] | None = None
    hold: str = ""
    drop: bool = False
    times: int = 1
    reached: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self._released.set()

    def wait_until_reached(self) -> None:
        assert self.reached.wait(SECONDS), f"no {self.method} of {self.path} came"

    def block(self, when: str) -> None:
        if self.hold == when:
            self.reached.set()
            assert self._released.wait(SECONDS), f"{self.method} {self.path} was not released"


class Proxy:
    """Forwards requests to Neutron, but for those that a fault is for."""

    def __init__(self, neutron: NeutronServer) -> None:
        self.neutron = neutron
        self.requests: list[str] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                # A client that was killed is not an error here.
                try:
                    super().handle_one_request()
                except ConnectionError:
                    self.close_connection = True

            def __getattr__(self, name: str) -> object:
                if name.startswith("do_"):
                    return lambda: proxy.handle(self)
                raise AttributeError(name)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fault(self, method: str, path: str, **what: object) -> Fault:
        """Add a fault; the first that is for a request, and has not been used up, happens to it."""
        fault = Fault(method, path, **what)
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Let everything through from now on, also what is held."""
        with self._lock:
            faults, self._faults = self._faults, []
        for fault in faults:
            fault.release()

    def _next_fault(self, method: str, path: str) -> Fault:
        with self._lock:
            self.requests.append(f"{method} {path}")
            for fault in self._faults:
                if fault.times and fault.method in (method, "*") and re.match(fault.path, path):
                    fault.times -= 1
                    return fault
        return Fault(method, path)

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        fault = self._next_fault(handler.command, handler.path)
        fault.block("before")
        if fault.drop:
            fault.reached.set()
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, content = fault.answer or self._forward(handler, body)
        fault.block("after")
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        with contextlib.suppress(ConnectionError):
            handler.wfile.write(content)
        fault.reached.set()

    def _forward(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        kept = {name: value for name, value in handler.headers.items() if name.lower() not in ("host", "connection")}
        connection = http.client.HTTPConnection("127.0.0.1", self.neutron.port, timeout=SECONDS)
        try:
            connection.request(handler.command, handler.path, body or None, kept)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            # Neutron is not there: what a load balancer says then.
            return 502, {}, b"bad gateway"
        finally:
            connection.close()
        # The document that tells the versions names the address it was asked at, which is Neutron's own.
        content = content.replace(self.neutron.url.encode(), self.url.encode())
        return answer.status, {"Content-Type": answer.headers.get("Content-Type", "text/plain")}, content


@contextlib.contextmanager
def proxied(neutron: NeutronServer) -> Iterator[Proxy]:
    """A proxy for the length of a block."""
    with Proxy(neutron) as proxy:
        yield proxy
