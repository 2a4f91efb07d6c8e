"""kr8s: create, get, list, watch, patch, label, scale, delete."""

import sys

import kr8s
from kr8s.objects import ConfigMap, Deployment, Namespace

namespace = sys.argv[1]
api = kr8s.api()
print("server", api.version()["gitVersion"].split("+")[0])

Namespace({"metadata": {"name": namespace}}).create()
a = ConfigMap({"metadata": {"name": "a", "namespace": namespace, "labels": {"app": "x"}}, "data": {"k": "1"}})
a.create()
assert a.exists()
print("created", a.name)

start = a.metadata.resourceVersion
a.patch({"data": {"k": "2"}})
assert a.data.k == "2"
a.patch([{"op": "add", "path": "/data/l", "value": "3"}], type="json")
a.label({"more": "yes"})
a.annotate({"note": "n"})
a.refresh()
assert dict(a.data) == {"k": "2", "l": "3"}, a.data
assert dict(a.labels) == {"app": "x", "more": "yes"}, a.labels
print("patched", dict(a.data))

found = list(kr8s.get("configmaps", namespace=namespace, label_selector={"app": "x"}))
assert [item.name for item in found] == ["a"], found
assert list(kr8s.get("cm", namespace=namespace, field_selector={"metadata.name": "b"})) == []

deployment = Deployment(
    {
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    }
)
deployment.create()
deployment.patch({"spec": {"replicas": 2}}, subresource="scale")
deployment.refresh()
assert deployment.replicas == 2
print("scaled", deployment.replicas)

seen = []
for kind, item in api.watch("configmaps", namespace=namespace, label_selector={"app": "x"}, since=start):
    seen.append(kind)
    if kind == "DELETED":
        break
    if len(seen) == 4:
        item.delete()
assert seen == ["MODIFIED"] * 4 + ["DELETED"], seen
print("watched", *seen)

assert not a.exists()
try:
    a.refresh()
except kr8s.NotFoundError:
    print("gone 404")
