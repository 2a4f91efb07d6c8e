"""kr8s on a custom kind of its own class: create, get by any name, watch, patches, status, scale, delete."""

import sys
from pathlib import Path

import kr8s
import yaml
from kr8s.objects import CustomResourceDefinition, Namespace, new_class

namespace = sys.argv[1]
Namespace({"metadata": {"name": namespace}}).create()
definition = CustomResourceDefinition(yaml.safe_load(Path(sys.argv[2]).read_text()))
definition.create()
definition.wait("condition=Established", timeout=20)
print("established", definition.spec.names.kind)

Lamp = new_class("Lamp", "home.example.com/v1", namespaced=True, scalable=True, scalable_spec="bulbs")
lamp = Lamp({"metadata": {"name": "a", "namespace": namespace, "labels": {"floor": "1"}}, "spec": {"room": "hall"}})
lamp.create()
assert dict(lamp.spec) == {"room": "hall", "watts": 40, "bulbs": 1}, lamp.spec
print("created", lamp.name)

start = lamp.metadata.resourceVersion
lamp.patch({"spec": {"watts": 60}})
lamp.patch([{"op": "remove", "path": "/spec/room"}], type="json")
lamp.patch({"status": {"lit": 1}}, subresource="status")
lamp.patch({"spec": {"replicas": 3}}, subresource="scale")
lamp.label({"more": "yes"})
lamp.refresh()
assert (dict(lamp.spec), dict(lamp.status)) == ({"watts": 60, "bulbs": 3}, {"lit": 1}), lamp.raw
print("patched", dict(sorted(lamp.spec.items())))

found = [item.name for item in kr8s.get("lamps", namespace=namespace, label_selector={"floor": "1"})]
assert found == ["a"], found
assert [item.name for item in kr8s.get("lamps.home.example.com", namespace=namespace)] == ["a"]

seen = []
for kind, item in kr8s.watch("lamps", namespace=namespace, since=start):
    seen.append(kind)
    if kind == "DELETED":
        break
    if len(seen) == 5:
        item.delete()
print("watched", *seen)

definition.delete()
definition.wait("delete", timeout=20)
try:
    lamp.refresh()
except kr8s.NotFoundError:
    print("gone 404")
