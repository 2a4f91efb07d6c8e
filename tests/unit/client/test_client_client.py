"""The façade on a real server: by class, by name, from the object; every verb."""

import asyncio
import functools
import itertools

import pytest

from kapi.api.access import name_of, namespace_of, uid_of
from kapi.api.builtin.apps_v1 import Deployment
from kapi.api.builtin.core_v1 import ConfigMap, Namespace, Node, Pod, PodSpec
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.crd import CustomResource, Model, definition, resource
from kapi.api.errors import AlreadyExists, Conflict, NotFound
from kapi.api.keys import ObjectKey
from kapi.api.meta import GroupVersionKind, GroupVersionResource
from kapi.client import ALL_NAMESPACES, DELETED, Client, ConfigError, NoMatch, retry_on_conflict

_number = itertools.count()


class NetworkSpec(Model):
    cidr: str = ""
    gateway: str = ""


class NetworkStatus(Model):
    phase: str = ""
    conditions: list[dict[str, str]] | None = None


@resource("client.example.com/v1", short_names=("clientnet",))
class Network(CustomResource):
    "A network."

    spec: NetworkSpec
    status: NetworkStatus | None = None


@pytest.fixture(scope="module")
def networks(admin):
    """A server that serves networks."""

    async def main():
        async with Client(admin) as client:
            crd = await client.create(definition(Network))
            await client.wait_for(("apiextensions.k8s.io/v1", crd["kind"]), name_of(crd), "condition=Established")

    asyncio.run(main())
    return admin


def on_server(test):
    """Run `test(client)` with a client whose namespace is its own."""

    @functools.wraps(test)
    def runner(networks):
        async def main():
            namespace = f"facade-{next(_number)}"
            async with Client(networks, namespace=namespace, field_manager="tests") as client:
                await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
                async with asyncio.timeout(30):
                    await test(client)

        asyncio.run(main())

    del runner.__wrapped__
    return runner


def network(name="a", cidr="10.0.0.0/8"):
    return Network(metadata=ObjectMeta(name=name), spec=NetworkSpec(cidr=cidr))


def cm(name="a", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def _pod(client, name="a", **spec):
    container = {"name": "c", "image": "i"}
    return await client.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container], **spec},
        }
    )


# -- what is meant ----------------------------------------------------------------------------------------------------


@on_server
async def test_same_object_is_found_by_class_and_by_every_name(client):
    made = await client.create(network())
    assert isinstance(made, Network)
    assert await client.get(Network, "a") == made
    assert await client.get(Network, ObjectKey(client.namespace, "a")) == made
    by_name = [
        ("client.example.com/v1", "Network"),
        GroupVersionKind("client.example.com", "v1", "Network"),
        GroupVersionResource("client.example.com", "v1", "networks"),
        "networks.client.example.com",
        "clientnet",
    ]
    for target in by_name:
        found = await client.get(target, "a")
        assert isinstance(found, dict)
        assert uid_of(found) == uid_of(made)


@on_server
async def test_an_unknown_kind_is_reported_in_one_sentence(client):
    with pytest.raises(NoMatch, match='no matches for kind "Foo" in version "v1"'):
        await client.get(("v1", "Foo"), "a")
    with pytest.raises(NoMatch, match='doesn\'t have a resource type "foos"'):
        await client.list("foos")
    with pytest.raises(TypeError, match="PodSpec stands for no kind"):
        await client.get(PodSpec, "a")
    with pytest.raises(TypeError, match="7 is neither a class nor the name of a kind"):
        await client.get(7, "a")
    with pytest.raises(ValueError, match="does not say what it is"):
        await client.create({"metadata": {"name": "a"}})


@on_server
async def test_namespace_is_the_objects_own_or_the_clients(client):
    elsewhere = await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    assert namespace_of(elsewhere) == "default"
    here = await client.create(cm("here"))
    assert namespace_of(here) == client.namespace
    assert namespace_of(await client.create(cm("there"), namespace="default")) == "default"
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a")
    await client.delete(elsewhere)
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a", namespace="default")
    with pytest.raises(ValueError, match="is in namespace 'default', and 'x' was asked for"):
        await client.update(elsewhere, namespace="x")
    with pytest.raises(ValueError, match="configmaps are in namespaces: name one"):
        await client.get(ConfigMap, "a", namespace=ALL_NAMESPACES)
    with pytest.raises(ValueError, match="configmaps are in namespaces: name one"):
        await client.delete_all(ConfigMap, namespace=ALL_NAMESPACES)


