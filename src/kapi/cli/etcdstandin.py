"""A process in the place of etcd, for programs that start one before kube-apiserver, such as envtest.

It holds nothing: the control plane keeps its objects by itself. It answers the health check on the client URLs that it
is given, as those programs wait for that, and ends at SIGTERM. Sockets alone, because a start should take as little
time as Python itself.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import sys
from typing import TYPE_CHECKING, Final

from kapi.cli.kubeapiserver import flags_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CLIENT_URL: Final = "http://localhost:2379"
_PAGES: Final = {
    "/health": b'{"health":"true","reason":""}',
    "/readyz": b"ok",
    "/livez": b"ok",
    "/version": b'{"etcdserver":"3.6.0","etcdcluster":"3.6.0"}',
}
_SECONDS: Final = 5.0
"""The time for one request."""


def listen(urls: Iterable[str]) -> list[socket.socket]:
    """Return sockets that listen on the hosts and ports of URLs."""
    listening = []
    for url in urls:
        host, _, port = url.partition("://")[2].rstrip("/").rpartition(":")
        listening.append(socket.create_server((host.strip("[]"), int(port))))
    return listening


def answer(connection: socket.socket) -> None:
    """Read one request and send its response."""
    connection.settimeout(_SECONDS)
    request = connection.recv(65536)
    words = request.split(b" ", 2)
    page = _PAGES.get(words[1].decode("ascii", "replace").partition("?")[0]) if len(words) > 1 else None
    status, body = ("200 OK", page) if page is not None else ("404 Not Found", b"404 page not found\n")
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    connection.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)


def main(arguments: Sequence[str]) -> int:
    """Answer until SIGTERM or SIGINT; returns the exit status."""
    urls = dict(flags_of(arguments)).get("listen-client-urls") or CLIENT_URL
    selector = selectors.DefaultSelector()
    ended, end = socket.socketpair()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.send(b"."))
    selector.register(ended, selectors.EVENT_READ)
    for listening in listen(urls.split(",")):
        selector.register(listening, selectors.EVENT_READ)
        sys.stdout.write("Listening on http://{}:{}\n".format(*listening.getsockname()[:2]))
    sys.stdout.flush()
    while True:
        ready = [key.fileobj for key, _ in selector.select()]
        if ended in ready:
            return 0
        for one in ready:
            assert isinstance(one, socket.socket)
            connection, _ = one.accept()
            with connection, contextlib.suppress(OSError):
                answer(connection)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
