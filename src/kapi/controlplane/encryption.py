"""The configuration of encryption at rest: an EncryptionConfiguration of apiserver.config.k8s.io/v1.

Every entry names resources and providers. The first provider encrypts what is written; all of them read what is stored,
so that a key is exchanged in steps: add the new one as the second, make it the first, write all objects again, remove
the old one.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from kapi.api.fielderror import forbidden, invalid, required
from kapi.server.configfile import ConfigFile
from kapi.storage.encryption.providers import CIPHERS, Identity, MissingLibrary
from kapi.storage.encryption.storage import ResourceProviders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.storage.encryption.providers import Provider

API_VERSION: Final = "apiserver.config.k8s.io/v1"

_KEYS: Final = {"keys": [{"name": str, "secret": str}]}
_PROVIDER: Final[Mapping[str, Any]] = {
    "aescbc": _KEYS,
    "aesgcm": _KEYS,
    "secretbox": _KEYS,
    "identity": {},
    "kms": {},
}
_SHAPE: Final[Mapping[str, Any]] = {"resources": [{"resources": [str], "providers": [_PROVIDER]}]}


def read_encryption(path: Path) -> ResourceProviders:
    """Read a configuration.

    Raises:
        ConfigFileError: the file has mistakes, all of which the message names. No secret is in it.
    """
    file = ConfigFile(path, {(API_VERSION, "EncryptionConfiguration"): _SHAPE})
    reader = _Reader()
    rules = [reader.rule(f"resources[{index}]", entry) for index, entry in enumerate(file.obj.get("resources") or ())]
    if not rules:
        reader.errors.append(required("resources"))
    file.refuse(reader.errors)
    return ResourceProviders(rules)


class _Reader:
    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def rule(self, path: str, entry: Object) -> tuple[list[str], list[Provider]]:
        resources: list[str] = entry.get("resources") or []
        if not resources:
            self.errors.append(required(f"{path}.resources"))
        for index, name in enumerate(resources):
            self.errors += _resource_errors(f"{path}.resources[{index}]", name)
        providers = [
            provider
            for index, one in enumerate(entry.get("providers") or ())
            for provider in self._providers(f"{path}.providers[{index}]", one)
        ]
        if not entry.get("providers"):
            self.errors.append(required(f"{path}.providers"))
        prefixes = [provider.prefix for provider in providers]
        if len(set(prefixes)) != len(prefixes):
            self.errors.append(invalid(f"{path}.providers", "", "two keys of a provider have the same name"))
        return resources, providers

    def _providers(self, path: str, entry: Object) -> Iterator[Provider]:
        if len(entry) != 1:
            self.errors.append(required(path, "exactly one provider: aescbc, aesgcm, secretbox or identity"))
            return
        ((kind, settings),) = entry.items()
        if kind == "identity":
            yield Identity()
        elif kind == "kms":
            self.errors.append(forbidden(f"{path}.kms", "key management services are not supported by this version"))
        else:
            keys = (settings or {}).get("keys") or []
            if not keys:
                self.errors.append(required(f"{path}.{kind}.keys"))
            for index, key in enumerate(keys):
                yield from self._key(f"{path}.{kind}.keys[{index}]", kind, key)

    def _key(self, path: str, kind: str, key: Object) -> Iterator[Provider]:
        name = key.get("name") or ""
        cipher, lengths = CIPHERS[kind]
        if not name:
            self.errors.append(required(f"{path}.name"))
        elif ":" in name:
            self.errors.append(invalid(f"{path}.name", name, "must not hold a colon"))
        try:
            secret = base64.b64decode(key.get("secret") or "", validate=True)
        except binascii.Error:
            self.errors.append(invalid(f"{path}.secret", "REDACTED", "secrets must be base64 encoded"))
            return
        if len(secret) not in lengths:
            choices = ", ".join(map(str, lengths))
            detail = f"secret is {len(secret)} bytes long, expected {choices}"
            self.errors.append(invalid(f"{path}.secret", "REDACTED", detail))
            return
        try:
            yield cipher(name, secret)
        except MissingLibrary as error:
            self.errors.append(forbidden(path, str(error)))


def _resource_errors(path: str, name: str) -> Iterator[FieldError]:
    if name == "*":
        yield invalid(path, name, "use '*.' instead for encrypting core resources, '*.*' for all")
    elif not name or ("*" in name and not name.startswith("*.")) or "/" in name or name != name.lower():
        yield invalid(path, name, "expected RESOURCE, RESOURCE.GROUP, *.GROUP, *. or *.*")
