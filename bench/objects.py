"""The objects and requests of the load: ConfigMaps of about 1.5 kB, and Pods."""

from __future__ import annotations

import json
import random
import time

NAMESPACE = "bench"
FAN_NAMESPACE = "fan"
AGENT = "kapi-bench"
STAMP = b'"stamp":"'
"""Precedes the time of writing, which each write puts into its object and watchers find again."""
STAMP_DIGITS = 18
ZERO_STAMP = "0" * STAMP_DIGITS

_NAME = "@name@"
_LABELS = {"app.kubernetes.io/name": "bench", "app.kubernetes.io/part-of": "load", "tier": "back"}


def _text(size: int) -> str:
    """Text that does not compress to nothing, the same in every run."""
    source = random.Random(20)
    return "".join(source.choices("abcdefghijklmnopqrstuvwxyz0123456789 ", k=size))


def _template(value: dict[str, object]) -> tuple[bytes, bytes, bytes]:
    """The three parts of an object around its name and its stamp, so that a body is one join."""
    encoded = json.dumps(value, separators=(",", ":")).encode()
    before, after = encoded.split(_NAME.encode(), 1)
    middle, end = after.split(ZERO_STAMP.encode(), 1)
    return before, middle, end


_CONFIG_MAP = _template(
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _NAME, "labels": _LABELS, "annotations": {"bench/note": _text(40)}},
        "data": {"stamp": ZERO_STAMP, **{f"key-{index}": _text(200) for index in range(6)}},
    }
)
_POD = _template(
    {
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
                    "env": [{"name": f"SETTING_{index}", "value": _text(20)} for index in range(4)],
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
)


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


def namespace(name: str) -> bytes:
    """A Namespace as JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()


def seeded(index: int) -> str:
    """The name of the object that seeding made as number `index`."""
    return f"seed-{index:06}"


def collection(of: str = NAMESPACE, resource: str = "configmaps") -> str:
    """The path of a collection."""
    return f"/api/v1/namespaces/{of}/{resource}"


def request(method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
    """A whole HTTP request."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {AGENT}\r\nAccept: application/json\r\n"
        f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
