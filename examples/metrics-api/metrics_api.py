"""The resource metrics API, `metrics.k8s.io/v1beta1`, served from samples that clients post: `kubectl top` works.

    python metrics_api.py --kubeconfig ~/.kube/config --service default/metrics-api

In a cluster with nodes, metrics-server asks the kubelets. This one is told: a `Sample` says what a node, or the
containers of a pod, used. Samples are created and never read back; what is computed of them is `nodes` and `pods`,
which kubectl and the HorizontalPodAutoscaler read. A sample counts for two minutes.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import field

from kapi import ObjectMeta
from kapi.api.errors import BadRequest
from kapi.apiserver import (
    ApiServer,
    Column,
    CustomResource,
    ListOptions,
    Model,
    Request,
    Resource,
    Rule,
    ServiceReference,
    resource,
)
from kapi.client import ClientConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW = 30
FRESH_SECONDS = 120.0


class Container(Model):
    name: str
    usage: dict[str, str]
    """The quantities in use, by resource: `cpu`, `memory`."""


@resource("metrics.k8s.io/v1beta1", plural="pods", singular="pod", columns=[Column("Window", ".window")])
class PodMetrics(CustomResource):
    """What the containers of a pod use."""

    timestamp: str = ""
    window: str = ""
    containers: list[Container] = field(default_factory=list[Container])


@resource("metrics.k8s.io/v1beta1", plural="nodes", singular="node", scope="Cluster")
class NodeMetrics(CustomResource):
    """What a node uses."""

    timestamp: str = ""
    window: str = ""
    usage: dict[str, str] = field(default_factory=dict[str, str])


class SampleSpec(Model):
    RULES = (Rule("has(self.node) != has(self.pod)", message="expected one of node and pod"),)

    node: str | None = None
    namespace: str | None = None
    pod: str | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    containers: list[Container] = field(default_factory=list[Container])
    usage: dict[str, str] = field(default_factory=dict[str, str])


@resource("samples.example.com/v1", scope="Cluster")
class Sample(CustomResource):
    """What a node or a pod used in the last seconds."""

    spec: SampleSpec


M = TypeVar("M", bound=CustomResource)


class Latest(Generic[M]):
    """The last sample of each object, as long as it is fresh."""

    def __init__(self) -> None:
        self._metrics: dict[tuple[str, str], tuple[float, M]] = {}

    def add(self, metrics: M) -> None:
        """Replace what was known of an object, and drop what is too old."""
        now = time.monotonic()
        self._metrics = {key: one for key, one in self._metrics.items() if now - one[0] < FRESH_SECONDS}
        self._metrics[metrics.metadata.namespace or "", metrics.metadata.name or ""] = now, metrics

    def find(self, namespace: str, name: str) -> M | None:
        """Return the metrics of an object, None if there are none."""
        return next((one for one in self.all(namespace) if one.metadata.name == name), None)

    def all(self, namespace: str) -> Sequence[M]:
        """Return the metrics of a namespace, or of all when it is empty."""
        now = time.monotonic()
        return [
            one
            for (where, _), (since, one) in self._metrics.items()
            if now - since < FRESH_SECONDS and namespace in ("", where)
        ]


class Metrics(Resource[M]):
    """`pods` or `nodes`: computed, so there is get and list and nothing else."""

    def __init__(self, kind: type[M], latest: Latest[M]) -> None:
        super().__init__(kind)
        self._latest = latest

    async def get(self, request: Request, name: str) -> M | None:
        """Return the metrics of one object."""
        return self._latest.find(request.namespace, name)

    async def list(self, request: Request, options: ListOptions) -> Sequence[M]:
        """Return the metrics of all objects."""
        return self._latest.all(request.namespace)


class Samples(Resource[Sample]):
    """`samples`: created only, as reviews are."""

    def __init__(self, pods: Latest[PodMetrics], nodes: Latest[NodeMetrics]) -> None:
        super().__init__(Sample)
        self._pods = pods
        self._nodes = nodes

    async def create(self, request: Request, obj: Sample) -> Sample:
        """Take in a sample."""
        spec = obj.spec
        now = f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
        if spec.node:
            metadata = ObjectMeta(name=spec.node, labels=spec.labels, creation_timestamp=now)
            self._nodes.add(NodeMetrics(metadata=metadata, timestamp=now, window=f"{WINDOW}s", usage=spec.usage))
            return obj
        if not spec.pod or not spec.containers:
            raise BadRequest("a sample of a pod needs the name of the pod and its containers")
        where = spec.namespace or "default"
        metadata = ObjectMeta(name=spec.pod, namespace=where, labels=spec.labels, creation_timestamp=now)
        self._pods.add(
            PodMetrics(metadata=metadata, timestamp=now, window=f"{WINDOW}s", containers=list(spec.containers))
        )
        return obj


def resources() -> tuple[Metrics[PodMetrics], Metrics[NodeMetrics], Samples]:
    """Return the resources of the server, which share the samples."""
    pods, nodes = Latest[PodMetrics](), Latest[NodeMetrics]()
    return Metrics(PodMetrics, pods), Metrics(NodeMetrics, nodes), Samples(pods, nodes)


def main(arguments: Sequence[str]) -> int:
    """Serve the metrics API."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=8002)
    parser.add_argument("--kubeconfig", type=Path, help="serve behind this cluster; without it, on loopback, for all")
    parser.add_argument("--service", default="default/metrics-api", help="the Service in front, as NAMESPACE/NAME")
    parser.add_argument("--service-port", type=int, default=0, help="its port; that of this program if it is not given")
    options = parser.parse_args(arguments)
    if options.kubeconfig is None:
        return ApiServer(*resources(), port=options.port).run()
    namespace, _, name = options.service.partition("/")
    return ApiServer(
        *resources(),
        cluster=ClientConfig.from_kubeconfig(options.kubeconfig),
        port=options.port,
        service=ServiceReference(name, namespace, options.service_port),
        registers=True,
    ).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
