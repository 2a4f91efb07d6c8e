"""Plug-ins for Pods, nodes and namespaces: what the recorded programs do not reach."""

import asyncio
import random
import time

import pytest

from api_client import NS, PODS, SVC, cm, pod, served, serving
from kapi.api.errors import Forbidden, PlainError
from kapi.controlplane.admissionoptions import AdmissionOptions
from kapi.registry.request import CREATE, Write
from kapi.server.admission.fixed import AlwaysAdmit, AlwaysDeny
from kapi.server.admission.pods.pullpolicy import AlwaysPullImages
from kapi.server.admission.pods.tolerations import are_allowed, is_superset, merge_tolerations
from kapi.server.configfile import ConfigFileError
from virtual_time import run

NODES = "/api/v1/nodes"
NODE_USER = ("system:node:n1", "system:nodes", "system:masters")


def with_plugins(*names, disabled=(), **more):
    """Make a test of a coroutine function that gets a server with these opt-in plug-ins."""
    options = AdmissionOptions(frozenset(names), frozenset({"ServiceAccount", *disabled}), **more)

    def decorate(test):
        def runner():
            async def main():
                async with serving(admission_options=options) as api:
                    await test(api)

            run(main())

        runner.__name__ = test.__name__
        return runner

    return decorate


def node(name="n1", allocatable=None, labels=None, features=()):
    status = {"allocatable": allocatable or {}, "declaredFeatures": list(features)}
    return {"metadata": {"name": name, "labels": labels or {}}, "status": status}


def sized(cpu, memory="64Mi", name="c"):
    requests = {"cpu": cpu, "memory": memory}
    return {"name": name, "image": "i", "resources": {"requests": requests, "limits": requests}}


# -- tolerations ------------------------------------------------------------------------------------------------------


def test_a_toleration_of_everything_replaces_the_others():
    everything = {"operator": "Exists"}
    one = {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}
    assert merge_tolerations([one], [everything]) == [everything]
    assert merge_tolerations([everything], [one]) == [everything]
    assert merge_tolerations([one, dict(one)], [dict(one)]) == [one]


@pytest.mark.parametrize(
    ("greater", "lesser", "expected"),
    [
        ({"key": "a"}, {"key": "a", "operator": "Equal"}, True),
        ({"key": "a"}, {"key": "a", "operator": "Exists"}, False),
        ({"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}, False),
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, {"key": "a", "operator": "Exists"}, False),
        (
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 6},
            False,
        ),
        (
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            True,
        ),
        ({"key": "a", "operator": "Lt", "value": "1"}, {"key": "a", "operator": "Equal", "value": "1"}, False),
    ],
)
def test_one_toleration_includes_another(greater, lesser, expected):
    assert is_superset(greater, lesser) is expected


def includes(greater, lesser):
    """Kubernetes' rule, for one pair."""
    empty = {"key": "", "operator": "", "value": "", "effect": "", "tolerationSeconds": None}
    outer, inner = {**empty, **greater}, {**empty, **lesser}
    if outer == inner:
        return True
    if inner["key"] != outer["key"] and (outer["key"] or outer["operator"] != "Exists"):
        return False
    if outer["effect"] not in ("", inner["effect"]):
        return False
    if outer["effect"] == "NoExecute" and outer["tolerationSeconds"] is not None:
        seconds = inner["tolerationSeconds"]
        if seconds is None or seconds > outer["tolerationSeconds"]:
            return False
    if outer["operator"] in ("", "Equal"):
        return inner["operator"] == "Equal" and inner["value"] == outer["value"]
    return outer["operator"] == "Exists"


def merged_by_pairs(everything):
    merged = []
    for index, one in enumerate(everything):
        later = everything[index + 1 :]
        if not any(includes(kept, one) for kept in merged) and not any(
            two != one and includes(two, one) for two in later
        ):
            merged.append(one)
    return merged


@pytest.mark.parametrize("seed", range(60))
def test_tolerations_are_merged_as_if_each_were_compared_with_each(seed):
    rand = random.Random(seed)

    def toleration():
        fields = {
            "key": rand.choice(("", "a", "b")),
            "operator": rand.choice(("", "Equal", "Exists", "Exists", "Lt")),
            "value": rand.choice(("", "x")),
            "effect": rand.choice(("", "NoExecute", "NoExecute", "NoSchedule")),
            "tolerationSeconds": rand.choice((None, 1, 2, 3)),
        }
        return {key: value for key, value in fields.items() if value not in ("", None)}

    for _ in range(20):
        first, second = ([toleration() for _ in range(rand.randint(0, 6))] for _ in range(2))
        assert merge_tolerations(first, second) == merged_by_pairs(first + second)
        expected = not second or all(any(includes(one, two) for one in second) for two in first)
        assert are_allowed(first, second) is expected


