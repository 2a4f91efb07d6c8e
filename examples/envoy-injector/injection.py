"""What the initializer and the webhook share: the ConfigMap, and the Pod that results."""

import copy
from typing import Any

import yaml

from kapi import Client

ANNOTATION = "initializer.kubernetes.io/envoy"
CONFIG = "envoy-initializer"


async def read_config(client: Client, namespace: str) -> dict[str, Any]:
    """Return the containers and volumes to add."""
    configmap = await client.get(("v1", "ConfigMap"), CONFIG, namespace=namespace)
    return dict(yaml.safe_load(configmap["data"]["config"]))


def asks_for_envoy(pod: dict[str, Any]) -> bool:
    """Return True if the Pod has the annotation, and no container of that name yet."""
    annotations: dict[str, str] = pod["metadata"].get("annotations") or {}
    if annotations.get(ANNOTATION) != "true":
        return False
    return all(container["name"] != "envoy" for container in pod["spec"]["containers"])


def injected(pod: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Return the Pod with the containers and volumes of the configuration."""
    result = copy.deepcopy(pod)
    for field in ("containers", "volumes"):
        if config.get(field):
            result["spec"][field] = [*(result["spec"].get(field) or ()), *copy.deepcopy(config[field])]
    return result
