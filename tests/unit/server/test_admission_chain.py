"""The admission chain: which plug-ins run for a write, how often, and what is measured."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from api_client import CM, cm, served
from custom_kinds import CRDS, GROUP, definition
from kapi.api.errors import Forbidden
from kapi.controlplane.admissionoptions import DEFAULT_OFF, ORDER, AdmissionOptions, parse_admission
from kapi.server.admission.chain import Admission, reinvocation_of
from kapi.server.admission.metrics import AdmissionMetrics


class Recorder:
    """Records the names of the writes it is given, and how often it was asked what it handles."""

    def __init__(self, operation="CREATE", *, again=False, refuses=False):
        self.operation = operation
        self.again = again
        self.refuses = refuses
        self.asked = []
        self.given = []

    def handles(self, operation, resource, subresource):
        self.asked.append((operation, resource.resource, subresource))
        return operation == self.operation and resource.resource == "configmaps"

    async def mutate(self, write, obj, old):
        reinvocation = reinvocation_of(write)
        self.given.append((write.name, reinvocation.is_second))
        if self.again:
            reinvocation.requested = True
        if self.refuses:
            raise Forbidden.of(write.resource.group_resource, write.name, "no")


class Validating(Recorder):
    mutate = None

    async def validate(self, write, obj, old):
        obj["data"] = {"spoilt": "yes"}


class Reading(Validating):
    reads_only = True

    async def validate(self, write, obj, old):
        self.given.append(obj)


@served
async def test_a_plugin_is_asked_once_per_kind_of_write(api):
    plugin = Recorder()
    api.services.admission = chain = Admission({"Recorder": plugin})
    for name in ("a", "b"):
        await api.made(CM, cm(name))
    assert plugin.asked == [("CREATE", "configmaps", "")]
    assert [name for name, _ in plugin.given] == ["a", "b"]
    chain.forget()
    plugin.operation = "UPDATE"
    await api.made(CM, cm("c"))
    assert plugin.asked == [("CREATE", "configmaps", "")] * 2
    assert [name for name, _ in plugin.given] == ["a", "b"]


@served
async def test_plugins_are_asked_again_when_what_is_served_changes(api):
    assert api.services.admission.forget in api.catalog.on_change
    changes = []
    api.catalog.on_change.append(lambda: changes.append(api.catalog.find(GROUP, "v1", "widgets") is not None))
    await api.made(CRDS, definition())
    assert changes[-1] is True


@served
async def test_mutating_plugins_run_once_more_where_one_asks_for_it(api):
    first, second = Recorder(), Recorder(again=True)
    api.services.admission = Admission({"First": first, "Second": second})
    await api.made(CM, cm("a"))
    assert first.given == second.given == [("a", False), ("a", True)]


@served
async def test_the_second_run_is_forgotten_with_its_write(api):
    plugin = Recorder(again=True)
    api.services.admission = Admission({"Recorder": plugin})
    await api.made(CM, cm("a"))
    await api.made(CM, cm("b"))
    assert plugin.given == [("a", False), ("a", True), ("b", False), ("b", True)]


@served
async def test_a_validating_plugin_gets_copies_unless_it_only_reads(api):
    reading = Reading()
    api.services.admission = Admission({"Validating": Validating(), "Reading": reading})
    assert "data" not in await api.made(CM, cm("a"))
    assert [obj["metadata"]["name"] for obj in reading.given] == ["a"]
    assert "data" not in reading.given[0]


@served
async def test_durations_are_counted_by_plugin_and_by_step(api):
    metrics = AdmissionMetrics()
    registry = CollectorRegistry()
    registry.register(metrics)
    refusing = Recorder("UPDATE", refuses=True)
    api.services.admission = Admission({"Recorder": Recorder(), "Refusing": refusing}, metrics)
    await api.made(CM, cm("a"))
    assert (await api.put(f"{CM}/a", cm("a", data={"b": "c"}))).status == 403
    page = generate_latest(registry).decode()
    plugin = "apiserver_admission_controller_admission_duration_seconds_count"
    assert f'{plugin}{{name="Recorder",operation="CREATE",rejected="false",type="admit"}} 1.0' in page
    assert f'{plugin}{{name="Refusing",operation="UPDATE",rejected="true",type="admit"}} 1.0' in page
    step = "apiserver_admission_step_admission_duration_seconds_count"
    assert f'{step}{{operation="CREATE",rejected="false",type="admit"}} 1.0' in page
    assert f'{step}{{operation="UPDATE",rejected="true",type="admit"}} 1.0' in page


# -- options ----------------------------------------------------------------------------------------------------------


def test_plugins_run_in_the_order_of_kubernetes_whatever_the_order_of_the_flags():
    names = parse_admission(enable="EventRateLimit,AlwaysPullImages").names
    assert names == tuple(name for name in ORDER if name not in DEFAULT_OFF - {"EventRateLimit", "AlwaysPullImages"})
    assert "LimitRanger" not in parse_admission(disable="LimitRanger").names
    assert AdmissionOptions().names[:3] == ("NamespaceLifecycle", "LimitRanger", "ServiceAccount")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"enable": "Nope"}, '--enable-admission-plugins: plugin "Nope" is unknown'),
        ({"disable": "Nope"}, '--disable-admission-plugins: plugin "Nope" is unknown'),
        ({"enable": "PodSecurity", "disable": "PodSecurity"}, "[PodSecurity] in --enable-admission-plugins and"),
    ],
)
def test_a_wrong_name_is_refused(flags, message):
    with pytest.raises(ValueError, match=r"plug") as error:
        parse_admission(**flags)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: AdmissionConfiguration\n", "admission.yaml:1: apiVersion: Required value"),
        (
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: Nope\n",
            "admission.yaml: plugins[0].name: 'Nope' is not a plug-in of this server",
        ),
        (
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugin: []\n",
            "admission.yaml:3: plugin: unknown field",
        ),
    ],
)
def test_a_wrong_configuration_file_is_refused(tmp_path, text, message):
    from kapi.controlplane.admission import _configurations

    path = tmp_path / "admission.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"admission\.yaml") as error:
        _configurations(path)
    assert message in str(error.value)
