"""Tokens of service accounts, for Secrets of the type kubernetes.io/service-account-token that somebody made for one.

Such a Secret names an account in an annotation and is filled with its token, the namespace and the certificate of this
server. It goes with the account; and an account that lists a Secret which went loses the entry.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from kapi.api.access import uid_of
from kapi.api.errors import Conflict, NotFound
from kapi.base.jwt import SigningKey
from kapi.controller.reconcile import Request
from kapi.server.authn.serviceaccounts import secret_claims

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.house import House

NAME: Final = "serviceaccount-token-controller"
TYPE: Final = "kubernetes.io/service-account-token"
ACCOUNT: Final = "kubernetes.io/service-account.name"
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"


def issue_tokens(house: House) -> None:
    """Add the controller; without a key to sign with there is none."""
    if house.settings.account_key is None:
        return
    issuer = TokenIssuer(house, house.settings.account_key)
    house.add(
        NAME,
        issuer.reconcile,
        hear={"secrets": _secret_heard, "serviceaccounts": issuer.account_heard},
        initial=lambda: [_request(item) for item in house.inventory.items("secrets") if _is_token(item)],
    )


def _is_token(item: Item) -> bool:
    return item.fields is not None and item.fields.get("type") == TYPE


def _request(item: Item) -> Request:
    return Request(item.namespace, item.name)


def _secret_heard(event: Event) -> Iterable[Request]:
    return (_request(event.item),) if _is_token(event.item) else ()


class TokenIssuer:
    """Reconciles Secrets that hold tokens of service accounts."""

    def __init__(self, house: House, key: Path) -> None:
        self._house = house
        self._key = SigningKey(key)
        self._authority = house.settings.authority

    def account_heard(self, event: Event) -> Iterable[Request]:
        """When an account goes, its tokens do."""
        if not event.deleted:
            return ()
        # Which of them are its own is written inside; there are never many.
        items = self._house.inventory.items("secrets", event.item.namespace)
        return [_request(item) for item in items if _is_token(item)]

    async def reconcile(self, request: Request) -> None:
        """Fill a Secret, or remove it with its account, or remove the word of it."""
        secret = self._house.inventory.get("secrets", *request)
        if secret is None:
            await self._forget(request)
        elif secret.get("type") == TYPE:
            account = self._account_of(secret)
            if account is None:
                await self._remove(secret)
            elif self._complete(secret, account):
                await self._save(secret)

    def _account_of(self, secret: Object) -> Object | None:
        annotations = secret["metadata"].get("annotations") or {}
        account = self._house.inventory.get(
            "serviceaccounts", secret["metadata"]["namespace"], annotations.get(ACCOUNT, "")
        )
        wanted = annotations.get(ACCOUNT_UID)
        return account if account is None or not wanted or uid_of(account) == wanted else None

    def _complete(self, secret: Object, account: Object) -> bool:
        """Put in what is missing; whether anything was."""
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

    async def _save(self, secret: Object) -> None:
        try:
            await self._house.client.update(secret)
        except (Conflict, NotFound):
            return  # somebody else changed it, and we hear of that too

    async def _remove(self, secret: Object) -> None:
        metadata = secret["metadata"]
        try:
            await self._house.client.delete(
                ("v1", "Secret"), metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except (Conflict, NotFound):
            return

    async def _forget(self, request: Request) -> None:
        """Remove a Secret that is gone from the lists of its namespace's accounts."""
        for item in self._house.inventory.items("serviceaccounts", request.namespace):
            account = self._house.inventory.decode("serviceaccounts", item)
            listed = account.get("secrets") or []
            kept = [reference for reference in listed if reference.get("name") != request.name]
            if len(kept) != len(listed):
                account["secrets"] = kept
                await self._house.client.update(account)