def test_the_merge_of_many_tolerations_takes_time_in_proportion():
    def seconds(count):
        many = [
            {"key": f"k{index}", "operator": "Equal", "value": "v", "effect": "NoSchedule"} for index in range(count)
        ]
        began = time.process_time()
        assert len(merge_tolerations(many, [])) == count
        return time.process_time() - began

    # Four times as many take four times as long; sixteen times if each were compared with each.
    assert min(seconds(8000) for _ in range(3)) < 10 * min(seconds(2000) for _ in range(3))


@served
async def test_a_large_pod_is_merged_and_evaluated_like_a_small_one(api):
    scheduling = {"tolerations": [{"key": "k1", "operator": "Exists"}]}
    await api.made(
        "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "r"}, "handler": "h", "scheduling": scheduling}
    )
    await api.made(NS, {"metadata": {"name": "n", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
    many = [{"key": f"k{index}", "value": "v" * 50, "effect": "NoSchedule"} for index in range(400)]
    made = await api.made(f"{NS}/n/pods", pod(runtimeClassName="r", tolerations=many))
    keys = [one["key"] for one in made["spec"]["tolerations"]]
    assert (len(keys), keys.count("k1"), keys[-1]) == (402, 1, "k1")
    answer = await api.post(f"{NS}/n/pods", pod("q", hostPID=True, tolerations=many))
    why = 'violates PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    assert answer.error == (403, "Forbidden", f'pods "q" is forbidden: {why}')


@with_plugins(toleration_seconds=(10, 20))
async def test_the_default_toleration_seconds_are_configured(api):
    made = await api.made(PODS, pod())
    found = {one["key"]: one["tolerationSeconds"] for one in made["spec"]["tolerations"]}
    assert found == {"node.kubernetes.io/not-ready": 10, "node.kubernetes.io/unreachable": 20}


@with_plugins(disabled=["DefaultTolerationSeconds", "TaintNodesByCondition"])
async def test_plugins_that_are_on_by_default_can_be_disabled(api):
    assert "tolerations" not in (await api.made(PODS, pod()))["spec"]
    assert "taints" not in (await api.made(NODES, node())).get("spec", {})


def plugin_configuration(tmp_path, name, text):
    (tmp_path / "plugin.yaml").write_text(text)
    path = tmp_path / "admission.yaml"
    plugins = f"plugins: [{{name: {name}, path: plugin.yaml}}]\n"
    path.write_text(f"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n{plugins}")
    return path


def test_tolerations_are_restricted_by_the_configuration(tmp_path):
    text = (
        "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n"
        "default: [{key: d, operator: Exists}]\nwhitelist: [{key: d, operator: Exists}]\n"
    )
    path = plugin_configuration(tmp_path, "PodTolerationRestriction", text)

    @with_plugins("PodTolerationRestriction", disabled=["DefaultTolerationSeconds"], config_file=path)
    async def test(api):
        assert (await api.made(PODS, pod()))["spec"]["tolerations"] == [{"key": "d", "operator": "Exists"}]
        answer = await api.post(PODS, pod("q", tolerations=[{"key": "x", "operator": "Exists"}]))
        why = "pod tolerations (possibly merged with namespace default tolerations) conflict with its cluster whitelist"
        assert (answer.status, answer.message) == (500, why)

    test()


def test_tolerations_of_the_configuration_are_validated(tmp_path):
    text = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\ndefault: [{key: -}]\n"
    path = plugin_configuration(tmp_path, "PodTolerationRestriction", text)

    @with_plugins("PodTolerationRestriction", config_file=path)
    async def test(api):
        raise AssertionError("the server has started")

    with pytest.raises(ConfigFileError, match=r"plugin\.yaml:3: default\[0\]\.key: Invalid value"):
        test()


def test_node_selectors_are_configured_by_namespace(tmp_path):
    text = "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b, default: 'a=b,c=d'}\n"
    path = plugin_configuration(tmp_path, "PodNodeSelector", text)

    @with_plugins("PodNodeSelector", config_file=path)
    async def test(api):
        assert (await api.made(PODS, pod()))["spec"]["nodeSelector"] == {"a": "b"}
        assert (await api.made(PODS, pod("q", nodeSelector={"c": "d"})))["spec"]["nodeSelector"] == {"a": "b", "c": "d"}
        answer = await api.post(PODS, pod("r", nodeSelector={"e": "f"}))
        why = "pod node label selector labels conflict with its namespace whitelist"
        assert answer.error == (403, "Forbidden", f'pods "r" is forbidden: {why}')

    test()


@pytest.mark.parametrize("text", ["podNodeSelectorPluginConfig: {a: 1}\n", "podNodeSelectorPluginConfig: x\n", "[]\n"])
def test_node_selectors_of_the_configuration_are_texts(tmp_path, text):
    path = plugin_configuration(tmp_path, "PodNodeSelector", text)

    @with_plugins("PodNodeSelector", config_file=path)
    async def test(api):
        raise AssertionError("the server has started")

    with pytest.raises(ConfigFileError):
        test()


# -- images -----------------------------------------------------------------------------------------------------------


@with_plugins("AlwaysPullImages")
async def test_an_update_without_a_new_image_keeps_its_pull_policy(api):
    made = await api.made(PODS, pod())
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    answer = await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert answer.status == 200


@served
async def test_a_pull_policy_that_another_plugin_has_set_is_refused(api):
    resource = api.catalog.find("", "v1", "pods")
    write = Write(CREATE, resource, lookup=api.catalog, now=api.clock.now(), namespace="n", name="p")
    wanted = pod(volumes=[{"name": "v", "image": {"pullPolicy": "Never"}}])
    wanted["spec"]["containers"][0]["imagePullPolicy"] = "Never"
    with pytest.raises(PlainError) as caught:
        await AlwaysPullImages().validate(write, wanted, None)
    supported = 'Unsupported value: "Never": supported values: "Always"'
    assert caught.value.message == (
        f'[pods "p" is forbidden: spec.containers[0].imagePullPolicy: {supported}, '
        f'pods "p" is forbidden: spec.volumes[0].image.pullPolicy: {supported}]'
    )


# -- resizes ----------------------------------------------------------------------------------------------------------


async def resize(api, *containers, **spec):
    current = (await api.get(f"{PODS}/p")).json
    current["spec"].update({"containers": list(containers), **spec})
    return await api.put(f"{PODS}/p/resize", current)


@served
async def test_a_pod_is_not_resized_to_more_than_its_node_can_allocate(api):
    await api.made(NODES, node(allocatable={"cpu": "2", "memory": "1Gi"}))
    await api.made(PODS, pod(containers=[sized("1")], nodeName="n1"))
    answer = await resize(api, sized("2500m", "2Gi"))
    why = "cpu, requested: 2500, allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824"
    why = f"node didn't have enough allocatable resources: {why}"
    assert answer.error == (403, "Forbidden", f'pods "p" is forbidden: {why}')
    assert answer["details"] == {"name": "p", "kind": "pods", "causes": [{"reason": "NodeCapacity"}]}
    assert (await resize(api, sized("2"))).status == 200


@served
async def test_a_pod_is_resized_on_nodes_with_linux_only(api):
    await api.made(NODES, node(allocatable={"cpu": "2", "memory": "1Gi"}, labels={"kubernetes.io/os": "windows"}))
    await api.made(PODS, pod(containers=[sized("1")], nodeName="n1"))
    answer = await resize(api, sized("2"))
    assert answer.message.endswith('pod resize is only supported on linux nodes, node "n1" is "windows"')
    assert answer["details"]["causes"] == [{"reason": "UnsupportedPlatform"}]


@served
async def test_a_pod_on_a_node_that_is_gone_is_not_resized(api):
    await api.made(PODS, pod(containers=[sized("1")], nodeName="n1"))
    answer = await resize(api, sized("2"))
    assert answer.error == (403, "Forbidden", 'pods "p" is forbidden: node "n1" not found')


@served
async def test_resources_of_a_whole_pod_are_resized_on_nodes_that_declare_it(api):
    whole = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    await api.made(NODES, node(allocatable={"cpu": "4", "memory": "1Gi"}))
    await api.made(PODS, pod(containers=[sized("500m")], nodeName="n1", resources=whole))
    more = {"requests": {"cpu": "1500m"}, "limits": {"cpu": "2"}}
    answer = await resize(api, sized("500m"), resources=more)
    missing = "InPlacePodLevelResourcesVerticalScaling"
    why = f'pod update requires features {missing} which are not available on node "n1"'
    assert answer.error == (403, "Forbidden", f'pods "p" is forbidden: {why}')
    await api.patch(f"{NODES}/n1/status", {"status": {"declaredFeatures": [missing]}})
    assert (await resize(api, sized("500m"), resources=more)).status == 200


# -- kubelets ---------------------------------------------------------------------------------------------------------


@served
async def test_a_kubelet_changes_only_capacity_and_conditions_of_a_claim(api):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = f"{NS}/default/persistentvolumeclaims"
    await api.made(claims, {"metadata": {"name": "c"}, "spec": spec})
    transport = api.user(*NODE_USER)

    async def update(patch):
        headers = {"content-type": "application/merge-patch+json"}
        return await api.request("PATCH", f"{claims}/c/status", patch, headers=headers, transport=transport)

    assert (await update({"status": {"capacity": {"storage": "2Gi"}}})).status == 200
    answer = await update({"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Bound"}})
    allowed = 'node "n1" is not allowed to update fields other than status.quantity and status.conditions'
    why = f"{allowed}: metadata.labels, status.phase"
    assert answer.error == (403, "Forbidden", f'persistentvolumeclaims "c" is forbidden: {why}')


@served
async def test_a_kubelet_without_a_name_is_refused(api):
    answer = await api.request("POST", NODES, node(), transport=api.user("system:node:", *NODE_USER[1:]))
    assert answer.message == 'nodes "n1" is forbidden: could not determine node from user "system:node:"'


@served
async def test_the_drivers_of_volumes_name_audiences_of_tokens(api):
    plugin = dict(api.services.admission._mutating)["NodeRestriction"]
    driver = {"metadata": {"name": "d.io"}, "spec": {"tokenRequests": [{"audience": "a"}, {"audience": ""}]}}
    await api.made("/apis/storage.k8s.io/v1/csidrivers", driver)
    disk = {"metadata": {"name": "pd.csi.storage.gke.io"}, "spec": {"tokenRequests": [{"audience": "g"}]}}
    await api.made("/apis/storage.k8s.io/v1/csidrivers", disk)
    volume = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "d.io", "volumeHandle": "h"},
    }
    await api.made("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": volume})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "v"}
    await api.made(f"{NS}/default/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim})
    projected = {"sources": [{"serviceAccountToken": {"path": "t", "audience": "p"}}]}
    cases = {
        "claimed": ({"persistentVolumeClaim": {"claimName": "c"}}, {"a", ""}),
        "inline": ({"csi": {"driver": "d.io"}}, {"a", ""}),
        "migrated": ({"gcePersistentDisk": {"pdName": "d"}}, {"g"}),
        "projected": ({"projected": projected}, {"p"}),
    }
    resource = api.catalog.find("", "v1", "serviceaccounts")
    for name, (volume, audiences) in cases.items():
        made = await api.made(PODS, pod(name, nodeName="n1", serviceAccountName="s", volumes=[{"name": "v", **volume}]))
        for audience in ("a", "g", "p", "x", ""):
            write = Write(
                CREATE,
                resource,
                lookup=api.catalog,
                now=api.clock.now(),
                namespace="default",
                name="s",
                subresource="token",
            )
            why = await plugin._refuse_audience(write, made, [audience])
            # The writes of the server are authorized, so its own user is not refused; a kubelet is.
            assert why == ""
            write.user = type(write.user)("system:node:n1", ("system:nodes",))
            why = await plugin._refuse_audience(write, made, [audience])
            assert (why == "") is (audience in audiences), (name, audience, why)


# -- namespaces, Services, everything ---------------------------------------------------------------------------------


@with_plugins("NamespaceAutoProvision")
async def test_a_namespace_is_created_with_the_first_object_in_it(api):
    assert (await api.post(f"{NS}/new/configmaps", cm(), dryRun="All")).status == 404
    assert (await api.get(f"{NS}/new")).status == 404
    many = await asyncio.gather(*(api.post(f"{NS}/new/configmaps", cm(f"m{index}")) for index in range(5)))
    assert [answer.status for answer in many] == [201] * 5
    namespace = (await api.get(f"{NS}/new")).json
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "new"}
    assert namespace["status"] == {"phase": "Active"}
    answer = await api.post(f"{NS}/UPPER/configmaps", cm())
    assert answer.status == 403
    assert answer.message.startswith('configmaps "a" is forbidden: Namespace "UPPER" is invalid: metadata.name:')


