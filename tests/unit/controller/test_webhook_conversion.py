"""Conversion webhooks: the review, and two versions of a kind on a control plane that asks for conversion."""

import asyncio

import pytest
import structlog.testing
from webhook_rig import called, running

from kapi import Client, CustomResource, Manager, Model, ObjectMeta, definition, resource
from kapi.api.errors import ApiError
from kapi.controller.webhook import ConversionFailed, SelfSigned, Spoke, WebhookServer, inject_ca
from live_plane import live_plane

GROUP = "converted.example.com"
V1, V1BETA1 = f"{GROUP}/v1", f"{GROUP}/v1beta1"
ZONE = f"{GROUP}/zone"


class ListenerSpec(Model):
    host: str
    port: int
    zone: str = ""


@resource(V1)
class Listener(CustomResource):
    spec: ListenerSpec


class OldListenerSpec(Model):
    host_port: str


@resource(V1BETA1, kind="Listener", storage=False)
class OldListener(CustomResource):
    spec: OldListenerSpec


def to_hub(old: OldListener) -> Listener:
    host, colon, port = old.spec.host_port.rpartition(":")
    if not colon:
        raise ConversionFailed(f"{old.spec.host_port!r} has no port")
    annotations = dict(old.metadata.annotations or {})
    zone = annotations.pop(ZONE, "")
    old.metadata.annotations = annotations
    return Listener(metadata=old.metadata, spec=ListenerSpec(host=host, port=int(port), zone=zone))


async def from_hub(new: Listener) -> OldListener:
    if new.spec.zone:
        new.metadata.annotations = {**(new.metadata.annotations or {}), ZONE: new.spec.zone}
    spec = OldListenerSpec(host_port=f"{new.spec.host}:{new.spec.port}")
    return OldListener(metadata=ObjectMeta(name="renamed", annotations=new.metadata.annotations), spec=spec)


SPOKES = [Spoke(OldListener, to_hub, from_hub)]


def by_hub(server):
    server.conversion("/convert", hub=Listener, spokes=SPOKES)


def listener(host="h", port=80, **metadata):
    metadata = {"name": "a", "namespace": "default", "uid": "u1", **metadata}
    return {"apiVersion": V1, "kind": "Listener", "metadata": metadata, "spec": {"host": host, "port": port}}


def old_listener(host_port="h:80", name="a"):
    spec = {"hostPort": host_port}
    return {"apiVersion": V1BETA1, "kind": "Listener", "metadata": {"name": name, "uid": "u1"}, "spec": spec}


def conversion(*objects, to):
    request = {"uid": "c1", "desiredAPIVersion": to, "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


def response_of(register, review):
    found = []

    async def test(caller):
        found.append(await caller.respond("/convert", review))

    called(register, test)
    return found[0]


def test_objects_go_through_the_hub_and_stay_themselves():
    original = listener(annotations={"kept": "yes"}, managedFields=[{"manager": "m"}], generation=3)
    original["spec"]["zone"] = "z1"
    response = response_of(by_hub, conversion(original, old_listener(), to=V1BETA1))
    assert response["result"] == {"status": "Success"}
    first, second = response["convertedObjects"]
    assert (first["apiVersion"], first["kind"], first["spec"]) == (V1BETA1, "Listener", {"hostPort": "h:80"})
    # The function gave it another name and forgot most of its metadata; annotations are its to decide.
    assert first["metadata"] == {**original["metadata"], "annotations": {"kept": "yes", ZONE: "z1"}}
    assert second == old_listener()


def test_one_function_can_do_it_all():
    def convert(obj, api_version):
        assert api_version == V1
        host, _, port = obj["spec"].pop("hostPort").rpartition(":")
        return {**obj, "spec": {"host": host, "port": int(port)}}

    response = response_of(lambda server: server.conversion("/convert", convert), conversion(old_listener(), to=V1))
    assert response["convertedObjects"][0] == {**old_listener(), "apiVersion": V1, "spec": {"host": "h", "port": 80}}


@pytest.mark.parametrize(
    "obj, to, why",
    [
        (old_listener("nothing"), V1, "'nothing' has no port"),
        ({**old_listener(), "spec": {"hostPort": 5}}, V1, "Expected `str`, got `int` - at `$.spec.hostPort`"),
        (old_listener(), f"{GROUP}/v9", f"{GROUP}/v9 is not known here, only {V1}, {V1BETA1}"),
        ({**old_listener(), "apiVersion": f"{GROUP}/v9"}, V1, f"{GROUP}/v9 is not known here, only {V1}, {V1BETA1}"),
        ({**old_listener(), "kind": "Other"}, V1, "Other is not Listener"),
    ],
)
def test_one_object_that_cannot_be_converted_fails_all(obj, to, why):
    response = response_of(by_hub, conversion(old_listener(name="fine"), obj, to=to))
    assert response["convertedObjects"] == []
    assert response["result"]["status"] == "Failure"
    assert response["result"]["message"].endswith(why)
    assert response["result"]["message"].startswith("cannot convert ")


def test_a_mistake_fails_without_its_details_and_is_logged():
    def convert(obj, api_version):
        raise RuntimeError("the password is swordfish")

    with structlog.testing.capture_logs() as logs:
        response = response_of(lambda server: server.conversion("/convert", convert), conversion(old_listener(), to=V1))
    assert response["result"]["status"] == "Failure"
    assert "swordfish" not in response["result"]["message"]
    assert any(log["log_level"] == "error" and "swordfish" in str(log["exc_info"]) for log in logs)


@pytest.mark.parametrize(
    "change", [{"desiredAPIVersion": ""}, {"objects": None}, {"objects": ["text"]}, {"uid": ""}], ids=str
)
def test_a_malformed_review_is_a_400(change):
    review = conversion(old_listener(), to=V1)
    review["request"] |= change

    async def test(caller):
        assert (await caller.post("/convert", review))[0] == 400

    called(by_hub, test)


def test_a_conversion_is_a_function_or_a_hub_of_versions_of_one_kind():
    def register(server):
        with pytest.raises(TypeError, match="one function, or a hub"):
            server.conversion("/convert")
        with pytest.raises(ValueError, match="given twice"):
            server.conversion("/convert", hub=Listener, spokes=SPOKES * 2)

        @resource(V1)
        class Elsewhere(CustomResource):
            spec: ListenerSpec

        with pytest.raises(ValueError, match="versions of one kind"):
            server.conversion("/convert", hub=Elsewhere, spokes=SPOKES)

    async def test(caller):
        pass

    called(register, test)


def converted_definition(server):
    """The definition of both versions, not yet knowing whom to trust."""
    found = definition(Listener, OldListener)
    found["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": f"https://127.0.0.1:{server.port}/convert"},
            "conversionReviewVersions": ["v1"],
        },
    }
    return found


