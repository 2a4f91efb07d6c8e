"""Admission of CertificateSigningRequests: who may approve and sign for a signer, and what no client may ask for.

CertificateApproval, CertificateSigning and CertificateSubjectRestriction of Kubernetes.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from kapi.api.errors import Forbidden
from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE, UPDATE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapi.api.meta import Object
    from kapi.api.user import User
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

    MayUseSigner = Callable[[User, str, str], Awaitable[bool]]
    """Whether a user may apply a verb (`approve`, `sign`) to a signer by name."""

REQUESTS: Final = GroupResource("certificates.k8s.io", "certificatesigningrequests")
API_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
MASTERS: Final = "system:masters"


class SignerPermission:
    """Refuses a decision about a request, or its certificate, to users who may not decide for its signer."""

    reads_only = True

    def __init__(self, subresource: str, verb: str, may: MayUseSigner) -> None:
        self._subresource = subresource
        self._verb = verb
        self._may = may

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for the sub-resource in question."""
        return operation == UPDATE and subresource == self._subresource and resource.group_resource == REQUESTS

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Ask authorization, for the signer by its name and for all signers of its domain."""
        if obj is None or old is None or (self._verb == "sign" and not _is_signed(obj, old)):
            return
        signer: str = (old.get("spec") or {}).get("signerName", "")
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            if await self._may(write.user, self._verb, name):
                return
        why = f'user not permitted to {self._verb} requests with signerName "{signer}"'
        raise Forbidden.of(REQUESTS, write.name, why)


def _is_signed(obj: Object, old: Object) -> bool:
    """Return True if an update of the status is one that only a signer makes."""
    now, before = obj.get("status") or {}, old.get("status") or {}
    return now.get("certificate") != before.get("certificate") or now.get("conditions") != before.get("conditions")


class CertificateSubjectRestriction:
    """Refuses requests for client certificates of the group system:masters."""

    reads_only = True

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for the creation of a request."""
        return operation == CREATE and not subresource and resource.group_resource == REQUESTS

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Look at the subject of the request."""
        spec = (obj or {}).get("spec") or {}
        if spec.get("signerName") != API_CLIENT:
            return
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        pem = base64.b64decode(spec.get("request") or "")
        try:
            request = x509.load_pem_x509_csr(pem[max(pem.find(b"-----BEGIN"), 0) :])
        except ValueError:
            return  # Validation says what is wrong.
        groups = {one.value for one in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
        if MASTERS in groups:
            why = f"use of {API_CLIENT} signer with {MASTERS} group is not allowed"
            raise Forbidden.of(REQUESTS, write.name, why)


def certificate_approval(may: MayUseSigner) -> SignerPermission:
    """Return the plug-in that asks who may approve."""
    return SignerPermission("approval", "approve", may)


def certificate_signing(may: MayUseSigner) -> SignerPermission:
    """Return the plug-in that asks who may sign."""
    return SignerPermission("status", "sign", may)
