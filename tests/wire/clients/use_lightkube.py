"""lightkube: create, get, list, watch, patch, replace, scale, delete."""

import sys
from collections.abc import Callable

from lightkube import ApiError, Client
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import PatchType


def refusal(action: Callable[[], object]) -> ApiError:
    """The error of a call that must fail."""
    try:
        action()
    except ApiError as error:
        return error
    raise AssertionError("it was accepted")


namespace = sys.argv[1]
client = Client(namespace=namespace)
client.create(Namespace(metadata=ObjectMeta(name=namespace)))

created = client.create(ConfigMap(metadata=ObjectMeta(name="a", labels={"app": "x"}), data={"k": "1"}))
print("created", created.metadata.name)
assert client.get(ConfigMap, "a").data == {"k": "1"}
assert [item.metadata.name for item in client.list(ConfigMap, labels={"app": "x"})] == ["a"]
assert list(client.list(ConfigMap, labels={"app": "y"})) == []

patched = client.patch(ConfigMap, "a", {"data": {"k": "2"}}, patch_type=PatchType.STRATEGIC)
patched = client.patch(ConfigMap, "a", {"data": {"l": "3"}}, patch_type=PatchType.MERGE)
patched = client.patch(ConfigMap, "a", [{"op": "test", "path": "/data/k", "value": "2"}], patch_type=PatchType.JSON)
assert patched.data == {"k": "2", "l": "3"}, patched.data
print("patched", patched.data)

error = refusal(lambda: client.replace(created))
assert error.status.code == 409, error
print("conflict", error.status.reason)

labels = {"app": "web"}
client.create(
    Deployment(
        metadata=ObjectMeta(name="web"),
        spec=DeploymentSpec(
            selector=LabelSelector(matchLabels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="web", image="nginx")])
            ),
        ),
    )
)
scale = client.get(Deployment.Scale, "web")
scale.spec.replicas = 4
assert client.replace(scale, "web").spec.replicas == 4
print("scaled", client.get(Deployment, "web").spec.replicas)

seen = []
for kind, item in client.watch(ConfigMap, resource_version=created.metadata.resourceVersion):
    seen.append(kind)
    if kind == "DELETED":
        break
    if seen == ["MODIFIED", "MODIFIED"]:
        client.delete(ConfigMap, item.metadata.name)
assert seen == ["MODIFIED", "MODIFIED", "DELETED"], seen
print("watched", *seen)

error = refusal(lambda: client.get(ConfigMap, "a"))
assert error.status.code == 404, error
print("gone", error.status.code)
