"""Writes of kinds that are stored and not enforced are answered with a warning."""

import pytest

from api_client import CM, JSON_PATCH, NS, TABLE, cm, served
from kapi.server.unenforced import UNENFORCED

QUOTAS = f"{NS}/default/resourcequotas"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
QUOTA = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
NO_QUOTA = "resource quotas are not enforced by this server: only their status is kept up to date"
REMOTE = "requests are not forwarded to other API servers by this server"


@served
async def test_every_kind_in_the_table_is_served(api):
    kinds = {resource.group_kind for resource in api.catalog}
    assert UNENFORCED.keys() <= kinds


@served
async def test_create_update_and_patch_warn(api):
    created = await api.post(QUOTAS, QUOTA)
    assert (created.status, created.warnings) == (201, [NO_QUOTA])
    assert (await api.put(f"{QUOTAS}/q", created.json)).warnings == [NO_QUOTA]
    assert (await api.patch(f"{QUOTAS}/q", [], JSON_PATCH)).warnings == [NO_QUOTA]
    assert (await api.post(QUOTAS, {**QUOTA, "metadata": {"name": "r"}}, dryRun="All")).warnings == [NO_QUOTA]


@served
async def test_reads_deletions_status_and_refused_writes_do_not_warn(api):
    quota = (await api.post(QUOTAS, QUOTA)).json
    for answer in (
        await api.get(f"{QUOTAS}/q"),
        await api.get(QUOTAS),
        await api.put(f"{QUOTAS}/q/status", quota),
        await api.post(QUOTAS, QUOTA),
        await api.delete(f"{QUOTAS}/q"),
    ):
        assert answer.warnings == []


@pytest.mark.parametrize(
    ("path", "obj", "word"),
    [
        (f"{NS}/default/limitranges", {"metadata": {"name": "a"}, "spec": {"limits": []}}, "limit ranges"),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {"metadata": {"name": "a"}},
            "webhooks",
        ),
    ],
)
@served
async def test_warning_names_what_is_not_enforced(api, path, obj, word):
    (warning,) = (await api.post(path, obj)).warnings
    assert word in warning


@served
async def test_only_remote_api_services_warn(api):
    spec = {"group": "a.example", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    local = {"metadata": {"name": "v1.a.example"}, "spec": spec}
    assert (await api.post(SERVICES, local)).warnings == []
    service = {"name": "s", "namespace": "default"}
    remote = {
        "metadata": {"name": "v1.b.example"},
        "spec": {**spec, "group": "b.example", "service": service, "insecureSkipTLSVerify": True},
    }
    assert (await api.post(SERVICES, remote)).warnings == [REMOTE]
    for accept in (TABLE, "application/yaml"):
        answer = await api.patch(
            f"{SERVICES}/v1.b.example", {"metadata": {"labels": {"a": accept[-1]}}}, headers={"accept": accept}
        )
        assert (answer.status, answer.warnings) == (200, [REMOTE])


@served
async def test_enforced_kinds_do_not_warn(api):
    assert (await api.post(CM, cm("a"))).warnings == []
