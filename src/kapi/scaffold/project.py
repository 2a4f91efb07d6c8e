"""The PROJECT file of an operator: its names and its kinds, from which the other files are made.

It is YAML and belongs into version control. `kapi init` writes it; the other commands read it, add to it, and write it
last, after the files that belong to the change. `files` has a digest of every file as it was written, which tells the
files that were edited since from those that a newer version of the templates may replace.
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from kapi.api.crd.resources import plural_of
from kapi.api.names import dns1035_label, dns_label, dns_subdomain
from kapi.base.version import VERSION
from kapi.codec import yaml
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE_NAME: Final = "PROJECT"
LAYOUT: Final = "1"
"""The version of the layout of projects, and of the PROJECT file."""

_HEAD: Final = (
    "# What kapi knows of this operator: its kinds, and the files that were written. `kapi create` and `kapi edit`\n"
    "# update it; keep it in version control.\n"
)
_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_IMAGE: Final = re.compile(r"[a-z0-9][a-zA-Z0-9._:/@-]*")
_MOST_KIND_LETTERS: Final = 60
_MOST_VARIABLE_LETTERS: Final = 20
_TAKEN_KINDS: Final = frozenset({
    "AdmissionRequest", "Allowed", "Annotated", "Any", "Callable", "ClassVar", "Column", "Condition", "CustomResource",
    "Environment", "ListMap", "Manager", "Model", "Permissions", "Result", "Spoke", "T", "TypeVar", "WebhookFunctions",
    "WebhookServer",
})  # fmt: skip
"""Names that the modules of a kind import: a class of that name would hide them."""
_TAKEN_VARIABLES: Final = frozenset({
    "cls", "default", "fields", "generation", "manager", "msgspec", "reconcile", "register", "request",
    "self", "server", "setup", "webhooks",
})  # fmt: skip
"""Names that stand next to the variable in the modules of a kind."""
_TAKEN_PACKAGES: Final = frozenset({"kapi", "tests", "config", "dist", "build", "test"})


class ProjectError(Exception):
    """A project that cannot be read or changed as asked; the text is for the user."""


class BadName(ProjectError):
    """A name on the command line cannot be used; the text says why."""


class Webhooks(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The webhooks of a kind."""

    defaulting: bool = False
    validation: bool = False
    conversion: bool = False


class Kind(msgspec.Struct, kw_only=True):
    """One version of a kind of the project."""

    group: str
    """The group without the domain; may be empty."""
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    storage: bool = True
    """True for the version in which objects are stored."""
    controller: bool = False
    webhooks: Webhooks = msgspec.field(default_factory=Webhooks)

    @property
    def lower(self) -> str:
        """The kind in lower case, as it is part of file names."""
        return self.kind.lower()

    @property
    def module(self) -> str:
        """The module of the class in the package `api`."""
        return f"{self.lower}_{self.version}"

    @property
    def variable(self) -> str:
        """The name of a variable that holds an object of the kind."""
        if len(self.lower) > _MOST_VARIABLE_LETTERS or self.lower in _TAKEN_VARIABLES:
            return "obj"
        taken = keyword.iskeyword(self.lower) or hasattr(builtins, self.lower)
        return f"{self.lower}_" if taken else self.lower


class Project(msgspec.Struct, kw_only=True, rename="camel"):
    """The contents of a PROJECT file."""

    layout: str = LAYOUT
    kapi_version: str = VERSION
    """The version of Kapi whose templates the files were made from."""
    name: str
    package: str
    domain: str
    repo: str = ""
    image: str = ""
    namespaces: list[str] = []
    """The namespaces that the operator watches; all if there are none."""
    kinds: list[Kind] = []
    files: dict[str, str] = {}

    @property
    def namespace(self) -> str:
        """The namespace that the operator is deployed to."""
        return f"{self.name}-system"

    def group_of(self, kind: Kind) -> str:
        """Return the whole API group of a kind."""
        return self.full_group(kind.group)

    def full_group(self, group: str) -> str:
        """Return an API group with the domain."""
        return f"{group}.{self.domain}" if group else self.domain

    def find(self, group: str, version: str, kind: str) -> Kind | None:
        """Return a version of a kind, or None."""
        return next((one for one in self.kinds if (one.group, one.version, one.kind) == (group, version, kind)), None)

    def needed(self, group: str, version: str, kind: str) -> Kind:
        """Return a version of a kind.

        Raises:
            ProjectError: the project has none.
        """
        found = self.find(group, version, kind)
        if found is None:
            listed = ", ".join(self.shown(one) for one in self.kinds) or "none yet"
            wanted = f"{kind} of {self.full_group(group)}/{version}"
            raise ProjectError(f"{FILE_NAME} has no {wanted}; its kinds: {listed}. kapi create api adds one")
        return found

    def shown(self, kind: Kind) -> str:
        """Return a kind in words, for messages."""
        return f"{kind.kind} of {self.group_of(kind)}/{kind.version}"

    def versions(self, kind: Kind) -> list[Kind]:
        """Return all versions of the same kind, in the order in which they were added."""
        return [one for one in self.kinds if (one.group, one.kind) == (kind.group, kind.kind)]

    def group_from(self, api_version: str) -> tuple[str, str]:
        """Return group (without the domain) and version of an apiVersion of this project.

        Raises:
            BadName: it is not of the project's domain.
        """
        full, slash, version = api_version.rpartition("/")
        if slash and full == self.domain:
            return "", version
        if not slash or not full.endswith(f".{self.domain}"):
            raise BadName(
                f"--api-version {api_version}: expected GROUP.{self.domain}/VERSION, the domain of {FILE_NAME}"
            )
        return full.removesuffix(f".{self.domain}"), version


