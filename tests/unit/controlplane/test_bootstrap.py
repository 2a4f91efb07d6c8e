"""What exists after the first start, and stays as it is on the next."""

import base64
import stat

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from api_client import NS, SVC, served
from kapi.controlplane import bootstrap
from kapi.controlplane.bootstrap import BootstrapError, ensure_credentials, ensure_objects, write_kubeconfig
from kapi.controlplane.options import Options
from kapi.server.transport.inprocess import InProcessTransport


@served
async def test_system_namespaces_are_there(api):
    answer = await api.get(NS)
    assert answer.names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    for item in answer["items"]:
        assert item["metadata"]["labels"] == {"kubernetes.io/metadata.name": item["metadata"]["name"]}
        assert (item["spec"], item["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


@served
async def test_service_of_the_server_is_there(api):
    service = (await api.get(f"{SVC}/kubernetes")).json
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert service["spec"]["clusterIP"] == "10.0.0.1"
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]


@served
async def test_priority_classes_are_there(api):
    items = (await api.get("/apis/scheduling.k8s.io/v1/priorityclasses"))["items"]
    assert {item["metadata"]["name"]: (item["value"], item["preemptionPolicy"]) for item in items} == {
        "system-cluster-critical": (2_000_000_000, "PreemptLowerPriority"),
        "system-node-critical": (2_000_001_000, "PreemptLowerPriority"),
    }


@served
async def test_second_start_writes_nothing(api):
    await api.patch(f"{SVC}/kubernetes", {"metadata": {"labels": {"mine": "yes"}}})
    before = api.revision
    await ensure_objects(api.transport, 6443)
    assert api.revision == before
    assert (await api.get(f"{SVC}/kubernetes")).metadata["labels"]["mine"] == "yes"


@served
async def test_service_follows_the_port_of_the_server(api):
    await api.patch(f"{SVC}/kubernetes", {"metadata": {"labels": {"mine": "yes"}}})
    await ensure_objects(api.transport, 7000)
    service = (await api.get(f"{SVC}/kubernetes")).json
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 7000}]
    assert service["metadata"]["labels"]["mine"] == "yes"


@served
async def test_ca_of_clients_is_published_and_follows_the_ca(api):
    path = f"{NS}/kube-system/configmaps/extension-apiserver-authentication"
    assert (await api.get(path)).status == 404
    await ensure_objects(api.transport, 6443, authentication={"client-ca-file": "first"})
    assert (await api.get(path))["data"] == {"client-ca-file": "first"}
    await ensure_objects(api.transport, 6443, authentication={"client-ca-file": "second"})
    assert (await api.get(path))["data"] == {"client-ca-file": "second"}
    before = api.revision
    await ensure_objects(api.transport, 6443, authentication={"client-ca-file": "second"})
    assert api.revision == before


@served
async def test_field_manager_of_system_objects_is_kube_apiserver(api):
    (entry,) = (await api.get(f"{SVC}/kubernetes")).metadata["managedFields"]
    assert entry["manager"] == "kube-apiserver"


@served
async def test_what_cannot_be_made_is_told(api):
    stranger = InProcessTransport(api.pipeline, "eve", ())
    with pytest.raises(BootstrapError, match="POST /api/v1/namespaces was answered with 403"):
        await ensure_objects(stranger, 1)


def _mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    options = Options(data_dir=tmp_path_factory.mktemp("first") / "data", host="192.0.2.7")
    return options, ensure_credentials(options)


def test_keys_are_for_their_owner_only(first):
    options, credentials = first
    pki = options.data_dir / "pki"
    assert _mode(pki) == 0o700
    for path in (pki / "ca.key", credentials.server.key, credentials.admin.key, pki / "admin.token"):
        assert _mode(path) == 0o600, path
    assert len(credentials.token) >= 32


def test_administrator_is_a_master(first):
    certificate = x509.load_pem_x509_certificate(first[1].admin.certificate.read_bytes())
    names = {attribute.oid: attribute.value for attribute in certificate.subject}
    assert names == {NameOID.COMMON_NAME: "kubernetes-admin", NameOID.ORGANIZATION_NAME: "system:masters"}


def test_server_answers_to_its_names(first):
    certificate = x509.load_pem_x509_certificate(first[1].server.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "kubernetes.default.svc"} <= set(names.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "10.0.0.1", "192.0.2.7"} <= {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}


def test_credentials_are_found_again(first):
    options, credentials = first
    before = {path: path.read_bytes() for path in (options.data_dir / "pki").iterdir()}
    assert ensure_credentials(options) == credentials
    assert {path: path.read_bytes() for path in (options.data_dir / "pki").iterdir()} == before


def test_kubeconfig_has_everything_in_it_and_is_private(first, tmp_path):
    credentials = first[1]
    path = tmp_path / "new" / "config"
    write_kubeconfig(path, "https://127.0.0.1:6443", credentials)
    assert _mode(path) == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["current-context"] == "kapi"
    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == credentials.authority.read_bytes()
    user = config["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == credentials.admin.key.read_bytes()


def test_kubeconfig_that_others_could_read_is_closed(first, tmp_path):
    path = tmp_path / "config"
    path.write_text("old")
    path.chmod(0o644)
    write_kubeconfig(path, "https://127.0.0.1:6443", first[1])
    assert _mode(path) == 0o600
    assert bootstrap.ADMIN in path.read_text()


def test_data_directory_is_for_its_owner_only(tmp_path):
    ensure_credentials(Options(data_dir=tmp_path / "new" / "data"))
    assert _mode(tmp_path / "new" / "data") == 0o700
    assert _mode(tmp_path / "new" / "data" / "pki") == 0o700
