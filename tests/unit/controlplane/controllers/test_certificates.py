"""CertificateSigningRequests: what the built-in signers sign, who may decide, and when requests are deleted."""

import base64
import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller_api import with_controllers
from kapi.base.tls import Authority, KeyPair
from kapi.controlplane.controllers.certificates.approving import add_certificate_approving_controller
from kapi.controlplane.controllers.certificates.cleaner import add_certificate_cleaner_controller
from kapi.controlplane.controllers.certificates.request import CertificateRequest, signer_problem
from kapi.controlplane.controllers.certificates.signing import add_certificate_signing_controller
from kapi.controlplane.controllers.context import ControllerSettings
from kapi.server.admission.certificates import (
    CertificateSubjectRestriction,
    certificate_approval,
    certificate_signing,
)
from kapi.server.admission.chain import Admission
from kapi.server.authz.attributes import Attributes

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pki")
    files = KeyPair(directory / "ca.crt", directory / "ca.key")
    Authority.ensure(files, "tests")
    return files


def pkcs10(name="alice", groups=(), names=()):
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def request(pem, signer=CLIENT, usages=("client auth",), **spec):
    encoded = base64.b64encode(pem).decode()
    return {
        "metadata": {"name": "r"},
        "spec": {"request": encoded, "signerName": signer, "usages": list(usages), **spec},
    }


def decision(obj, kind):
    return {**obj, "status": {"conditions": [{"type": kind, "status": "True", "reason": "Test", "message": "m"}]}}


def node(*names, groups=("system:nodes",), name="system:node:n"):
    return pkcs10(name, groups, names)


NODE_USAGES = ("digital signature", "client auth")
SERVING_USAGES = ("digital signature", "key encipherment", "server auth")
DNS, MAIL = x509.DNSName("n"), x509.RFC822Name("a@example.com")


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        (request(pkcs10()), ""),
        (request(pkcs10(), usages=["client auth", "key encipherment", "digital signature"]), ""),
        (request(pkcs10(), usages=["server auth"]), "invalid usage for client certificate: server auth"),
        (
            request(pkcs10(), usages=["client auth", "server auth"]),
            "invalid usage for client certificate: client auth, server auth",
        ),
        (request(node(), KUBELET, NODE_USAGES), ""),
        (request(node(), KUBELET, [*NODE_USAGES, "key encipherment"]), ""),
        (request(node(groups=()), KUBELET, NODE_USAGES), "subject organization is not system:nodes"),
        (request(node(groups=["system:nodes", "x"]), KUBELET, NODE_USAGES), "subject organization is not system:nodes"),
        (request(node(name="n"), KUBELET, NODE_USAGES), "subject common name does not begin with system:node:"),
        (request(node(DNS), KUBELET, NODE_USAGES), "DNS subjectAltNames are not allowed"),
        (
            request(node(), KUBELET, ["client auth"]),
            "usages did not match [key encipherment digital signature client auth]",
        ),
        (request(node(DNS), SERVING, SERVING_USAGES), ""),
        (request(node(), SERVING, SERVING_USAGES), "DNS or IP subjectAltName is required"),
        (request(node(DNS, MAIL), SERVING, SERVING_USAGES), "email subjectAltNames are not allowed"),
        (
            request(node(DNS), SERVING, NODE_USAGES),
            "usages did not match [key encipherment digital signature server auth]",
        ),
    ],
)
def test_what_the_built_in_signers_sign(obj, problem):
    assert signer_problem(CertificateRequest(obj)) == problem


def with_signer(test):
    """Run `test(api, authority)` with the signing controller."""

    def runner(authority):
        @with_controllers(add_certificate_signing_controller, settings=ControllerSettings(authority_files=authority))
        async def main(api):
            await test(api, authority)

        main()

    runner.__name__ = test.__name__
    return runner