@on_server
async def test_kinds_without_namespaces_need_none(client):
    await client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": client.namespace}})
    assert name_of(await client.get(Node, client.namespace)) == client.namespace
    assert name_of(await client.get(Node, ObjectKey("", client.namespace))) == client.namespace
    with pytest.raises(ValueError, match="nodes are not in namespaces, and 'x' was asked for"):
        await client.get(Node, "a", namespace="x")
    await client.delete(Node, client.namespace)


@on_server
async def test_kind_that_is_defined_later_is_found(client):
    @resource(f"{client.namespace}.example.com/v1")
    class Late(CustomResource):
        "Defined while the client runs."

    with pytest.raises(NoMatch):
        await client.list(Late)
    crd = await client.create(definition(Late))
    await client.wait_for("crd", name_of(crd), "condition=Established")
    assert namespace_of(await client.create(Late(metadata=ObjectMeta(name="a")))) == client.namespace


def test_missing_kubeconfig_is_said_in_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="no cluster is configured: set KUBECONFIG, or give a kubeconfig or a server"):
        Client.connect()
    with pytest.raises(ConfigError, match="No such file or directory"):
        Client.connect(kubeconfig=tmp_path / "gone")


def test_client_can_be_made_from_nothing_but_the_environment(admin, tmp_path, monkeypatch):
    monkeypatch.setattr("kapi.client.config.ClientConfig.load", lambda **given: admin)

    async def main():
        async with Client.connect(namespace="kube-system") as client, Client() as other:
            assert (client.namespace, other.namespace) == ("kube-system", "default")
            return name_of(await client.get(Namespace, "kube-system"))

    assert asyncio.run(main()) == "kube-system"


# -- reading ----------------------------------------------------------------------------------------------------------


@on_server
async def test_lists_are_whole_however_they_are_fetched(client):
    for index in range(5):
        await client.create(network(f"n{index}"))
    whole = await client.list(Network, limit=2)
    assert [name_of(each) for each in whole] == ["n0", "n1", "n2", "n3", "n4"]
    assert (len(whole), whole[1].spec.cidr, whole.continue_) == (5, "10.0.0.0/8", "")
    assert int(whole.resource_version) > 0
    pages = [page async for page in client.pages(Network, limit=2)]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert len({page.resource_version for page in pages}) == 1
    assert (pages[0].remaining, pages[-1].remaining) == (3, None)


@on_server
async def test_items_of_lists_say_what_they_are(client):
    await client.create(cm())
    (found,) = (await client.list("configmaps", fields={"metadata.name": "a"})).items
    assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")
    (typed,) = (await client.list(ConfigMap, fields="metadata.name=a")).items
    assert (typed.api_version, typed.kind) == ("v1", "ConfigMap")


@on_server
async def test_selectors_are_text_or_what_must_be_equal(client):
    for name, tier in (("a", "x"), ("b", "y")):
        await client.create({**cm(name), "metadata": {"name": name, "labels": {"tier": tier, "is": client.namespace}}})
    labels = {"tier": "x", "is": client.namespace}
    assert [name_of(each) for each in await client.list(ConfigMap, labels=labels)] == ["a"]
    assert [name_of(each) for each in await client.list(ConfigMap, labels="tier in (y,z)")] == ["b"]
    everywhere = await client.list(ConfigMap, namespace=ALL_NAMESPACES, labels={"is": client.namespace})
    assert len(everywhere) == 2
    await client.delete_all(ConfigMap, labels=labels)
    assert [name_of(each) for each in await client.list(ConfigMap, labels="tier")] == ["b"]


