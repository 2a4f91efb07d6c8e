"""Discovery with group versions of other API servers: their order, their content, and a server that is away."""

from extension_server import APISERVICES, FLUNDERS, GROUP, NAME, RESOURCES, ROOT, VERSION, aggregated, until
from kapi.registry.builtins import GROUPS
from kapi.server.aggregation.priorities import Priority, ordered

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def aggregated_group(plane, group=GROUP):
    """The entry of a group in aggregated discovery, and the names of all groups."""
    status, document = await plane.request("GET", "/apis", accept=V2)
    assert status == 200
    groups = {one["metadata"]["name"]: one for one in document["items"]}
    return groups.get(group), list(groups)


def test_order_of_the_priorities_is_that_of_the_built_in_groups():
    keys = {(group.group, group.version) for group in GROUPS}
    expected = {}
    for group in GROUPS:
        expected.setdefault(group.group, []).append(group.version)
    found = ordered(keys, {})
    # The group of APIServices is above all others, the core group has a path of its own.
    assert [group for group in found if group] == [group for group in expected if group]
    assert found == expected


def test_groups_are_ordered_by_priority_then_name_and_versions_by_priority_then_age():
    keys = [("b.com", "v1"), ("a.com", "v1"), ("c.com", "v1beta1"), ("c.com", "v1"), ("c.com", "v2")]
    priorities = {key: Priority(100, 10) for key in keys} | {("c.com", "v1beta1"): Priority(200, 50)}
    assert ordered(keys, priorities) == {"c.com": ["v1beta1", "v2", "v1"], "a.com": ["v1"], "b.com": ["v1"]}


def test_group_is_in_both_forms_of_discovery(tmp_path):
    async def check(plane, server):
        _, groups = await plane.request("GET", "/apis")
        assert groups["groups"][0]["name"] == "apiregistration.k8s.io"
        entry = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
        group = {"name": GROUP, "versions": [entry], "preferredVersion": entry}
        assert group in groups["groups"]
        assert await plane.request("GET", f"/apis/{GROUP}") == (200, {"kind": "APIGroup", "apiVersion": "v1", **group})
        assert await plane.request("GET", ROOT) == (200, RESOURCES)
        _, index = await plane.request("GET", "/")
        assert {ROOT, f"/apis/{GROUP}"} <= set(index["paths"])

        async def is_current():
            found, _ = await aggregated_group(plane)
            return found is not None and found["versions"][0]["freshness"] == "Current"

        await until(is_current)
        found, _ = await aggregated_group(plane)
        assert found["versions"] == [
            {
                "version": VERSION,
                "resources": [
                    {
                        "resource": "flunders",
                        "responseKind": {"group": GROUP, "version": VERSION, "kind": "Flunder"},
                        "scope": "Namespaced",
                        "singularResource": "flunder",
                        "verbs": ["get", "list"],
                    }
                ],
                "freshness": "Current",
            }
        ]

    aggregated(tmp_path, check)


def test_server_that_has_the_aggregated_form_is_asked_for_it(tmp_path):
    resource = {"resource": "fischers", "scope": "Cluster", "singularResource": "fischer", "verbs": ["get"]}
    foreign = {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [resource]}]}
    own = {"metadata": {"name": GROUP}, "versions": [{"version": VERSION, "resources": [resource]}]}

    async def check(plane, server):
        server.documents["/apis"] = {"kind": "APIGroupDiscoveryList", "items": [foreign, own]}
        server.content_types["/apis"] = V2
        await plane.request("POST", APISERVICES, server.api_service())

        async def is_current():
            found, _ = await aggregated_group(plane)
            return found is not None and found["versions"][0]["freshness"] == "Current"

        await until(is_current)
        found, _ = await aggregated_group(plane)
        empty = {"group": "", "version": "", "kind": ""}
        assert found["versions"][0]["resources"] == [{**resource, "responseKind": empty}]
        # What a server says of a group that is not its own does not count.
        apps, _ = await aggregated_group(plane, "apps")
        assert "fischers" not in str(apps)

    aggregated(tmp_path, check, register=False)


def test_last_good_copy_is_shown_as_stale_while_the_server_is_away(tmp_path):
    async def check(plane, server):
        async def freshness():
            found, _ = await aggregated_group(plane)
            return found["versions"][0]["freshness"]

        async def is_current():
            return await freshness() == "Current"

        async def is_stale():
            return await freshness() == "Stale"

        await until(is_current)
        await server.stop()
        await plane.request("GET", FLUNDERS)
        await until(is_stale)
        found, names = await aggregated_group(plane)
        assert found["versions"][0]["resources"][0]["resource"] == "flunders"
        assert {"apps", "batch"} <= set(names)
        await server.start()
        await until(is_current)

    aggregated(tmp_path, check)


def test_priority_decides_the_place_and_a_deleted_api_service_has_none(tmp_path):
    async def check(plane, server):
        _, names = await aggregated_group(plane)
        assert names[-1] == GROUP
        change = {"spec": {"groupPriorityMinimum": 20000}}
        await plane.request("PATCH", f"{APISERVICES}/{NAME}", change, content_type="application/merge-patch+json")
        _, names = await aggregated_group(plane)
        assert names[:3] == ["apiregistration.k8s.io", GROUP, "apps"]
        _, legacy = await plane.request("GET", "/apis")
        assert [one["name"] for one in legacy["groups"]][:3] == ["apiregistration.k8s.io", GROUP, "apps"]
        await plane.request("DELETE", f"{APISERVICES}/{NAME}")
        found, _ = await aggregated_group(plane)
        assert found is None
        assert (await plane.request("GET", f"/apis/{GROUP}"))[0] == 404

    aggregated(tmp_path, check)


def test_malformed_discovery_is_stale_and_breaks_nothing(tmp_path):
    async def check(plane, server):
        server.documents["/apis"] = {"items": [{"metadata": {"name": GROUP}, "versions": [{"version": 7}]}]}
        server.content_types["/apis"] = V2
        await plane.request("POST", APISERVICES, server.api_service())
        await plane.until_available()
        found, names = await aggregated_group(plane)
        assert found["versions"] == [{"version": VERSION, "freshness": "Stale"}]
        assert "apps" in names

    aggregated(tmp_path, check, register=False)