@with_signer
async def test_an_approved_request_gets_a_certificate_of_the_server(api, authority):
    made = await api.made(REQUESTS, request(pkcs10("alice", ["devs"]), expirationSeconds=3600))
    await api.run_until_idle()
    assert "certificate" not in (await api.get(f"{REQUESTS}/r")).json["status"]
    assert (await api.put(f"{REQUESTS}/r/approval", decision(made, "Approved"))).status == 200
    await api.run_until_idle()
    status = (await api.get(f"{REQUESTS}/r")).json["status"]
    issued = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.read_bytes()))
    assert issued.public_key() == KEY.public_key()
    assert issued.subject.rfc4514_string() == "CN=alice,O=devs"
    assert issued.not_valid_after_utc - issued.not_valid_before_utc == dt.timedelta(seconds=3900)
    usages = issued.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert issued.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert issued.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is False


@with_signer
async def test_a_certificate_has_the_names_of_its_request_and_lives_a_year_at_most(api, authority):
    obj = request(node(DNS), SERVING, SERVING_USAGES, expirationSeconds=10 * 365 * 86400)
    made = await api.made(REQUESTS, obj)
    await api.put(f"{REQUESTS}/r/approval", decision(made, "Approved"))
    await api.run_until_idle()
    status = (await api.get(f"{REQUESTS}/r")).json["status"]
    issued = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n"]
    assert issued.not_valid_after_utc - issued.not_valid_before_utc == dt.timedelta(days=365, minutes=5)


@with_signer
async def test_a_request_that_its_signer_does_not_allow_fails(api, authority):
    made = await api.made(REQUESTS, request(pkcs10(), usages=["server auth"]))
    await api.put(f"{REQUESTS}/r/approval", decision(made, "Approved"))
    await api.run_until_idle()
    status = (await api.get(f"{REQUESTS}/r")).json["status"]
    failed = status["conditions"][1]
    assert (failed["type"], failed["status"], failed["reason"]) == ("Failed", "True", "SignerValidationFailure")
    assert "certificate" not in status
    revision = api.revision
    await api.run_until_idle()
    assert api.revision == revision


@with_signer
async def test_denied_requests_and_those_of_other_signers_are_left_alone(api, authority):
    made = await api.made(REQUESTS, request(pkcs10()))
    await api.put(f"{REQUESTS}/r/approval", decision(made, "Denied"))
    other = request(pkcs10(), "example.com/other")
    other["metadata"]["name"] = "other"
    made = await api.made(REQUESTS, other)
    await api.put(f"{REQUESTS}/other/approval", decision(made, "Approved"))
    await api.run_until_idle()
    for name in ("r", "other"):
        assert "certificate" not in (await api.get(f"{REQUESTS}/{name}")).json["status"]


async def allow(api, user, verb, resource, *names):
    rule = {"verbs": [verb], "apiGroups": ["certificates.k8s.io"], "resources": [resource]}
    if names:
        rule["resourceNames"] = list(names)
    role = f"{user}-{verb}-{resource.replace('/', '-')}".replace(":", "-")
    await api.made(f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": [rule]})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": group},
    }
    await api.made(f"{RBAC}/clusterrolebindings", binding)


@with_controllers(add_certificate_approving_controller)
async def test_a_kubelet_that_may_ask_for_its_certificate_is_approved(api):
    async def ask(name, user, pem, *groups):
        obj = request(pem, KUBELET, NODE_USAGES)
        obj["metadata"]["name"] = name
        assert (await api.request("POST", REQUESTS, obj, transport=api.user(user, *groups))).status == 201

    for user in ("system:node:n", "system:node:m", "bootstrap"):
        await allow(api, user, "create", "certificatesigningrequests")
    await allow(api, "system:node:n", "create", "certificatesigningrequests/selfnodeclient")
    await allow(api, "bootstrap", "create", "certificatesigningrequests/nodeclient")
    await ask("own", "system:node:n", node(), "system:nodes")
    # Admission refuses this to a user of the group of nodes.
    await ask("of-another", "system:node:n", node(name="system:node:other"))
    await ask("without-right", "system:node:m", node(name="system:node:m"), "system:nodes")
    await ask("bootstrap", "bootstrap", node())
    await ask("not-a-kubelet", "bootstrap", pkcs10())
    await api.run_until_idle()
    found = {}
    for name in ("own", "of-another", "without-right", "bootstrap", "not-a-kubelet"):
        conditions = (await api.get(f"{REQUESTS}/{name}")).json["status"].get("conditions") or []
        found[name] = [(one["type"], one["reason"], one["message"]) for one in conditions]
    message = "kubelet client certificate after SubjectAccessReview."
    assert found == {
        "own": [("Approved", "AutoApproved", f"Auto approving self {message}")],
        "of-another": [],
        "without-right": [],
        "bootstrap": [("Approved", "AutoApproved", f"Auto approving {message}")],
        "not-a-kubelet": [],
    }


