"""Objects as a cache has them, and the events made of them."""

import msgspec

from kapi.controller.event import Created, Deleted, Updated
from kapi.informer.cached import Intake


class Decoding:
    """Decodes to dictionaries, and counts how often it was asked to."""

    def __init__(self):
        self.count = 0

    def __call__(self, raw):
        self.count += 1
        return msgspec.json.decode(raw)


DECODING = Decoding()
INTAKE = Intake(DECODING)


def cached(name="a", namespace="default", **metadata):
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"} | metadata
    spec = metadata.pop("spec", {})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "spec": spec}
    return INTAKE.cached(msgspec.json.encode(body))


def created(initial=False, **metadata):
    return Created(cached(**metadata), initial)


def updated(old=None, new=None):
    return Updated(cached(**(old or {})), cached(**({"resourceVersion": "2"} | (new or {}))))


def deleted(stale=False, **metadata):
    return Deleted(cached(**metadata), stale)
