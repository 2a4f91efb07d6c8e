"""The manifests of a project that come from its code: `kapi generate crds`, `rbac` and `manifests`."""

from __future__ import annotations

import base64
import importlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kapi.cli.printer import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kapi.controller.permissions import Permissions
    from kapi.scaffold.project import Project
    from kapi.scaffold.writer import File


def find_project() -> tuple[Path, Project]:
    """Return the project of the current directory.

    Raises:
        CommandError: there is none.
    """
    from kapi.scaffold.project import ProjectError, read_project

    root = Path.cwd()
    try:
        return root, read_project(root)
    except ProjectError as error:
        raise CommandError(str(error)) from None


def parts(root: Path, project: Project) -> Any:
    """Import the module of the project that lists its kinds and permissions.

    Raises:
        CommandError: it cannot be imported.
    """
    name = f"{project.package}.generated"
    _forget(project.package)
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module(name)
    except Exception as error:  # the code of the user may raise anything
        raise CommandError(f"{name} cannot be imported: {type(error).__name__}: {error}") from None
    finally:
        sys.path.remove(str(root))


def _forget(package: str) -> None:
    """Have the package imported anew: files of it may have been written since."""
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]


def definitions(root: Path, project: Project) -> dict[str, File]:
    """Return the files of the definitions."""
    from kapi.scaffold.definitions import BadDefinition
    from kapi.scaffold.manifests import definition_files

    try:
        return definition_files(project, parts(root, project).KINDS)
    except BadDefinition as error:
        raise CommandError(str(error)) from None


def roles(root: Path, project: Project) -> dict[str, File]:
    """Return the files of the role."""
    from kapi.scaffold.manifests import ROLE_PATH, role_file

    return {ROLE_PATH: role_file(project, parts(root, project).PERMISSIONS)}


def listings(root: Path, project: Project) -> dict[str, File]:
    """Return the files that list what the project has."""
    from kapi.scaffold.layout import listing_files

    return listing_files(project)


def write_manifests(root: Path, project: Project, *, force: bool = False) -> Iterator[str]:
    """Write definitions and role; yields the paths that were written."""
    yield from write_files(root, project, [definitions, roles], force=force)


def write_files(
    root: Path,
    project: Project,
    makers: Iterable[Callable[[Path, Project], dict[str, File]]],
    *,
    force: bool = False,
    check: bool = False,
) -> Iterator[str]:
    """Write generated files, or with `check` raise if one is not current; yields the paths that were written."""
    from kapi.scaffold.project import ProjectError
    from kapi.scaffold.writer import stale, write

    files = {path: file for make in makers for path, file in make(root, project).items()}
    if check:
        found = stale(root, files)
        if found:
            raise CommandError("\n".join([*(f"{path} is not current" for path in found), "run: make manifests"]))
        return
    try:
        yield from write(root, project, files, force=force).written
    except ProjectError as error:
        raise CommandError(str(error)) from None


# -- permissions ------------------------------------------------------------------------------------------------------


def print_role(target: str, name: str) -> None:
    """Print the ClusterRole of permissions that a module declares."""
    from kapi.cli.printer import emit
    from kapi.codec import yaml
    from kapi.scaffold.rbac import API, merged_rules

    rules = merged_rules(_permissions(target))
    emit(yaml.encode({"apiVersion": API, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}).decode())


def check_permissions(target: str, record: Path) -> None:
    """Compare declared permissions with the requests of a test run.

    Raises:
        CommandError: some are missing, or were not used.
    """
    from kapi.cli.printer import emit
    from kapi.scaffold.rbac import compare, read_requests

    try:
        asked = read_requests(record.read_bytes())
    except ValueError as error:
        raise CommandError(f"{record}: {error}") from None
    found = compare(_permissions(target), asked)
    lines = [f"missing: {right}: it was asked for, and is not declared" for right in found.missing]
    lines += [f"excess: {right}: it is declared, and no test asked for it" for right in found.excess]
    if lines:
        raise CommandError("\n".join(lines))
    emit(f"The declared permissions are those that {record} needs.\n")


def _permissions(target: str) -> Permissions:
    """Return the permissions that `MODULE:NAME` names, or those of the project in the current directory."""
    if not target:
        permissions: Permissions = parts(*find_project()).PERMISSIONS
        return permissions
    module, colon, path = target.partition(":")
    if not colon or not module or not path:
        raise CommandError(f"{target!r}: expected MODULE:NAME, such as networks:PERMISSIONS")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:  # the code of the user may raise anything
        raise CommandError(f"{target}: {type(error).__name__}: {error}") from None
    finally:
        sys.path.remove(here)
    return found  # type: ignore[no-any-return]


# -- certificates -----------------------------------------------------------------------------------------------------


def print_certificate(service: str, namespace: str, secret: str) -> None:
    """Print a Secret with a new certificate for a Service, and the authority that signed it, whose key is discarded."""
    from kapi.cli.printer import emit
    from kapi.codec import yaml
    from kapi.controller.webhook import SelfSigned

    if not service or not namespace:
        _, project = find_project()
        service, namespace = service or f"{project.name}-webhook", namespace or project.namespace
    with tempfile.TemporaryDirectory() as folder:
        SelfSigned.for_service(service, namespace, directory=folder).ensure()
        names = ("ca.crt", "tls.crt", "tls.key")
        data = {name: base64.b64encode((Path(folder) / name).read_bytes()).decode() for name in names}
    metadata = {"name": secret or service, "namespace": namespace}
    emit(
        yaml.encode(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}
        ).decode()
    )