@with_controllers(add_certificate_cleaner_controller)
async def test_decided_requests_are_deleted_after_an_hour_and_others_after_a_day(api):
    made = await api.made(REQUESTS, request(pkcs10()))
    await api.put(f"{REQUESTS}/r/approval", decision(made, "Denied"))
    pending = request(pkcs10())
    pending["metadata"]["name"] = "pending"
    await api.made(REQUESTS, pending)
    await api.run_until_idle(3500)
    assert len((await api.get(REQUESTS)).names) == 2
    await api.run_until_idle(200)
    assert (await api.get(REQUESTS)).names == ["pending"]
    await api.run_until_idle(22.5 * 3600)
    assert (await api.get(REQUESTS)).names == ["pending"]
    await api.run_until_idle(3600)
    assert (await api.get(REQUESTS)).names == []


# -- admission --------------------------------------------------------------------------------------------------------


def with_plugins(api):
    async def may(user, verb, name):
        attributes = Attributes(user, verb, "certificates.k8s.io", "*", "signers", name=name)
        return (await api.services.authorizer.authorize(attributes)).allowed

    api.services.admission = Admission(
        {
            "CertificateApproval": certificate_approval(may),
            "CertificateSigning": certificate_signing(may),
            "CertificateSubjectRestriction": CertificateSubjectRestriction(),
        }
    )


@with_controllers()
async def test_approval_and_signing_need_the_right_for_the_signer(api):
    with_plugins(api)
    made = await api.made(REQUESTS, request(pkcs10()))
    await allow(api, "bob", "update", "certificatesigningrequests/approval")
    await allow(api, "bob", "update", "certificatesigningrequests/status")
    bob = api.user("bob")
    approved = decision(made, "Approved")
    answer = await api.request("PUT", f"{REQUESTS}/r/approval", approved, transport=bob)
    words = 'certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to'
    assert answer.error == (403, "Forbidden", f'{words} approve requests with signerName "{CLIENT}"')
    await allow(api, "bob", "approve", "signers", "kubernetes.io/*")
    answer = await api.request("PUT", f"{REQUESTS}/r/approval", approved, transport=bob)
    assert answer.status == 200
    failed = answer.json
    failed["status"]["conditions"].append({"type": "Failed", "status": "True", "reason": "x", "message": "y"})
    answer = await api.request("PUT", f"{REQUESTS}/r/status", failed, transport=bob)
    assert answer.error == (403, "Forbidden", f'{words} sign requests with signerName "{CLIENT}"')
    await allow(api, "bob", "sign", "signers", CLIENT)
    assert (await api.request("PUT", f"{REQUESTS}/r/status", failed, transport=bob)).status == 200


@with_controllers()
async def test_a_certificate_of_the_masters_cannot_be_asked_for(api):
    with_plugins(api)
    answer = await api.post(REQUESTS, request(pkcs10("alice", ["devs", "system:masters"])))
    why = f"use of {CLIENT} signer with system:masters group is not allowed"
    assert answer.error == (403, "Forbidden", f'certificatesigningrequests.certificates.k8s.io "r" is forbidden: {why}')
    other = request(pkcs10("alice", ["system:masters"]), "example.com/other")
    assert (await api.post(REQUESTS, other)).status == 201
