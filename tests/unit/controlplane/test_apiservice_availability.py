"""The condition Available of APIServices: reasons and texts of kube-aggregator."""

from extension_server import APISERVICES, FLUNDERS, NAME, aggregated, until

SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SERVICE = {"metadata": {"name": "srv"}, "spec": {"ports": [{"name": "https", "port": 443}]}}
MERGE = "application/merge-patch+json"


async def until_reason(plane, reason):
    """Wait for a reason of the condition; returns its message."""

    async def found():
        return (await plane.condition()).get("reason") == reason

    await until(found)
    return (await plane.condition())["message"]


def endpoint_slice(**fields):
    return {
        "metadata": {"name": "srv-1", "labels": {"kubernetes.io/service-name": "srv"}},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [{"name": "https", "port": 443}],
        **fields,
    }


def test_service_is_checked_step_by_step(tmp_path):
    async def check(plane, server):
        reference = {"name": "srv", "namespace": "default"}
        await plane.request("POST", APISERVICES, server.api_service(service=reference))
        where = 'service/srv in "default"'
        assert await until_reason(plane, "ServiceNotFound") == f"{where} is not present"
        assert await plane.request("GET", FLUNDERS) == (503, "service unavailable\n")
        other = {**SERVICE, "spec": {"ports": [{"name": "https", "port": 80}]}}
        assert (await plane.request("POST", SERVICES, other))[0] == 201
        assert await until_reason(plane, "ServicePortError") == f"{where} is not listening on port 443"
        ports = {"spec": {"ports": [{"name": "https", "port": 443}]}}
        await plane.request("PATCH", f"{SERVICES}/srv", ports, content_type=MERGE)
        assert await until_reason(plane, "EndpointsNotFound") == f"cannot find endpointslices for {where}"
        assert (await plane.request("POST", SLICES, endpoint_slice()))[0] == 201
        text = f'endpointslices for {where} have no addresses with port name "https"'
        assert await until_reason(plane, "MissingEndpoints") == text
        endpoints = {"endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": False}}]}
        await plane.request("PATCH", f"{SLICES}/srv-1", endpoints, content_type=MERGE)
        assert (await plane.condition())["reason"] == "MissingEndpoints"
        await plane.request("DELETE", f"{SERVICES}/srv")
        assert await until_reason(plane, "ServiceNotFound")

    aggregated(tmp_path, check, register=False)


def test_transition_time_changes_with_the_status_only(tmp_path):
    async def check(plane, server):
        _, obj = await plane.request("GET", f"{APISERVICES}/{NAME}")
        (condition,) = obj["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("True", "Passed")
        assert condition["message"] == "all checks passed"
        revision = obj["metadata"]["resourceVersion"]
        # Nothing is written while nothing has changed.
        assert (await plane.request("GET", FLUNDERS))[0] == 200
        _, again = await plane.request("GET", f"{APISERVICES}/{NAME}")
        assert again["metadata"]["resourceVersion"] == revision

    aggregated(tmp_path, check)


def test_answer_that_is_no_success_is_a_failed_check(tmp_path):
    async def check(plane, server):
        server.documents.clear()
        change = {"metadata": {"labels": {"a": "b"}}}
        await plane.request("PATCH", f"{APISERVICES}/{NAME}", change, content_type=MERGE)

        async def script(call, writer):
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

        server.script = script
        message = await until_reason(plane, "FailedDiscoveryCheck")
        url = f"https://127.0.0.1:{server.port}/apis/wardle.example.com/v1alpha1"
        assert message == f"failing or missing response from {url}: bad status from {url}: 403"

    aggregated(tmp_path, check)


def test_api_service_that_becomes_local_is_available(tmp_path):
    async def check(plane, server):
        change = {"spec": {"service": None, "caBundle": None}}
        status, _ = await plane.request("PATCH", f"{APISERVICES}/{NAME}", change, content_type=MERGE)
        assert status == 200
        assert await until_reason(plane, "Local") == "Local APIServices are always available"
        assert (await plane.request("GET", FLUNDERS))[0] == 404

    aggregated(tmp_path, check)


def test_metrics_count_unavailable_api_services(tmp_path):
    async def check(plane, server):
        assert f'aggregator_unavailable_apiservice{{name="{NAME}"}} 0' in (await plane.request("GET", "/metrics"))[1]
        await server.stop()
        await plane.request("GET", FLUNDERS)
        await plane.until_available("False")
        _, text = await plane.request("GET", "/metrics")
        assert f'aggregator_unavailable_apiservice{{name="{NAME}"}} 1' in text
        # More than once if the server was found away again before the metrics were read.
        total = f'aggregator_unavailable_apiservice_total{{name="{NAME}",reason="FailedDiscoveryCheck"}} '
        assert float(text.partition(total)[2].partition("\n")[0]) >= 1

    aggregated(tmp_path, check)


def test_api_services_of_a_fresh_server_are_all_available(tmp_path):
    async def check(plane, server):
        _, found = await plane.request("GET", APISERVICES)
        assert found["items"]
        for item in found["items"]:
            (condition,) = item["status"]["conditions"]
            assert (condition["type"], condition["status"]) == ("Available", "True")

    aggregated(tmp_path, check, register=False)
