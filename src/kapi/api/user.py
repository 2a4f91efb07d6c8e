"""The user of a request: name, groups, uid and extra attributes, as authentication establishes them."""

from __future__ import annotations

from typing import Final

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
"""The extra attribute that names the credential a user has shown."""


class User:
    """An authenticated (or anonymous) user; `groups` always holds system:authenticated or system:unauthenticated."""

    __slots__ = ("extra", "groups", "name", "uid")

    def __init__(
        self, name: str, groups: tuple[str, ...] = (), uid: str = "", extra: dict[str, list[str]] | None = None
    ) -> None:
        self.name = name
        self.groups = groups
        self.uid = uid
        self.extra = extra or {}

    def info(self) -> dict[str, object]:
        """Return the UserInfo, as reviews and admission requests carry it."""
        info: dict[str, object] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = self.extra
        return info


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