@with_plugins("DenyServiceExternalIPs")
async def test_a_service_keeps_the_external_ips_that_it_has(api):
    plugin = dict(api.services.admission._validating)["DenyServiceExternalIPs"]
    spec = {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]}
    answer = await api.post(SVC, {"metadata": {"name": "s"}, "spec": spec})
    assert answer.message == 'services "s" is forbidden: Use of external IPs is denied by admission control'
    fewer = {"metadata": {"name": "s"}, "spec": {"externalIPs": ["1.2.3.4"]}}
    more = {"metadata": {"name": "s"}, "spec": {"externalIPs": ["1.2.3.4", "5.6.7.8"]}}
    await plugin.validate(None, fewer, more)


@served
async def test_always_deny_refuses_all_writes_and_always_admit_none(api):
    resource = api.catalog.find("", "v1", "configmaps")
    assert AlwaysDeny().handles("CONNECT", resource, "")
    assert not AlwaysAdmit().handles(CREATE, resource, "")
    write = Write(CREATE, resource, lookup=api.catalog, now=api.clock.now(), namespace="n")
    with pytest.raises(Forbidden) as caught:
        await AlwaysDeny().mutate(write, {"metadata": {"generateName": "m-"}}, None)
    assert caught.value.message == 'configmaps "m-" is forbidden: admission control is denying all modifications'
