"""lightkube on a custom kind it knows only by name: create, list, watch, patches, status, scale, apply, delete."""

import sys
from collections.abc import Callable
from pathlib import Path

from lightkube import ApiError, Client, codecs
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import Namespace
from lightkube.types import PatchType


def refusal(action: Callable[[], object]) -> ApiError:
    """The error of a call that must fail."""
    try:
        action()
    except ApiError as error:
        return error
    raise AssertionError("it was accepted")


namespace = sys.argv[1]
client = Client(namespace=namespace, field_manager="tests")
client.create(Namespace(metadata=ObjectMeta(name=namespace)))
(definition,) = codecs.load_all_yaml(Path(sys.argv[2]).read_text())
client.create(definition)
client.wait(CustomResourceDefinition, definition.metadata.name, for_conditions=["Established"])
print("established", definition.spec.names.kind)

Lamp = create_namespaced_resource("home.example.com", "v1", "Lamp", "lamps")
created = client.create(Lamp(metadata=ObjectMeta(name="a", labels={"floor": "1"}), spec={"room": "hall"}))
assert created.spec == {"room": "hall", "watts": 40, "bulbs": 1}, created.spec
print("created", created.metadata.name)
assert [item.metadata.name for item in client.list(Lamp, labels={"floor": "1"})] == ["a"]
assert list(client.list(Lamp, labels={"floor": "2"})) == []

client.patch(Lamp, "a", {"spec": {"watts": 60}}, patch_type=PatchType.MERGE)
patched = client.patch(Lamp, "a", [{"op": "remove", "path": "/spec/room"}], patch_type=PatchType.JSON)
assert patched.spec == {"watts": 60, "bulbs": 1}, patched.spec
status = client.patch(Lamp.Status, "a", {"status": {"lit": 1}}, patch_type=PatchType.MERGE)
assert status.status == {"lit": 1}, status
scale = client.get(Lamp.Scale, "a")
scale.spec.replicas = 3
assert client.replace(scale, "a").spec.replicas == 3
print("patched", dict(sorted(client.get(Lamp, "a").spec.items())))

error = refusal(lambda: client.replace(created))
print("conflict", error.status.reason)
error = refusal(lambda: client.patch(Lamp, "a", {"spec": {"watts": 1}}, patch_type=PatchType.STRATEGIC))
print("strategic", error.status.code)

applied = client.apply(Lamp(metadata=ObjectMeta(name="a"), spec={"room": "attic"}))
assert applied.spec == {"room": "attic", "watts": 60, "bulbs": 3}, applied.spec
print("applied", applied.spec["room"])

seen = []
for kind, item in client.watch(Lamp, resource_version=created.metadata.resourceVersion):
    seen.append(kind)
    if kind == "DELETED":
        break
    if len(seen) == 5:
        client.delete(Lamp, item.metadata.name)
print("watched", *seen)

name = definition.metadata.name
start = client.get(CustomResourceDefinition, name).metadata.resourceVersion
client.delete(CustomResourceDefinition, name)
for kind, _ in client.watch(CustomResourceDefinition, fields={"metadata.name": name}, resource_version=start):
    if kind == "DELETED":
        break
error = refusal(lambda: client.get(CustomResourceDefinition, name))
print("gone", error.status.code)