@on_server
async def test_changes_come_as_they_happen_and_as_their_class(client):
    before = await client.list(Network)
    async with client.watch(Network, resource_version=before.resource_version) as events:
        made = await client.create(network())
        await client.patch(made, {"spec": {"gateway": "10.0.0.1"}})
        await client.delete(made)
        seen = [await anext(events) for _ in range(3)]
        assert [(event.type, event.object.spec.gateway) for event in seen] == [
            ("ADDED", ""),
            ("MODIFIED", "10.0.0.1"),
            ("DELETED", "10.0.0.1"),
        ]
        assert events.resource_version == seen[-1].object.metadata.resource_version
    async with client.watch("networks.client.example.com", resource_version=events.resource_version) as loose:
        await client.create(network("b"))
        assert (await anext(loose)).object["metadata"]["name"] == "b"


# -- writing ----------------------------------------------------------------------------------------------------------


@on_server
async def test_objects_are_created_updated_and_deleted_in_either_form(client):
    typed, loose = await client.create(network("typed")), await client.create(cm("loose", k="1"))
    typed.spec.cidr = "10.1.0.0/16"
    loose["data"]["k"] = "2"
    assert (await client.update(typed)).spec.cidr == "10.1.0.0/16"
    assert (await client.update(loose))["data"] == {"k": "2"}
    with pytest.raises(Conflict):
        await client.update(typed)
    with pytest.raises(AlreadyExists):
        await client.create(network("typed"))
    assert await client.delete(typed) is None
    assert await client.delete("configmaps", "loose") is None
    with pytest.raises(NotFound):
        await client.delete(Network, "typed")


@on_server
async def test_what_is_only_on_its_way_out_is_shown(client):
    held = network()
    held.metadata.finalizers = ["example.com/hold"]
    await client.create(held)
    going = await client.delete(held)
    assert isinstance(going, Network)
    assert going.metadata.deletion_timestamp
    await client.patch(going, {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await client.get(Network, "a")


@on_server
async def test_only_that_very_object_is_deleted(client):
    made = await client.create(network())
    with pytest.raises(Conflict):
        await client.delete(Network, "a", uid="another")
    assert await client.delete(Network, ObjectKey(client.namespace, "a"), uid=made.metadata.uid) is None


@on_server
async def test_patches_of_all_kinds_change_what_they_mention(client):
    pod = await _pod(client)
    await client.patch(pod, {"metadata": {"labels": {"merge": "1"}}})
    await client.patch(Pod, [{"op": "add", "path": "/metadata/labels/json", "value": "1"}], name="a", kind="json")
    strategic = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
    patched = await client.patch("pods", strategic, name="a", kind="strategic")
    assert patched["metadata"]["labels"] == {"merge": "1", "json": "1"}
    assert patched["spec"]["containers"][0]["image"] == "other"
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"apply": "1"}}}
    result = await client.patch(Pod, applied, name="a", kind="apply")
    assert result.metadata.labels == {"merge": "1", "json": "1", "apply": "1"}
    with pytest.raises(ValueError, match="'replace' is no kind of patch; there are merge, json, strategic, apply"):
        await client.patch(pod, {}, kind="replace")
    with pytest.raises(ValueError, match="a name is needed"):
        await client.patch(Pod, {})
    with pytest.raises(ValueError, match="the object is called 'a', and 'b' was asked for"):
        await client.patch(pod, {}, name="b")


@on_server
async def test_apply_owns_what_it_says_and_no_more(client):
    made = await client.apply(network())
    assert [entry.manager for entry in made.metadata.managed_fields] == ["tests"]
    theirs = {"apiVersion": "client.example.com/v1", "kind": "Network", "metadata": {"name": "a"}}
    with pytest.raises(Conflict):
        await client.apply({**theirs, "spec": {"cidr": "10.9.0.0/16"}}, field_manager="other")
    taken = await client.apply({**theirs, "spec": {"cidr": "10.9.0.0/16"}}, field_manager="other", force=True)
    assert taken["spec"] == {"cidr": "10.9.0.0/16"}


@on_server
async def test_apply_needs_a_manager(client):
    async with Client(client.rest.config) as unmanaged:
        with pytest.raises(ValueError, match="apply needs a field manager"):
            await unmanaged.apply(network())