def read_project(root: Path) -> Project:
    """Read the PROJECT file of a folder.

    Raises:
        ProjectError: there is none, or it cannot be used.
    """
    path = root / FILE_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ProjectError(f"there is no {FILE_NAME} file in {root}: begin with kapi init") from None
    try:
        document = yaml.decode(data)
        layout = document.get("layout") if isinstance(document, dict) else None
        if layout != LAYOUT:
            raise ProjectError(
                f"{path}: layout {layout!r} is not known to kapi {VERSION}, which knows {LAYOUT!r}; is kapi too old?"
            )
        return msgspec.convert(document, Project)
    except (DecodeError, msgspec.ValidationError) as error:
        raise ProjectError(f"{path}: {error}") from None


def project_text(project: Project) -> str:
    """Return the PROJECT file of a project."""
    return _HEAD + yaml.encode(msgspec.to_builtins(project)).decode()


# -- names ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """The names of a new project, from the options of `kapi init`."""

    domain: str
    repo: str = ""
    name: str = ""
    folder: str = ""
    """The name of the folder, for want of another."""
    image: str = ""

    def project(self) -> Project:
        """Return the project.

        Raises:
            BadName: one of the names cannot be used.
        """
        _check("--domain", self.domain, dns_subdomain)
        if "." not in self.domain:
            raise BadName(f"--domain {self.domain}: expected at least two parts, such as example.com")
        name = self.name or self.repo.rstrip("/").rpartition("/")[2].removesuffix(".git") or self.folder
        given = "--name" if self.name else "--repo" if self.repo else "without --name, the directory's name"
        _check(given, name, dns1035_label)
        # Namespace and Services have longer names.
        _check(given, f"{name}-metrics-service", dns_label)
        package = name.replace("-", "_")
        if keyword.iskeyword(package) or package in _TAKEN_PACKAGES or package in sys.stdlib_module_names:
            raise BadName(f"{given} {name}: a package {package} would hide one of that name; --name NAME is another")
        image = self.image or f"{name}:latest"
        check_image(image)
        return Project(name=name, package=package, domain=self.domain, repo=self.repo, image=image)


def new_kind(project: Project, *, group: str, version: str, kind: str, plural: str, namespaced: bool) -> Kind:
    """Return a new version of a kind, not yet part of the project.

    Raises:
        BadName: a name cannot be used.
        ProjectError: the project has something that this would be confused with.
    """
    if group:
        _check("--group", group, dns_subdomain)
        if group == project.domain or group.endswith(f".{project.domain}"):
            raise BadName(f"--group {group}: the domain {project.domain} is added to it; leave it out")
    _check("--group", project.full_group(group), dns_subdomain)
    if not _VERSION.fullmatch(version):
        raise BadName(f"--version {version}: expected v1, v1beta1, v2alpha3 or the like")
    if not _KIND.fullmatch(kind) or len(kind) > _MOST_KIND_LETTERS:
        raise BadName(f"--kind {kind}: expected letters and digits in CamelCase, such as Network or HTTPRoute")
    if keyword.iskeyword(kind) or kind in _TAKEN_KINDS:
        raise BadName(f"--kind {kind}: the name is taken in the Python code of a project; choose another kind")
    plural = plural or plural_of(kind)
    _check("--plural", plural, dns1035_label)
    made = Kind(group=group, version=version, kind=kind, plural=plural, namespaced=namespaced)
    for other in project.kinds:
        _check_distinct(project, made, other)
    made.storage = not project.versions(made)
    return made


def _check_distinct(project: Project, made: Kind, other: Kind) -> None:
    if (other.group, other.kind) == (made.group, made.kind):
        if (other.plural, other.namespaced) != (made.plural, made.namespaced):
            raise ProjectError(f"{project.shown(other)} has another plural or scope: versions of a kind share both")
    elif other.lower == made.lower:
        raise ProjectError(
            f"{project.shown(other)} would share its files with {project.shown(made)}; choose another kind"
        )
    elif (other.group, other.plural) == (made.group, made.plural):
        raise ProjectError(f"{project.shown(other)} has the plural {made.plural} already: choose another by --plural")


def check_image(image: str) -> None:
    """Refuse what cannot be the name of an image."""
    if not _IMAGE.fullmatch(image):
        raise BadName(f"--image {image}: expected [REGISTRY/]NAME[:TAG]")


def check_namespaces(namespaces: list[str]) -> None:
    """Refuse what cannot be the names of namespaces."""
    for namespace in namespaces:
        _check("--namespaces", namespace, dns_label)


def _check(option: str, value: str, rule: Callable[[str], list[str]]) -> None:
    errors = rule(value)
    if errors:
        raise BadName(f"{option} {value}: {errors[0]}")
