"""EventRateLimit: buckets by server, namespace, user or source and object."""

import asyncio

import pytest
import yaml

from api_client import NO_ACCOUNTS, NS, serving
from kapi.controlplane.admissionoptions import AdmissionOptions
from kapi.server.configfile import ConfigFileError
from virtual_time import run

EVENTS = f"{NS}/default/events"
LIMITED = "Too many requests: limit reached on type"


def options(folder, *limits):
    configuration = {
        "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
        "kind": "Configuration",
        "limits": list(limits),
    }
    whole = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "EventRateLimit", "configuration": configuration}],
    }
    path = folder / "admission.yaml"
    path.write_text(yaml.safe_dump(whole))
    return AdmissionOptions(frozenset({"EventRateLimit"}), NO_ACCOUNTS.disabled, path)


def event(name, namespace="default", /, **about):
    return {"metadata": {"name": name}, "involvedObject": {"namespace": namespace, **about}, "reason": "r"}


def limited(folder, test, *limits):
    async def main():
        async with serving(admission_options=options(folder, *limits)) as api:
            await test(api)

    run(main())


def test_a_namespace_has_a_bucket_that_fills_with_time(tmp_path):
    async def test(api):
        await api.made(NS, {"metadata": {"name": "other"}})
        for name in ("a", "b"):
            assert (await api.post(EVENTS, event(name))).status == 201
        refused = await api.post(EVENTS, event("c"))
        assert refused.error == (429, "TooManyRequests", f"{LIMITED} Namespace for key default")
        assert (await api.post(f"{NS}/other/events", event("c", "other"))).status == 201
        await asyncio.sleep(0.5)
        assert (await api.post(EVENTS, event("c"))).status == 201
        assert (await api.post(EVENTS, event("d"))).status == 429

    limited(tmp_path, test, {"type": "Namespace", "qps": 2, "burst": 2})


def test_a_dry_run_and_events_of_the_other_group_take_no_token(tmp_path):
    async def test(api):
        for _ in range(3):
            assert (await api.post(EVENTS, event("a"), dryRun="All")).status == 201
        assert (await api.post(EVENTS, event("a"))).status == 201
        other = {
            "metadata": {"name": "e"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "action": "a",
            "reason": "r",
            "type": "Normal",
            "reportingController": "c",
            "reportingInstance": "i",
            "regarding": {"namespace": "default"},
        }
        assert (await api.post("/apis/events.k8s.io/v1/namespaces/default/events", other)).status == 201
        assert (await api.post(EVENTS, event("b"))).message == f"{LIMITED} Server for key "

    limited(tmp_path, test, {"type": "Server", "qps": 1, "burst": 1})


def test_all_limits_that_are_reached_are_named(tmp_path):
    async def test(api):
        assert (await api.post(EVENTS, event("a", name="p", kind="Pod"))).status == 201
        refused = await api.post(EVENTS, event("b", name="p", kind="Pod"))
        assert refused.message == (
            "Too many requests: [limit reached on type User for key system:apiserver, "
            "limit reached on type SourceAndObject for key Poddefaultp]"
        )

    limited(tmp_path, test, *({"type": kind, "qps": 1, "burst": 1} for kind in ("User", "SourceAndObject")))


def test_the_bucket_that_was_not_used_the_longest_is_forgotten(tmp_path):
    async def test(api):
        for name in ("x", "y"):
            await api.made(NS, {"metadata": {"name": name}})
        for namespace in ("default", "x", "default"):
            await api.post(f"{NS}/{namespace}/events", event("a", namespace))
        # A third namespace takes the place of x, whose bucket is full again.
        assert (await api.post(f"{NS}/y/events", event("a", "y"))).status == 201
        assert (await api.post(EVENTS, event("b"))).status == 429
        assert (await api.post(f"{NS}/x/events", event("b", "x"))).status == 201

    limited(tmp_path, test, {"type": "Namespace", "qps": 1, "burst": 1, "cacheSize": 2})


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ([], "limits: Invalid value: \\[\\]: must not be empty"),
        ([{"type": "Pod", "qps": 1, "burst": 1}], 'limits\\[0\\].type: Unsupported value: "Pod"'),
        ([{"type": "User", "qps": 0, "burst": 1}], "limits\\[0\\].qps: Invalid value: 0: must be positive"),
        ([{"type": "User", "qps": 1}], "limits\\[0\\].burst: Invalid value: 0: must be positive"),
        ([{"type": "User", "qps": 1, "burst": 1, "cacheSize": -1}], "limits\\[0\\].cacheSize: .*must not be negative"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_place(tmp_path, limits, message):
    async def main():
        async with serving(admission_options=options(tmp_path, *limits)):
            pass

    with pytest.raises(ConfigFileError, match=message):
        run(main())


def test_without_a_configuration_it_cannot_be_enabled():
    async def main():
        async with serving(admission_options=AdmissionOptions(frozenset({"EventRateLimit"}))):
            pass

    with pytest.raises(ConfigFileError, match="must not be empty"):
        run(main())
