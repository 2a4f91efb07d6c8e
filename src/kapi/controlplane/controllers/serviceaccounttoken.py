"""The serviceaccount-token controller: fills Secrets of type kubernetes.io/service-account-token.

Such a Secret names a ServiceAccount in an annotation and is given its token, its namespace and the CA certificate of
this server. It is deleted with the ServiceAccount, and is removed from ServiceAccounts that list it when it is deleted.
"""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING, Final

from kapi.api.access import uid_of
from kapi.api.errors import Conflict, NotFound
from kapi.base.jwt import SigningKey
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import request_for
from kapi.server.authn.serviceaccounts import secret_claims

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext

TYPE: Final = "kubernetes.io/service-account-token"
ACCOUNT: Final = "kubernetes.io/service-account.name"
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"


def add_serviceaccount_token_controller(context: ControllerContext) -> None:
    """Add the controller; none without a key to sign with."""
    if context.settings.account_key is None:
        return
    controller = ServiceAccountTokenController(context, context.settings.account_key)
    context.add(
        names.SERVICEACCOUNT_TOKEN,
        controller,
        enqueue={"secrets": _enqueue_secret, "serviceaccounts": controller.enqueue_account},
        initial=lambda: [request_for(item) for item in context.view.items("secrets") if _is_token(item)],
    )


def _is_token(item: Item) -> bool:
    return item.fields is not None and item.fields.get("type") == TYPE


def _enqueue_secret(event: Event) -> Iterable[Request]:
    return (request_for(event.item),) if _is_token(event.item) else ()


class ServiceAccountTokenController:
    """Reconciles Secrets that hold tokens of ServiceAccounts."""

    def __init__(self, context: ControllerContext, key: Path) -> None:
        self._context = context
        self._key = SigningKey(key)
        self._authority = context.settings.authority

    def enqueue_account(self, event: Event) -> Iterable[Request]:
        """The token Secrets of a namespace in which a ServiceAccount was deleted."""
        if not event.deleted:
            return ()
        # Which ones are its own is inside the Secrets; there are never many.
        items = self._context.view.items("secrets", event.item.namespace)
        return [request_for(item) for item in items if _is_token(item)]

    async def reconcile(self, request: Request) -> None:
        """Fill a Secret, or delete it with its ServiceAccount, or remove references to one that was deleted."""
        secret = self._context.view.get("secrets", *request)
        if secret is None:
            await self._remove_references(request)
        elif secret.get("type") == TYPE:
            account = self._account_of(secret)
            # Conflict: it was changed since it was read, and that change has enqueued it again.
            with contextlib.suppress(Conflict, NotFound):
                if account is None:
                    await self._context.writer.delete(secret)
                elif self._fill(secret, account):
                    await self._context.writer.update(secret)

    def _account_of(self, secret: Object) -> Object | None:
        annotations = secret["metadata"].get("annotations") or {}
        account = self._context.view.get(
            "serviceaccounts", secret["metadata"]["namespace"], annotations.get(ACCOUNT, "")
        )
        wanted = annotations.get(ACCOUNT_UID)
        return account if account is None or not wanted or uid_of(account) == wanted else None

    def _fill(self, secret: Object, account: Object) -> bool:
        """Add missing data to a Secret in place; return True if any was missing."""
        metadata, data = secret["metadata"], dict(secret.get("data") or {})
        authority = base64.b64encode(self._authority).decode()
        if authority and data.get("ca.crt") != authority:
            data["ca.crt"] = authority
        if not data.get("namespace"):
            data["namespace"] = base64.b64encode(metadata["namespace"].encode()).decode()
        if not data.get("token"):
            data["token"] = base64.b64encode(self._key.sign(secret_claims(account, secret)).encode()).decode()
        if data == secret.get("data"):
            return False
        secret["data"] = data
        metadata["annotations"] = {**(metadata.get("annotations") or {}), ACCOUNT_UID: account["metadata"]["uid"]}
        return True

    async def _remove_references(self, request: Request) -> None:
        """Remove a Secret that was deleted from the ServiceAccounts of its namespace that list it."""
        for item in self._context.view.items("serviceaccounts", request.namespace):
            account = self._context.view.decode("serviceaccounts", item)
            listed = account.get("secrets") or []
            kept = [reference for reference in listed if reference.get("name") != request.name]
            if len(kept) != len(listed):
                account["secrets"] = kept
                await self._context.writer.update(account)
