"""The changes of a project that the commands make: a new project, a kind, a controller, webhooks, options.

Each function reads PROJECT, checks the change as a whole, and has all files written at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.base.version import VERSION
from kapi.scaffold.layout import kind_files, listing_files, project_files, webhook_files
from kapi.scaffold.manifests import empty_role
from kapi.scaffold.project import (
    FILE_NAME,
    BadName,
    ProjectError,
    Webhooks,
    check_image,
    check_namespaces,
    new_kind,
    read_project,
)
from kapi.scaffold.writer import write

if TYPE_CHECKING:
    from pathlib import Path

    from kapi.scaffold.project import Kind, Names, Project
    from kapi.scaffold.writer import Outcome


def init(root: Path, names: Names, *, force: bool = False) -> tuple[Project, Outcome]:
    """Make a project of a folder. Done again with the same names, it writes what is missing.

    Raises:
        ProjectError: the folder has another project, or files that are in the way.
    """
    project = names.project()
    if (root / FILE_NAME).exists():
        existing = read_project(root)
        asked, there = (project.name, project.domain), (existing.name, existing.domain)
        if asked != there:
            raise ProjectError(f"this is the project {there[0]} of {there[1]} already, not {asked[0]} of {asked[1]}")
        project = existing
    files = project_files(project)
    if not project.files.get("config/rbac/role.yaml"):
        files["config/rbac/role.yaml"] = empty_role(project)
    return project, write(root, project, {**files, **listing_files(project)}, force=force)


def create_api(
    root: Path,
    *,
    group: str,
    version: str,
    kind: str,
    plural: str = "",
    namespaced: bool = True,
    controller: bool = True,
    force: bool = False,
) -> tuple[Project, Kind, Outcome]:
    """Add a version of a kind, with a controller unless another version of the kind has one.

    Raises:
        ProjectError: it cannot be added.
    """
    project = read_project(root)
    found = project.find(group, version, kind)
    if found is None:
        found = new_kind(project, group=group, version=version, kind=kind, plural=plural, namespaced=namespaced)
        project.kinds.append(found)
        _check_scope(project)
    if found.storage:
        found.controller = found.controller or controller
    files = {**kind_files(project, found), **listing_files(project)}
    return project, found, write(root, project, files, force=force)


def create_webhook(
    root: Path,
    *,
    group: str,
    version: str,
    kind: str,
    defaulting: bool = False,
    validation: bool = False,
    conversion: bool = False,
    force: bool = False,
) -> tuple[Project, Kind, Outcome]:
    """Add webhooks for a kind that the project has; those that it has already stay.

    Raises:
        ProjectError: there is no such kind, or it has nothing to convert.
    """
    project = read_project(root)
    found = project.needed(group, version, kind)
    if not (defaulting or validation or conversion):
        raise BadName("which webhook? --defaulting, --programmatic-validation or --conversion")
    if conversion and (not found.storage or len(project.versions(found)) < 2):
        stored = next(one for one in project.versions(found) if one.storage)
        raise ProjectError(
            f"--conversion is for the stored version of a kind with several versions, here {stored.version} of "
            f"{', '.join(one.version for one in project.versions(found))}; kapi create api adds versions"
        )
    other = next((one for one in project.versions(found) if one is not found and one.webhooks != Webhooks()), None)
    if other is not None:
        raise ProjectError(f"{project.shown(other)} has the webhooks: API servers call them for all versions of a kind")
    hooks = found.webhooks
    hooks.defaulting = hooks.defaulting or defaulting
    hooks.validation = hooks.validation or validation
    hooks.conversion = hooks.conversion or conversion
    files = {**webhook_files(project, found), **listing_files(project)}
    return project, found, write(root, project, files, force=force)


def add_controller(root: Path, api_version: str, kind: str, *, force: bool = False) -> tuple[Project, Kind, Outcome]:
    """Add a controller for a kind that the project has.

    Raises:
        ProjectError: there is no such kind, or files are in the way.
    """
    project = read_project(root)
    group, version = project.group_from(api_version)
    found = project.needed(group, version, kind)
    other = next((one for one in project.versions(found) if one.controller and one is not found), None)
    if other is not None:
        raise ProjectError(f"{project.shown(other)} has the controller already: one of all versions is enough")
    found.controller = True
    files = {**kind_files(project, found), **listing_files(project)}
    return project, found, write(root, project, files, force=force)


def edit(
    root: Path,
    *,
    image: str | None = None,
    namespaces: list[str] | None = None,
    upgrade: bool = False,
    force: bool = False,
) -> tuple[Project, Outcome]:
    """Change options of a project; with `upgrade`, bring all files that were not edited up to this version of Kapi.

    Raises:
        ProjectError: an option is wrong, or generated files were edited.
    """
    project = read_project(root)
    if image is not None:
        check_image(image)
        project.image = image
    if namespaces is not None:
        check_namespaces(namespaces)
        project.namespaces = list(dict.fromkeys(namespaces))
        _check_scope(project)
    files = listing_files(project)
    if upgrade:
        project.kapi_version = VERSION
        for kind in project.kinds:
            files |= kind_files(project, kind)
            if kind.webhooks != Webhooks():
                files |= webhook_files(project, kind)
        files |= project_files(project)
    return project, write(root, project, files, force=force, upgrade=upgrade)


def _check_scope(project: Project) -> None:
    """Refuse kinds without namespaces in an operator that has rights in some namespaces alone."""
    for kind in project.kinds:
        if project.namespaces and not kind.namespaced:
            raise ProjectError(
                f"{project.shown(kind)} belongs to no namespace: an operator for the namespaces "
                f"{','.join(project.namespaces)} alone cannot watch it"
            )
