"""Admission as the options configure it: the plug-ins of a server, in kube-apiserver's order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kapi.codec import yaml
from kapi.codec.errors import DecodeError
from kapi.controlplane.limitplugins import LIMIT_PLUGINS
from kapi.controlplane.podplugins import POD_PLUGINS
from kapi.server.admission.certificates import (
    CertificateSubjectRestriction,
    certificate_approval,
    certificate_signing,
)
from kapi.server.admission.chain import Admission
from kapi.server.admission.initializers import InitializersPlugin
from kapi.server.admission.inuse import InUseProtection
from kapi.server.admission.lifecycle import NamespaceLifecycle
from kapi.server.admission.policies.mutating import MutatingPolicies
from kapi.server.admission.policies.paramaccess import ParamAccessCheck
from kapi.server.admission.policies.validating import ValidatingPolicies
from kapi.server.admission.webhooks.plugin import MutatingWebhooks, ValidatingWebhooks, WebhookParts
from kapi.server.configfile import ConfigFile, ConfigFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.base.http import Outbound
    from kapi.controlplane.admissionoptions import AdmissionOptions
    from kapi.registry.catalog import Catalog
    from kapi.server.admission.certificates import MayUseSigner
    from kapi.server.admission.chain import Plugin
    from kapi.server.admission.metrics import AdmissionMetrics
    from kapi.server.admission.webhooks.functions import Function
    from kapi.server.authz.authorizer import Authorizer
    from kapi.server.configfile import Shape
    from kapi.server.serviceaddress import ServiceOverrides

VERSIONS: Final = ("apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1")
_SHAPE: Final[Shape] = {"plugins": [{"name": str, "path": str, "configuration": {}}]}


class PluginConfiguration:
    """The configuration of one plug-in: a file of its own, or a part of the AdmissionConfiguration."""

    def __init__(self, file: ConfigFile, field: str, entry: Object) -> None:
        self._file = file
        self._field = field
        self._entry = entry

    def read(self, kinds: Mapping[tuple[str, str], Shape]) -> tuple[ConfigFile, str, Object]:
        """Return the object, of one of these (apiVersion, kind), the file it is in, and its field there.

        Errors about the object are reported with `ConfigFile.refuse`, for fields below that field.

        Raises:
            ConfigFileError: it cannot be read, is no such object, or has fields that this kind does not have.
        """
        path = self._entry.get("path")
        if path:
            file = ConfigFile(self._file.path.parent / path, kinds)
            return file, "", file.obj
        field = f"{self._field}.configuration"
        configuration: Object = self._entry.get("configuration") or {}
        self._file.check_object(field, configuration, kinds)
        return self._file, field, configuration

    def read_untyped(self) -> Object:
        """Return the object of a plug-in whose configuration has neither apiVersion nor kind.

        Raises:
            ConfigFileError: it cannot be read, or is no object.
        """
        path = self._entry.get("path")
        if not path:
            return self._entry.get("configuration") or {}
        where = self._file.path.parent / path
        try:
            obj = yaml.decode(where.read_bytes())
        except OSError as error:
            raise ConfigFileError(f"{where}: {error.strerror}") from None
        except DecodeError as error:
            raise ConfigFileError(f"{where}: {error}") from None
        if not isinstance(obj, dict):
            raise ConfigFileError(f"{where}: expected an object")
        return obj


@dataclass(slots=True)
class Parts:
    """The parts of a server that plug-ins are made of."""

    catalog: Catalog
    clock: Clock
    authorizer: Authorizer
    may_use_signer: MayUseSigner
    outbound: Callable[[], Outbound]
    """The client for calls to other servers; made at its first use, since most servers make none."""
    registry: CollectorRegistry
    """The registry of metrics that have locks; see `Metrics`."""
    forget: Callable[[], None] = field(default=lambda: None)
    """To be called when the answers of a plug-in's `handles` have changed; set when the chain is made."""
    configurations: Mapping[str, PluginConfiguration] = field(default_factory=dict)
    """By the names of plug-ins."""
    toleration_seconds: tuple[int, int] = (300, 300)
    """How long Pods stay on a node that is not ready, and on one that is not reachable."""
    service_overrides: ServiceOverrides = field(default_factory=dict)
    """The addresses of webhooks that are developed on this machine, by Service."""

    functions: Sequence[Function] = ()
    """Webhooks that are functions of the program that embeds the server."""

    @property
    def of_webhooks(self) -> WebhookParts:
        """The parts of them that admission webhooks use."""
        return WebhookParts(
            self.catalog,
            self.authorizer,
            self.outbound,
            self.registry,
            self.forget,
            self.service_overrides,
            self.functions,
        )


