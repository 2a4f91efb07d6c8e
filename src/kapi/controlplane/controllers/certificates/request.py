"""A CertificateSigningRequest as its controllers see it: what is asked for, by whom, and what was decided.

What the built-in signers sign is in `signer_problem`, by the rules of Kubernetes.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object

RESOURCE: Final = "certificatesigningrequests.certificates.k8s.io"
API_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
LEGACY: Final = "kubernetes.io/legacy-unknown"
SIGNERS: Final = frozenset({API_CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY})

_NODES: Final = "system:nodes"
_NODE_PREFIX: Final = "system:node:"
_KINDS: Final[dict[type[x509.GeneralName], str]] = {
    x509.RFC822Name: "email",
    x509.UniformResourceIdentifier: "URI",
    x509.DNSName: "DNS",
    x509.IPAddress: "IP",
}
_SIGNING: Final = frozenset({"digital signature", "key encipherment"})


class CertificateRequest:
    """One CertificateSigningRequest."""

    def __init__(self, obj: Object) -> None:
        self.obj = obj
        spec = obj.get("spec") or {}
        self.signer: str = spec.get("signerName", "")
        self.username: str = spec.get("username", "")
        self.usages = frozenset(spec.get("usages") or ())
        self.expiration_seconds: int | None = spec.get("expirationSeconds")
        self._pem = base64.b64decode(spec.get("request") or "")

    @property
    def parsed(self) -> x509.CertificateSigningRequest:
        """The PKCS#10 request; it was validated when it was created."""
        start = self._pem.index(b"-----BEGIN")
        return x509.load_pem_x509_csr(self._pem[start:])

    def condition(self, kind: str) -> dict[str, Any] | None:
        """Return the condition of a type, if it is there."""
        for condition in (self.obj.get("status") or {}).get("conditions") or ():
            if condition.get("type") == kind:
                found: dict[str, Any] = condition
                return found
        return None

    @property
    def certificate(self) -> bytes:
        """The PEM of what was issued; empty before."""
        return base64.b64decode((self.obj.get("status") or {}).get("certificate") or "")

    def add_condition(self, kind: str, reason: str, message: str) -> None:
        """Add a condition that is True."""
        conditions = self.obj.setdefault("status", {}).setdefault("conditions", [])
        conditions.append({"type": kind, "status": "True", "reason": reason, "message": message})


def common_name(request: x509.CertificateSigningRequest) -> str:
    """Return the common name of a request's subject."""
    found = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def organizations(request: x509.CertificateSigningRequest) -> list[str]:
    """Return the organizations of a request's subject: the groups of the user."""
    return [str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def signer_problem(request: CertificateRequest) -> str:
    """Return why a built-in signer refuses a request; empty if it signs it."""
    return next(_problems(request), "")


def _problems(request: CertificateRequest) -> Iterator[str]:
    if request.signer == API_CLIENT:
        if "client auth" not in request.usages or request.usages - _SIGNING - {"client auth"}:
            yield f"invalid usage for client certificate: {', '.join(sorted(request.usages))}"
    elif request.signer in (KUBELET_CLIENT, KUBELET_SERVING):
        yield from _kubelet_problems(request)


def _kubelet_problems(request: CertificateRequest) -> Iterator[str]:
    """The rules of both certificates of a kubelet."""
    parsed = request.parsed
    kinds = {type(name) for name in _alternative_names(parsed)}
    if organizations(parsed) != [_NODES]:
        yield f"subject organization is not {_NODES}"
    if not common_name(parsed).startswith(_NODE_PREFIX):
        yield f"subject common name does not begin with {_NODE_PREFIX}"
    refused: list[type[x509.GeneralName]] = [x509.RFC822Name, x509.UniformResourceIdentifier]
    usage = "server auth"
    if request.signer == KUBELET_CLIENT:
        refused += [x509.DNSName, x509.IPAddress]
        usage = "client auth"
    elif kinds.isdisjoint({x509.DNSName, x509.IPAddress}):
        yield "DNS or IP subjectAltName is required"
    for kind in refused:
        if kind in kinds:
            yield f"{_KINDS[kind]} subjectAltNames are not allowed"
    if request.usages | {"key encipherment"} != _SIGNING | {usage}:
        yield f"usages did not match [key encipherment digital signature {usage}]"


def _alternative_names(request: x509.CertificateSigningRequest) -> Iterator[x509.GeneralName]:
    try:
        yield from request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
