"""The certificatesigningrequest-approving controller: approves what kubelets ask for, if their user may ask for it.

A kubelet asks for a client certificate with a bootstrap token, and later renews it with the certificate it has. Whether
it may is decided by authorization: the right to create `certificatesigningrequests/nodeclient` or `/selfnodeclient`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from kapi.api.errors import Conflict, NotFound
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.certificates.request import (
    KUBELET_CLIENT,
    RESOURCE,
    CertificateRequest,
    common_name,
    signer_problem,
)
from kapi.controlplane.controllers.context import enqueue_unless_deleted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext

_OWN: Final = "Auto approving self kubelet client certificate after SubjectAccessReview."
_ANY: Final = "Auto approving kubelet client certificate after SubjectAccessReview."


def add_certificate_approving_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    context.add(
        names.CERTIFICATE_APPROVING,
        CertificateApprovingController(context),
        enqueue={RESOURCE: enqueue_unless_deleted},
        initial=context.all_of(RESOURCE),
    )


class CertificateApprovingController:
    """Approves one request, or leaves it to a person."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def reconcile(self, request: Request) -> None:
        """Approve a request if it is a kubelet's and its user may make it."""
        obj = self._context.view.get(RESOURCE, *request)
        if obj is None:
            return
        wanted = CertificateRequest(obj)
        if wanted.certificate or wanted.condition("Approved") or wanted.condition("Denied"):
            return
        for subresource, message in _recognized(wanted):
            if await self._may(wanted, subresource):
                wanted.add_condition("Approved", "AutoApproved", message)
                # Conflict: it was changed since it was read, and that change has enqueued it again.
                with contextlib.suppress(Conflict, NotFound):
                    await self._context.writer.update(obj, "approval")
                return

    async def _may(self, wanted: CertificateRequest, subresource: str) -> bool:
        """Return True if the user of a request may create the sub-resource that stands for such requests."""
        spec = wanted.obj["spec"]
        attributes = {
            "group": "certificates.k8s.io",
            "version": "*",
            "resource": "certificatesigningrequests",
            "subresource": subresource,
            "verb": "create",
        }
        return await self._context.writer.is_allowed(
            {
                "user": spec.get("username", ""),
                "uid": spec.get("uid", ""),
                "groups": spec.get("groups") or [],
                "extra": spec.get("extra") or {},
                "resourceAttributes": attributes,
            }
        )


def _recognized(wanted: CertificateRequest) -> Iterator[tuple[str, str]]:
    """Yield the sub-resources whose creation would allow a request, each with the message of its approval."""
    if wanted.signer != KUBELET_CLIENT or signer_problem(wanted):
        return
    if wanted.username == common_name(wanted.parsed):
        yield "selfnodeclient", _OWN
    yield "nodeclient", _ANY
