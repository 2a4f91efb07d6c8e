"""The official client's informer with handlers; its view is the cache."""

import threading
from functools import partial

from kubernetes import client, config
from kubernetes.informer import ADDED, DELETED, MODIFIED, SharedInformer

import report


def report_event(kind: str, obj: client.V1ConfigMap) -> None:
    report.heard(kind, obj.metadata.name, obj.metadata.resource_version)


config.load_kube_config()
informer = SharedInformer(client.CoreV1Api().list_namespaced_config_map, namespace="default")
for kind in (ADDED, MODIFIED, DELETED):
    informer.add_event_handler(kind, partial(report_event, kind))
informer.start()
report.show(lambda: {obj.metadata.name: obj.metadata.resource_version for obj in informer.cache.list()})
threading.Event().wait()
