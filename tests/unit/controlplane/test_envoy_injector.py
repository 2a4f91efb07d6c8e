"""The Envoy injector of `examples/envoy-injector` in its three forms: the Pods that result are the same."""

import asyncio
import json
import pathlib
import re
import sys

import pytest
import yaml

from kapi.testing import Environment

FOLDER = pathlib.Path(__file__).parents[3] / "examples" / "envoy-injector"


@pytest.fixture(autouse=True)
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("injection", "initializer", "webhook"):
        sys.modules.pop(name, None)


def manifests(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
TOKEN = re.compile("kube-api-access-[a-z0-9]{5}")


async def pods(client):
    """Create the Pod that asks for Envoy and one that does not; both as they are seen, without what is random."""
    (wanted,) = manifests("pod.yaml")
    plain = {**wanted, "metadata": {"name": "plain", "namespace": "default"}}
    found = {}
    for pod in (wanted, plain):
        await client.create(pod)
        seen = await client.get(("v1", "Pod"), pod["metadata"]["name"], namespace="default")
        metadata = {key: value for key, value in seen["metadata"].items() if key not in VOLATILE}
        seen = json.loads(TOKEN.sub("token", json.dumps({**seen, "metadata": metadata})))
        by_name = {volume["name"]: volume for volume in seen["spec"]["volumes"]}
        found[metadata["name"]] = {**seen, "spec": {**seen["spec"], "volumes": by_name}}
    return found


async def by_initializer(env):
    from initializer import Initializer

    running = asyncio.ensure_future(Initializer(env.client).run())
    try:
        for obj in manifests("initializer-configuration.yaml"):
            await env.client.create(obj)
        return await pods(env.client)
    finally:
        running.cancel()


async def by_webhook(env):
    from webhook import injector

    server = injector(env.client)
    running = asyncio.ensure_future(server.run())
    try:
        await server.wait_registered()
        return await pods(env.client)
    finally:
        server.stop()
        await running


async def by_policy(env):
    for obj in manifests("policy.yaml"):
        await env.client.create(obj)
    return await pods(env.client)


async def outcome(form):
    async with Environment(objects=manifests("configmap.yaml")) as env:
        return await form(env)


FORMS = (by_initializer, by_webhook, by_policy)


def test_all_three_forms_make_the_same_pod():
    found = {form.__name__: asyncio.run(outcome(form)) for form in FORMS}
    for form, made in found.items():
        assert [one["name"] for one in made["myapp"]["spec"]["containers"]] == ["myapp", "envoy"], form
        assert [one["name"] for one in made["plain"]["spec"]["containers"]] == ["myapp"], form
        assert made == found["by_webhook"], form
    envoy = found["by_webhook"]["myapp"]["spec"]["containers"][1]
    assert envoy["resources"]["limits"] == {"cpu": "1", "memory": "512Mi"}
    assert [one["name"] for one in envoy["volumeMounts"]] == ["envoy-conf", "token"]
    assert found["by_webhook"]["myapp"]["status"]["qosClass"] == "Burstable"


def test_a_webhook_server_deletes_its_configuration_when_it_stops_if_asked_to():
    async def main():
        from webhook import injector

        async with Environment(objects=manifests("configmap.yaml")) as env:
            server = injector(env.client)
            running = asyncio.ensure_future(server.run())
            await server.wait_registered()
            kind = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
            (webhook,) = (await env.client.get(kind, "envoy-injector"))["webhooks"]
            assert webhook["name"] == "mutate.v1.pod.core"
            assert webhook["clientConfig"]["url"] == f"https://127.0.0.1:{server.port}/mutate-v1-pod"
            assert webhook["clientConfig"]["caBundle"] == server.ca_bundle()
            assert webhook["rules"] == [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods"],
                    "operations": ["CREATE"],
                    "scope": "*",
                }
            ]
            server.stop()
            await running
            assert await env.client.find(kind, "envoy-injector") is None

    asyncio.run(main())