PLUGINS: Final[Mapping[str, Callable[[Parts], Plugin]]] = {
    **POD_PLUGINS,
    **LIMIT_PLUGINS,
    "NamespaceLifecycle": lambda parts: NamespaceLifecycle(parts.catalog),
    "StorageObjectInUseProtection": lambda parts: InUseProtection(),
    "Initializers": lambda parts: InitializersPlugin(parts.catalog.initializers, parts.authorizer, parts.forget),
    "CertificateApproval": lambda parts: certificate_approval(parts.may_use_signer),
    "CertificateSigning": lambda parts: certificate_signing(parts.may_use_signer),
    "CertificateSubjectRestriction": lambda parts: CertificateSubjectRestriction(),
    "MutatingAdmissionPolicy": lambda parts: MutatingPolicies(
        parts.catalog, parts.authorizer, parts.registry, parts.forget
    ),
    "ValidatingAdmissionPolicy": lambda parts: ValidatingPolicies(
        parts.catalog, parts.authorizer, parts.registry, parts.forget
    ),
    "MutatingAdmissionWebhook": lambda parts: MutatingWebhooks(parts.of_webhooks),
    "ValidatingAdmissionWebhook": lambda parts: ValidatingWebhooks(parts.of_webhooks),
}
"""The plug-ins that this server has, by name. Their order is that of `admissionoptions.ORDER`."""


def admission_for(
    options: AdmissionOptions, parts: Parts, *last: tuple[str, Plugin], metrics: AdmissionMetrics | None = None
) -> Admission:
    """Return the chain: the enabled plug-ins, and some that always run, after them.

    Raises:
        ConfigFileError: the configuration of a plug-in cannot be used.
        ValueError: an enabled plug-in is one that this server does not have.
    """
    missing = sorted(options.enabled - PLUGINS.keys())
    if missing:
        raise ValueError(f"--enable-admission-plugins: {', '.join(missing)}: not supported by this version")
    if options.config_file is not None:
        parts.configurations = _configurations(options.config_file)
    parts.toleration_seconds = options.toleration_seconds
    chain: Admission | None = None

    def forget() -> None:
        if chain is not None:
            chain.forget()

    parts.forget = forget
    plugins = {name: PLUGINS[name](parts) for name in options.names if name in PLUGINS}
    access = ParamAccessCheck(parts.catalog, parts.authorizer)
    chain = Admission({**plugins, **dict(last), "ParamAccess": access}, metrics)
    parts.catalog.on_change.append(chain.forget)
    return chain


def _configurations(path: Path) -> dict[str, PluginConfiguration]:
    file = ConfigFile(path, {(version, "AdmissionConfiguration"): _SHAPE for version in VERSIONS})
    found: dict[str, PluginConfiguration] = {}
    for index, entry in enumerate(file.obj.get("plugins") or ()):
        name = entry.get("name", "")
        if name not in PLUGINS:
            raise ConfigFileError(f"{path}: plugins[{index}].name: {name!r} is not a plug-in of this server")
        found[name] = PluginConfiguration(file, f"plugins[{index}]", entry)
    return found
