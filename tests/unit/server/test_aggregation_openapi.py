"""OpenAPI with the group versions of other API servers: their part is merged, and stays while they are away."""

from extension_server import APISERVICES, FLUNDERS, GROUP, NAME, ROOT, VERSION, aggregated, until
from kapi.server.aggregation.openapi import part_of

KEY = f"apis/{GROUP}/{VERSION}"
FLUNDER = "io.example.Flunder"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
POD = "io.k8s.api.core.v1.Pod"


def reference(name):
    return {"$ref": f"#/definitions/{name}"}


SWAGGER = {
    "swagger": "2.0",
    "parameters": {"pretty-1": {"name": "pretty", "in": "query", "type": "string", "uniqueItems": True}},
    "paths": {
        f"{ROOT}/flunders": {
            "get": {
                "operationId": "listFlunder",
                "responses": {"200": {"description": "OK", "schema": reference(FLUNDER)}},
            },
            "parameters": [{"$ref": "#/parameters/pretty-1"}],
        },
        "/apis/apps/v1/deployments": {"get": {"operationId": "mine", "responses": {}}},
        "/version": {"get": {"operationId": "version", "responses": {}}},
    },
    "definitions": {
        FLUNDER: {"type": "object", "properties": {"metadata": reference(META), "pod": reference(POD)}},
        META: {"type": "object"},
        POD: {"type": "object", "description": "another one"},
        "io.example.Unused": {"type": "object"},
    },
}
V3 = {"openapi": "3.0.0", "paths": {f"/{KEY}/flunders": {}}, "components": {"schemas": {FLUNDER: {}}}}


def test_part_has_the_paths_of_the_group_version_and_their_definitions():
    part = part_of(SWAGGER, f"{ROOT}/")
    assert list(part.paths) == [f"{ROOT}/flunders"]
    assert part.paths[f"{ROOT}/flunders"]["parameters"] == [SWAGGER["parameters"]["pretty-1"]]
    # What all servers have in common is in the built-in part; another definition of the same name gets its own.
    assert part.definitions == {
        FLUNDER: {"type": "object", "properties": {"metadata": reference(META), "pod": reference(f"{POD}_v2")}},
        f"{POD}_v2": {"type": "object", "description": "another one"},
    }


def test_both_versions_are_merged_and_stay_while_the_server_is_away(tmp_path):
    async def check(plane, server):
        _, before = await plane.request("GET", "/openapi/v2")
        index = {"paths": {KEY: {"serverRelativeURL": f"/openapi/v3/{KEY}?hash=ABC"}, "apis/apps/v1": {}}}
        server.documents |= {"/openapi/v2": SWAGGER, "/openapi/v3": index, f"/openapi/v3/{KEY}": V3}
        await plane.request("POST", APISERVICES, server.api_service())

        async def is_merged():
            _, found = await plane.request("GET", "/openapi/v3")
            return KEY in found["paths"] and FLUNDER in (await plane.request("GET", "/openapi/v2"))[1]["definitions"]

        await until(is_merged)
        for is_away in (False, True):
            if is_away:
                await server.stop()
                await plane.request("GET", FLUNDERS)
                await plane.until_available("False")
            _, found = await plane.request("GET", "/openapi/v3")
            assert found["paths"][KEY] == {"serverRelativeURL": f"/openapi/v3/{KEY}?hash=ABC"}
            assert await plane.request("GET", f"/openapi/v3/{KEY}?hash=ABC") == (200, V3)
            _, merged = await plane.request("GET", "/openapi/v2")
            assert merged["paths"].keys() - before["paths"].keys() == {f"{ROOT}/flunders"}
            assert merged["definitions"].keys() - before["definitions"].keys() == {FLUNDER, f"{POD}_v2"}
            assert merged["definitions"][POD] == before["definitions"][POD]
            assert merged["paths"]["/apis/apps/v1/deployments"] != {"get": {"operationId": "mine", "responses": {}}}
        protobuf = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
        reply = await plane.control.transport.request("GET", "/openapi/v2", protobuf)
        assert FLUNDER.encode() in await reply.read()
        await plane.request("DELETE", f"{APISERVICES}/{NAME}")

        async def is_gone():
            return KEY not in (await plane.request("GET", "/openapi/v3"))[1]["paths"]

        await until(is_gone)
        assert (await plane.request("GET", "/openapi/v2"))[1] == before

    aggregated(tmp_path, check, register=False)


def test_malformed_documents_change_nothing(tmp_path):
    async def check(plane, server):
        _, before = await plane.request("GET", "/openapi/v3")
        server.documents |= {"/openapi/v2": {"paths": [1]}, "/openapi/v3": {"paths": {KEY: 7}}}
        await plane.request("POST", APISERVICES, server.api_service())
        await plane.until_available()
        assert (await plane.request("GET", FLUNDERS))[0] == 200
        assert (await plane.request("GET", "/openapi/v3"))[1] == before
        assert (await plane.request("GET", "/openapi/v2"))[0] == 200

    aggregated(tmp_path, check, register=False)
