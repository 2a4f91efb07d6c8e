"""The official client: create, read, list, watch, patch in three ways, replace, conflict, delete."""

import sys
from collections.abc import Callable

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient


def refusal(action: Callable[[], object]) -> ApiException:
    """The error of a call that must fail."""
    try:
        action()
    except ApiException as error:
        return error
    raise AssertionError("it was accepted")


namespace = sys.argv[1]
config.load_kube_config()
core, apps = client.CoreV1Api(), client.AppsV1Api()

core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
created = core.create_namespaced_config_map(
    namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a", labels={"app": "x"}), data={"k": "1"})
)
assert created.metadata.uid
assert created.metadata.creation_timestamp.tzinfo is not None
print("created", created.metadata.name)

listed = core.list_namespaced_config_map(namespace, label_selector="app=x")
assert [item.metadata.name for item in listed.items] == ["a"]
start = listed.metadata.resource_version

patched = core.patch_namespaced_config_map("a", namespace, {"data": {"k": "2", "l": "3"}})
assert patched.data == {"k": "2", "l": "3"}
patched = core.patch_namespaced_config_map("a", namespace, [{"op": "remove", "path": "/data/l"}])
assert patched.data == {"k": "2"}
print("patched", patched.data)

error = refusal(lambda: core.replace_namespaced_config_map("a", namespace, created))
assert error.status == 409, error
print("conflict", error.reason)
patched.data = {"k": "4"}
assert core.replace_namespaced_config_map("a", namespace, patched).data == {"k": "4"}

labels = {"app": "web"}
deployment = client.V1Deployment(
    metadata=client.V1ObjectMeta(name="web"),
    spec=client.V1DeploymentSpec(
        replicas=1,
        selector=client.V1LabelSelector(match_labels=labels),
        template=client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels=labels),
            spec=client.V1PodSpec(containers=[client.V1Container(name="web", image="nginx")]),
        ),
    ),
)
made = apps.create_namespaced_deployment(namespace, deployment)
assert made.spec.strategy.rolling_update.max_surge == "25%"
scaled = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 3}})
assert scaled.spec.replicas == 3
print("scaled", apps.read_namespaced_deployment("web", namespace).spec.replicas)

core.delete_namespaced_config_map("a", namespace)
seen = []
watcher = watch.Watch()
for event in watcher.stream(
    core.list_namespaced_config_map, namespace, resource_version=start, label_selector="app=x", timeout_seconds=20
):
    seen.append(event["type"])
    if event["type"] == "DELETED":
        watcher.stop()
assert seen == ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"], seen
print("watched", *seen)

dynamic = DynamicClient(client.ApiClient())
leases = dynamic.resources.get(api_version="coordination.k8s.io/v1", kind="Lease")
leases.create(
    body={"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}, namespace=namespace
)
assert leases.get(name="l", namespace=namespace).metadata.name == "l"
assert leases.delete(name="l", namespace=namespace).status == "Success"
print("dynamic ok")

error = refusal(lambda: core.read_namespaced_config_map("a", namespace))
assert error.status == 404, error
print("gone", error.status)
