"""The smallest ASGI application that answers like a get: one fixed body of the size of an object."""

from __future__ import annotations

from typing import Any

BODY = b"{" + b" " * 1700 + b"}"
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())],
}
END = {"type": "http.response.body", "body": BODY}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer anything."""
    if scope["type"] == "http":
        await send(START)
        await send(END)