def test_two_versions_are_read_and_written_both_ways_on_a_control_plane(tmp_path):
    async def main(kubeconfig):
        server = WebhookServer("127.0.0.1", 0, certificates=SelfSigned(["127.0.0.1"], directory=tmp_path / "hooks"))
        by_hub(server)
        async with Client.connect(kubeconfig=kubeconfig, field_manager="tests") as client, asyncio.timeout(60):
            manager = Manager(client)
            manager.add(server)
            running_manager = asyncio.ensure_future(manager.run(signals=False))
            await server.wait_started()
            crd = converted_definition(server)
            await client.create(crd)
            name = crd["metadata"]["name"]
            await client.wait_for(
                ("apiextensions.k8s.io/v1", "CustomResourceDefinition"), name, "condition=Established"
            )
            await inject_ca(client, server.ca_bundle(), definitions=[name])
            try:
                await _both_ways(client)
            finally:
                manager.stop()
                await running_manager

    with live_plane(tmp_path) as kubeconfig:
        asyncio.run(main(kubeconfig))


async def _both_ways(client):
    old = OldListener(metadata=ObjectMeta(name="old", namespace="default"), spec=OldListenerSpec(host_port="o:1"))
    created = await _once_converted(client, old)
    assert (created.api_version, created.spec.host_port) == (V1BETA1, "o:1")
    new = Listener(metadata=ObjectMeta(name="new", namespace="default"), spec=ListenerSpec(host="n", port=2, zone="z"))
    await client.create(new)

    read = await client.get(Listener, "old", namespace="default")
    assert (read.spec.host, read.spec.port, read.metadata.uid) == ("o", 1, created.metadata.uid)
    read.spec.port = 3
    await client.update(read)
    assert (await client.get(OldListener, "old", namespace="default")).spec.host_port == "o:3"

    seen = await client.get(OldListener, "new", namespace="default")
    assert (seen.spec.host_port, seen.metadata.annotations) == ("n:2", {ZONE: "z"})
    seen.spec.host_port = "n:4"
    await client.update(seen)
    assert (await client.get(Listener, "new", namespace="default")).spec == ListenerSpec(host="n", port=4, zone="z")

    listed = await client.list(OldListener, namespace="default")
    assert [one.spec.host_port for one in listed] == ["n:4", "o:3"]

    wrong = OldListener(metadata=ObjectMeta(name="bad", namespace="default"), spec=OldListenerSpec(host_port="none"))
    with pytest.raises(ApiError, match="'none' has no port"):
        await client.create(wrong)


async def _once_converted(client, obj):
    """Create an object; until the server has taken up the bundle, conversion fails for want of trust."""
    while True:
        try:
            return await client.create(obj)
        except ApiError as error:
            if "certificate" not in str(error) and "x509" not in str(error):
                raise
            await asyncio.sleep(0.01)


def test_a_server_that_was_stopped_before_it_ran_does_not_run():
    async def main():
        server = WebhookServer("127.0.0.1", 0, certificates=SelfSigned(["127.0.0.1"]))
        server.stop()
        await server.run()
        assert server.port == 0

    asyncio.run(main())


def test_a_port_that_is_taken_is_an_error():
    async def main():
        async with running(WebhookServer("127.0.0.1", 0)) as first:
            with pytest.raises(OSError):
                await WebhookServer("127.0.0.1", first.port).run()

    asyncio.run(main())
