"""From custom classes to a CustomResourceDefinition, as a dictionary in the form of `apiextensions.k8s.io/v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.crd.resources import CustomResource, Naming, naming_of
from kapi.api.crd.schemas import kind_schema
from kapi.api.versions import by_priority

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object


def definition(*classes: type[CustomResource]) -> Object:
    """The definition of a kind, from the class of each of its versions.

    All must be of one kind, exactly one of them stored. What is said of the kind as a whole (names, scope, categories)
    must be the same in all of them.
    """
    if not classes:
        raise ValueError("a definition needs at least one class")
    namings = [naming_of(cls) for cls in classes]
    first = namings[0]
    for naming in namings[1:]:
        if _shared(naming) != _shared(first):
            raise ValueError(f"{_title(naming)} and {_title(first)} are no versions of one kind: names or scope differ")
    versions = [naming.gvk.version for naming in namings]
    if len(set(versions)) != len(versions):
        raise ValueError(f"{first.gvk.kind} has two classes for one version among {', '.join(versions)}")
    stored = [naming.gvk.version for naming in namings if naming.storage]
    if len(stored) != 1:
        listed = f": {', '.join(stored)}" if stored else ""
        raise ValueError(
            f"exactly one version of {first.gvk.kind} must be stored, not {len(stored)}{listed}; "
            "the others are decorated with storage=False"
        )
    order = sorted(zip(namings, classes, strict=True), key=lambda pair: by_priority(pair[0].gvk.version))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": _metadata(first, namings),
        "spec": {
            "group": first.gvk.group,
            "names": _names(first),
            "scope": "Namespaced" if first.namespaced else "Cluster",
            "versions": [_version(naming, cls) for naming, cls in order],
        },
    }


def _title(naming: Naming) -> str:
    return f"{naming.gvk.api_version} {naming.gvk.kind}"


def _metadata(naming: Naming, namings: Sequence[Naming]) -> Object:
    metadata: Object = {"name": f"{naming.plural}.{naming.gvk.group}"}
    annotations = {key: value for one in namings for key, value in one.annotations}
    return metadata | ({"annotations": annotations} if annotations else {})


def _shared(naming: Naming) -> tuple[Any, ...]:
    gvk = naming.gvk
    return (
        gvk.group,
        gvk.kind,
        naming.plural,
        naming.singular,
        naming.list_kind,
        naming.namespaced,
        naming.short_names,
        naming.categories,
    )


def _names(naming: Naming) -> Object:
    names: Object = {
        "plural": naming.plural,
        "singular": naming.singular,
        "kind": naming.gvk.kind,
        "listKind": naming.list_kind,
    }
    if naming.short_names:
        names["shortNames"] = list(naming.short_names)
    if naming.categories:
        names["categories"] = list(naming.categories)
    return names


def _version(naming: Naming, cls: type[CustomResource]) -> Object:
    version: Object = {"name": naming.gvk.version, "served": naming.served, "storage": naming.storage}
    if naming.deprecated:
        version["deprecated"] = True
        if naming.deprecation_warning:
            version["deprecationWarning"] = naming.deprecation_warning
    version["schema"] = {"openAPIV3Schema": _schema(naming, cls)}
    subresources: Object = {}
    if naming.status:
        subresources["status"] = {}
    if naming.scale is not None:
        subresources["scale"] = naming.scale.definition()
    if subresources:
        version["subresources"] = subresources
    if naming.columns:
        version["additionalPrinterColumns"] = [column.definition() for column in naming.columns]
    if naming.selectable_fields:
        version["selectableFields"] = [{"jsonPath": path} for path in naming.selectable_fields]
    return version


def _schema(naming: Naming, cls: type[CustomResource]) -> Object:
    schema = kind_schema(cls)
    for rule in naming.rules:
        rule.apply(schema)
    return schema
