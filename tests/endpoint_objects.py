"""Services, Pods and Nodes for the tests of endpoints, and the endpoints that result."""

from api_client import NS, PODS, SVC
from kapi.controlplane.controllers.serviceendpoints.pods import EndpointPod, PodPort

NODES = "/api/v1/nodes"
EP = f"{NS}/default/endpoints"
ES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SLICES = "endpointslices.discovery.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


def service(name="web", selector=None, ports=None, *, metadata=None, **spec):
    """A Service; with `stored=` parts of its metadata, as if it came from the server."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            **({} if selector is None else {"selector": selector}),
            "ports": [{"port": 80}] if ports is None else ports,
            **spec,
        },
    }


def stored_service(name="web", ports=None, *, labels=None, annotations=None, **spec):
    """A Service as the server has it."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **({"labels": labels} if labels else {}),
        **({"annotations": annotations} if annotations else {}),
    }
    defaults = {"type": "ClusterIP", "clusterIP": "10.0.0.7", "ipFamilies": ["IPv4"], "selector": {"app": "web"}}
    ports = [{"port": 80, "protocol": "TCP", "targetPort": 8080}] if ports is None else ports
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {**defaults, "ports": ports, **spec}}


def facts(name="a", *addresses, **changes):
    """A ready Pod on a Node."""
    base = EndpointPod(
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        node="n1",
        hostname="",
        subdomain="",
        addresses=addresses or ("10.1.0.1",),
        ports=(),
        is_ready=True,
        is_terminating=False,
        is_terminal=False,
        ready_since="2026-01-01T00:01:00Z",
    )
    return base._replace(**changes)


def named_port(name, number, protocol="TCP"):
    return PodPort(name, protocol, number)


def pod(name="a", labels=None, *, node="n1", metadata=None, ports=(), **spec):
    """A Pod that runs on a Node."""
    container = {"name": "c", "image": "i", **({"ports": list(ports)} if ports else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"} if labels is None else labels, **(metadata or {})},
        "spec": {"containers": [container], **({"nodeName": node} if node else {}), **spec},
    }


def status(*addresses, ready=True, phase="Running", since="2026-01-01T00:01:00Z"):
    """The status of a Pod."""
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
    return {
        "phase": phase,
        "podIP": addresses[0] if addresses else "",
        "podIPs": [{"ip": address} for address in addresses],
        "conditions": [condition],
    }


async def node(api, name="n1", zone=""):
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    await api.made(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})


async def run_pod(api, name="a", *addresses, made=None, **of_status):
    """Create a Pod and report its status."""
    await api.made(PODS, made or pod(name))
    await report(api, name, *(addresses or ("10.1.0.1",)), **of_status)


async def report(api, name, *addresses, **of_status):
    """Report the status of a Pod, as its node would."""
    answer = await api.patch(f"{PODS}/{name}/status", {"status": status(*addresses, **of_status)})
    assert answer.status == 200, answer


async def serve(api, name="web", selector=None, **parts):
    """Create a Service."""
    return await api.made(SVC, service(name, {"app": "web"} if selector is None else selector, **parts))


def slices(api, name="web"):
    """The slices of a Service, by name."""
    items = api.catalog.store(SLICES).cache.items("")
    found = [item for item in items if (item.labels or {}).get(SERVICE_NAME) == name]
    return [api.find(SLICES, item.namespace, item.name) for item in found]


def addresses(api, name="web"):
    """Every address in the slices of a Service, and True if it is ready."""
    return {
        address: endpoint["conditions"]["ready"]
        for each in slices(api, name)
        for endpoint in each.get("endpoints") or ()
        for address in endpoint["addresses"]
    }


def listed(api, name="web"):
    """Every address in the Endpoints of a Service, and True if it is ready; None when there are none."""
    found = api.find("endpoints", "default", name)
    if found is None:
        return None
    return {
        address["ip"]: field == "addresses"
        for subset in found.get("subsets") or ()
        for field in ("addresses", "notReadyAddresses")
        for address in subset.get(field) or ()
    }
