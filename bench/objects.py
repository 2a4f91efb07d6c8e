"""The objects and requests of the load: ConfigMaps of about 1.5 kB, and Pods."""

from __future__ import annotations

import functools
import json
import random
import time

NAMESPACE = "bench"
FAN_NAMESPACE = "fan"
QUOTA_NAMESPACE = "limited"
POLICY_NAMESPACE = "guarded"
WEBHOOK_NAMESPACE = "hooked"
REFUSED = "refused"
"""The name that one of the policies refuses."""
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


@functools.cache
def _sized(size: int) -> tuple[bytes, ...]:
    data = {"stamp": ZERO_STAMP, **{f"key-{index}": _text(1000) for index in range(size // 1000)}}
    kind: dict[str, object] = {"apiVersion": "v1", "kind": "ConfigMap"}
    return template({**kind, "metadata": {"name": _NAME}, "data": data}, _NAME, ZERO_STAMP)


def sized_config_map(size: int, name: str, stamp: str = ZERO_STAMP) -> bytes:
    """A ConfigMap of about so many bytes as JSON."""
    before, middle, end = _sized(size)
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


def quota(name: str) -> bytes:
    """A ResourceQuota of more ConfigMaps than are created, as JSON; its status has nothing used."""
    hard = {"count/configmaps": "1000000000"}
    kind = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}}
    return json.dumps(
        {**kind, "spec": {"hard": hard}, "status": {"hard": hard, "used": {"count/configmaps": "0"}}}
    ).encode()


_VALIDATIONS = (
    f"object.metadata.name != '{REFUSED}'",
    "object.metadata.labels['tier'] in ['front', 'back']",
    "object.data.size() <= 20",
    "object.data.all(key, key.matches('^[a-z0-9.-]+$'))",
    "!has(object.immutable) || object.immutable == false",
    "request.operation != 'CREATE' || oldObject == null",
    "object.metadata.?annotations.orValue({}).size() < 10",
    "namespaceObject.metadata.name == object.metadata.namespace",
    "variables.labels.exists(key, key.startsWith('app.kubernetes.io/'))",
    "variables.labels.all(key, variables.labels[key].size() < 63)",
)


def policies() -> list[bytes]:
    """Ten ValidatingAdmissionPolicies for the ConfigMaps of one namespace, as JSON, each followed by its binding."""
    rule = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": POLICY_NAMESPACE}}
    made: list[object] = []
    for number, expression in enumerate(_VALIDATIONS):
        metadata = {"name": f"bench-{number}"}
        spec = {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector},
            "variables": [{"name": "labels", "expression": "object.metadata.?labels.orValue({})"}],
            "validations": [{"expression": expression}],
        }
        bound = {"policyName": metadata["name"], "validationActions": ["Deny"]}
        made += [{"metadata": metadata, "spec": spec}, {"metadata": metadata, "spec": bound}]
    return [json.dumps(one).encode() for one in made]


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
