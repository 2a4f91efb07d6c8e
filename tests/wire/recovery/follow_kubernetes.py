"""The official client's watch; there is no cache."""

from kubernetes import client, config, watch

import report

config.load_kube_config()
report.show()
for event in watch.Watch().stream(client.CoreV1Api().list_namespaced_config_map, namespace="default"):
    report.heard(event["type"], event["object"].metadata.name, event["object"].metadata.resource_version)
