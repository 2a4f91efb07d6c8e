"""Form 1, as it was done from Kubernetes v1.7 to v1.13: a controller that finishes Pods before anyone sees them.

kubectl apply -f configmap.yaml -f initializer-configuration.yaml
python initializer.py --kubeconfig ~/.kube/config
kubectl apply -f pod.yaml
"""

import argparse
import asyncio
import copy
import logging
from typing import Any

import msgspec
from injection import asks_for_envoy, injected, read_config

from kapi import Client, ClientConfig
from kapi.api.meta import GroupVersionKind
from kapi.api.patch.creation import two_way_merge_patch
from kapi.informer import RESTSource, SharedInformer
from kapi.informer.source import served_by
from kapi.schema.builtin.typed import kind_schema

NAME = "envoy.initializer.kubernetes.io"
POD = GroupVersionKind("", "v1", "Pod")
log = logging.getLogger("envoy-initializer")


class Initializer:
    """Handles every Pod whose first pending initializer this is."""

    def __init__(self, client: Client, *, namespace: str = "", config_namespace: str = "default") -> None:
        self._client = client
        self._config_namespace = config_namespace
        # Uninitialized Pods are hidden from clients that do not ask for them.
        source = RESTSource(client.rest, served_by(client.mapper, POD), namespace=namespace, include_uninitialized=True)
        self.informer: SharedInformer[dict[str, Any]] = SharedInformer(source, msgspec.json.decode, name="pods")
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.informer.add_handler(self, name=NAME)

    def on_add(self, obj: dict[str, Any], *, initial: bool) -> None:
        self._queue.put_nowait(obj)

    def on_update(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._queue.put_nowait(new)

    def on_delete(self, obj: dict[str, Any], *, stale: bool) -> None:
        pass

    async def run(self) -> None:
        """Initialize Pods until cancelled."""
        async with self.informer:
            while True:
                pod = await self._queue.get()
                try:
                    await self.initialize(pod)
                except Exception:
                    log.exception("%s cannot be initialized", pod["metadata"]["name"])

    async def initialize(self, pod: dict[str, Any]) -> None:
        """Add the container if the Pod asks for it, and this name from the list, in one patch."""
        initializers: dict[str, Any] = pod["metadata"].get("initializers") or {}
        pending: list[dict[str, Any]] = initializers.get("pending") or []
        if not pending or pending[0]["name"] != NAME:
            return
        wanted = copy.deepcopy(pod)
        if asks_for_envoy(pod):
            wanted = injected(wanted, await read_config(self._client, self._config_namespace))
        if len(pending) == 1:
            del wanted["metadata"]["initializers"]
        else:
            wanted["metadata"]["initializers"]["pending"] = pending[1:]
        patch = two_way_merge_patch(pod, wanted, kind_schema(*POD).merge)
        metadata = pod["metadata"]
        await self._client.patch(
            ("v1", "Pod"), patch, name=metadata["name"], namespace=metadata["namespace"], kind="strategic"
        )
        log.info("initialized %s/%s", metadata["namespace"], metadata["name"])


async def main(config: ClientConfig) -> None:
    async with Client(config) as client:
        await Initializer(client).run()


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--kubeconfig", help="else $KUBECONFIG, ~/.kube/config, or the pod's account")
    given = flags.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    asyncio.run(main(ClientConfig.load(kubeconfig=given.kubeconfig)))
