"""The user of a request: name, groups, uid and extra attributes, as authentication establishes them."""

from __future__ import annotations

from typing import Final

import msgspec

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
"""The extra attribute that names the credential a user has shown."""


class User:
    """An authenticated (or anonymous) user; `groups` always holds system:authenticated or system:unauthenticated."""

    __slots__ = ("_encoded_info", "extra", "groups", "name", "uid")

    def __init__(
        self, name: str, groups: tuple[str, ...] = (), uid: str = "", extra: dict[str, list[str]] | None = None
    ) -> None:
        self.name = name
        self.groups = groups
        self.uid = uid
        self.extra = extra or {}
        self._encoded_info = b""

    def info(self) -> dict[str, object]:
        """Return the UserInfo, as reviews and admission requests carry it."""
        info: dict[str, object] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = self.extra
        return info

    def encoded_info(self) -> bytes:
        """Return the UserInfo as JSON; encoded once, since a user makes many requests."""
        if not self._encoded_info:
            self._encoded_info = msgspec.json.encode(self.info())
        return self._encoded_info


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
