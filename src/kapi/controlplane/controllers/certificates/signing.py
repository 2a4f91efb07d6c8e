"""The certificatesigningrequest-signing controller: issues the certificates of requests that were approved.

It signs for the built-in signers with the server's own CA. A request that a signer does not allow gets the condition
Failed. Requests of other signers are left to them.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Final

from kapi.api.errors import Conflict, NotFound
from kapi.base.tls import Authority, KeyPair
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.certificates.request import RESOURCE, SIGNERS, CertificateRequest, signer_problem
from kapi.controlplane.controllers.context import enqueue_unless_deleted

if TYPE_CHECKING:
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext

DURATION: Final = dt.timedelta(days=365)
"""The life of a certificate whose request asks for none, and the longest of any."""


def add_certificate_signing_controller(context: ControllerContext) -> None:
    """Add the controller; none without a CA to sign with."""
    if context.settings.authority_files is None:
        return
    context.add(
        names.CERTIFICATE_SIGNING,
        CertificateSigningController(context, context.settings.authority_files),
        enqueue={RESOURCE: enqueue_unless_deleted},
        initial=context.all_of(RESOURCE),
    )


class CertificateSigningController:
    """Signs one request."""

    def __init__(self, context: ControllerContext, authority: KeyPair) -> None:
        self._context = context
        self._authority = authority

    async def reconcile(self, request: Request) -> None:
        """Issue the certificate of a request, or refuse it, once it is approved."""
        obj = self._context.view.get(RESOURCE, *request)
        if obj is None:
            return
        wanted = CertificateRequest(obj)
        is_decided = wanted.condition("Approved") is not None and wanted.condition("Denied") is None
        if not is_decided or wanted.signer not in SIGNERS or wanted.condition("Failed") or wanted.certificate:
            return
        if problem := signer_problem(wanted):
            wanted.add_condition("Failed", "SignerValidationFailure", problem)
        else:
            certificate = self._issue(wanted)
            obj["status"]["certificate"] = base64.b64encode(certificate).decode()
        # Conflict: it was changed since it was read, and that change has enqueued it again.
        with contextlib.suppress(Conflict, NotFound):
            await self._context.writer.update(obj, "status")

    def _issue(self, wanted: CertificateRequest) -> bytes:
        life = DURATION
        if wanted.expiration_seconds is not None:
            life = min(life, dt.timedelta(seconds=wanted.expiration_seconds))
        authority = Authority.ensure(self._authority, "kapi", clock=self._context.clock)
        return authority.sign(wanted.parsed, wanted.usages, life)