@on_server
async def test_status_is_written_apart(client):
    made = await client.create(network())
    made.spec.cidr = "ignored"
    made.status = NetworkStatus(phase="Ready")
    updated = await client.update_status(made)
    assert (updated.status.phase, updated.spec.cidr) == ("Ready", "10.0.0.0/8")
    patched = await client.patch_status(Network, {"status": {"phase": "Gone"}}, name="a")
    assert patched.status.phase == "Gone"
    loose = await client.patch_status(await client.get("clientnet", "a"), {"status": {"phase": "Back"}})
    assert loose["status"]["phase"] == "Back"
    applied = Network(metadata=ObjectMeta(name="a"), spec=NetworkSpec(), status=NetworkStatus(phase="Applied"))
    result = await client.apply(applied, subresource="status", force=True)
    assert result.status.phase == "Applied"


@on_server
async def test_patches_and_updates_keep_fields_that_a_class_does_not_have(client):
    await _pod(client, nodeSelector={"a": "b"})

    class Narrow(CustomResource):
        "A pod of which nothing but metadata is known."

    Narrow.gvk = Pod.gvk
    narrow = await client.get(Narrow, "a")
    assert not hasattr(narrow, "spec")
    await client.patch(narrow, {"metadata": {"labels": {"x": "y"}}})
    assert (await client.get(Pod, "a")).spec.node_selector == {"a": "b"}
    narrow = await client.get(Narrow, "a")
    narrow.metadata.labels = {"x": "z"}
    await client.update(narrow)
    found = await client.get(Pod, "a")
    assert found.spec.node_selector == {"a": "b"}
    assert found.metadata.labels == {"x": "z"}


@on_server
async def test_scale_is_read_and_set(client):
    labels = {"app": "a"}
    await client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        }
    )
    assert (await client.get_scale(Deployment, "a")).spec.replicas == 2
    assert (await client.scale(Deployment, "a", 5)).spec.replicas == 5
    assert (await client.get(Deployment, "a")).spec.replicas == 5


@on_server
async def test_parts_of_objects_have_verbs_of_their_own(client):
    await _pod(client)
    status = await client.sub(Pod, "status")
    assert (await status.patch("a", {"status": {"phase": "Running"}}))["status"]["phase"] == "Running"
    whole = await status.get("a")
    whole["status"]["phase"] = "Failed"
    assert (await status.update("a", whole))["status"]["phase"] == "Failed"
    binding = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n"}}
    await (await client.sub("pods", "binding")).create("a", {**binding, "metadata": {"name": "a"}})
    assert (await client.get(Pod, "a")).spec.node_name == "n"


@on_server
async def test_conflicts_are_tried_again_with_what_is_there_now(client):
    await client.create(cm(count="0"))
    tries = []

    async def increment():
        current = await client.get("configmaps", "a")
        await asyncio.sleep(0)  # for the others to read the same
        current["data"]["count"] = str(int(current["data"]["count"]) + 1)
        tries.append(current)
        return await client.update(current)

    await asyncio.gather(*(retry_on_conflict(increment, tries=20) for _ in range(5)))
    assert (await client.get("configmaps", "a"))["data"]["count"] == "5"
    assert len(tries) > 5


# -- waiting ----------------------------------------------------------------------------------------------------------


@on_server
async def test_condition_is_waited_for(client):
    async def make_ready():
        made = await client.create(network())
        await client.patch_status(made, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
        await client.patch_status(made, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    waits = [
        client.wait_for(Network, "a", "condition=Ready"),
        client.wait_for(Network, ObjectKey(client.namespace, "a"), "condition=ready=false"),
        client.wait_for("clientnet", "a", lambda found: "status" in found),
    ]
    ready, unready, loose, _ = await asyncio.gather(*waits, make_ready())
    assert ready.status.conditions[0]["status"] == "True"
    assert unready.status.conditions[0]["status"] == "False"
    assert loose["status"]["conditions"]


@on_server
async def test_deletion_is_waited_for(client):
    held = network()
    held.metadata.finalizers = ["example.com/hold"]
    made = await client.create(held)
    await client.delete(made)
    waiting = asyncio.create_task(client.wait_for(Network, "a", DELETED))
    await client.patch(made, {"metadata": {"finalizers": None}})
    assert await waiting is None
    assert await client.wait_for(Network, "a", DELETED) is None
