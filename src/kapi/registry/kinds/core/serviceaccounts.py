"""ServiceAccount: an identity for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.registry.kinds.fieldrules import annotations_of
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

_MOUNTABLE_ONLY = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccountStrategy(Strategy):
    """The rules of ServiceAccount."""

    validates_by_schema = True
    returns_deleted_object = True

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Of a reference to a secret only the name counts."""
        if "secrets" in obj:
            obj["secrets"] = [{"name": secret["name"]} if "name" in secret else {} for secret in obj["secrets"]]

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """As on create."""
        self.prepare_create(write, obj)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """An annotation that is on its way out."""
        if _MOUNTABLE_ONLY not in annotations_of(obj) or (old is not None and _MOUNTABLE_ONLY in annotations_of(old)):
            return []
        text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{_MOUNTABLE_ONLY}]: {text}"]


STRATEGIES: dict[tuple[str, str], Strategy] = {("", "ServiceAccount"): ServiceAccountStrategy()}
