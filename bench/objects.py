"""The objects and requests of the load: ConfigMaps of about 1.5 kB, and Pods."""

from __future__ import annotations

import json
import random
import time

NAMESPACE = "bench"
FAN_NAMESPACE = "fan"
AGENT = "kapi-bench"
JSON = "application/json"
STAMP = b'"stamp":"'
"""Precedes the time of writing, which each write puts into its object and watchers find again."""
STAMP_DIGITS = 18
ZERO_STAMP = "0" * STAMP_DIGITS
SEEDED = "seed-"
"""The prefix of the names of objects that exist before a row is measured."""

TYPICAL_SETTINGS = 6
"""Environment variables in each container that make a Pod, as it is stored, one of 4 kB."""

_NAME = "@name@"
_LABELS = {"app.kubernetes.io/name": "bench", "app.kubernetes.io/part-of": "load", "tier": "back"}


def _text(size: int) -> str:
    """Text that does not compress to nothing, the same in every run."""
    source = random.Random(20)
    return "".join(source.choices("abcdefghijklmnopqrstuvwxyz0123456789 ", k=size))


def template(value: dict[str, object], *placeholders: str) -> tuple[bytes, ...]:
    """The parts of an object around texts in it that are to be filled in, in order, so that a body is one join."""
    rest = json.dumps(value, separators=(",", ":")).encode()
    parts = []
    for placeholder in placeholders:
        part, rest = rest.split(placeholder.encode(), 1)
        parts.append(part)
    return (*parts, rest)


_CONFIG_MAP = template(
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _NAME, "labels": _LABELS, "annotations": {"bench/note": _text(40)}},
        "data": {"stamp": ZERO_STAMP, **{f"key-{index}": _text(200) for index in range(6)}},
    },
    _NAME,
    ZERO_STAMP,
)


def _pod(settings: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _NAME, "labels": _LABELS, "annotations": {"stamp": ZERO_STAMP}},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": name,
                    "image": f"registry.example/{name}:1.0",
                    "command": ["/bin/serve", "--port", "8080"],
                    "env": [{"name": f"SETTING_{index}", "value": _text(20)} for index in range(settings)],
                    "ports": [{"containerPort": 8080, "name": f"{name}-http"}],
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "64Mi"},
                        "limits": {"cpu": "1", "memory": "256Mi"},
                    },
                }
                for name in ("main", "sidecar")
            ],
            "nodeSelector": {"kubernetes.io/os": "linux"},
        },
    }


_POD = template(_pod(4), _NAME, ZERO_STAMP)
_TYPICAL_POD = template(_pod(TYPICAL_SETTINGS), _NAME, ZERO_STAMP)


def stamp() -> str:
    """Now, on the clock that all processes of a machine share."""
    return f"{time.monotonic_ns():0{STAMP_DIGITS}}"


def config_map(name: str, stamp: str = ZERO_STAMP) -> bytes:
    """A ConfigMap as JSON."""
    before, middle, end = _CONFIG_MAP
    return b"".join((before, name.encode(), middle, stamp.encode(), end))


def pod(name: str) -> bytes:
    """A Pod as JSON."""
    before, middle, end = _POD
    return b"".join((before, name.encode(), middle, ZERO_STAMP.encode(), end))


def typical_pod(name: str) -> bytes:
    """A Pod as JSON that is 4 kB when it is stored."""
    before, middle, end = _TYPICAL_POD
    return b"".join((before, name.encode(), middle, ZERO_STAMP.encode(), end))


def namespace(name: str) -> bytes:
    """A Namespace as JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()


def seeded(index: int) -> str:
    """The name of the object that seeding made as number `index`."""
    return f"{SEEDED}{index:06}"


def collection(of: str = NAMESPACE, resource: str = "configmaps") -> str:
    """The path of a collection."""
    return f"/api/v1/namespaces/{of}/{resource}"


def request(method: str, path: str, body: bytes = b"", media: str = JSON, accept: str = JSON) -> bytes:
    """A whole HTTP request."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {AGENT}\r\nAccept: {accept}\r\n"
        f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
