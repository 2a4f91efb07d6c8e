"""CustomResourceDefinition as it was in v1beta1, which Kubernetes removed in 1.22 and which is served here.

What is stored is v1. The older form has one `version` or a list of them, may have schema, sub-resources and columns
above all versions, spells `JSONPath`, spreads the webhook over the conversion, and keeps unknown fields unless told
otherwise. `to_v1` reads it in all its forms, with its own defaults; `from_v1` writes what versions agree on above them,
as Kubernetes did.

Not everything that can be said in v1beta1 can be stored: both a common schema and one per version, or names that stand
next to `names`. And definitions that come in this way are validated less strictly. So `to_v1` leaves marks:
`spec.version` always, and each field it could not place where it was. Validation reads them (`versionfields.conflicts`)
and takes them away; nothing with marks is ever stored.

Pure functions; they share parts with their argument and never change it, but for `unmark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.registry.kinds.apiextensions.toplevel import SHARED, top_level
from kapi.registry.kinds.apiextensions.versionfields import ABOVE, NAME_FIELDS

if TYPE_CHECKING:
    from kapi.api.meta import Object

    Part = dict[str, Any]

V1, V1BETA1 = "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"

_TITLES: Final = {field: field for field in SHARED} | {"schema": "validation"}
"""The names of top-level fields, by their names in a version."""
_MARKS: Final = frozenset({"version", *(field for field, _ in ABOVE), *NAME_FIELDS})


def is_marked(obj: Object) -> bool:
    """Return True if an object in today's form came in as v1beta1 and was not validated yet."""
    return "version" in (obj.get("spec") or {})


def unmark(obj: Object) -> None:
    """Take the marks away, in place."""
    spec = obj.get("spec") or {}
    for field in _MARKS & spec.keys():
        del spec[field]


def unmarked(spec: Part) -> Part:
    """A spec without marks."""
    return {key: value for key, value in spec.items() if key not in _MARKS} if _MARKS & spec.keys() else spec


# -- in --------------------------------------------------------------------------------------------------------------


def to_v1(obj: Object) -> Object:
    """The form that is stored, with marks."""
    return {**obj, "apiVersion": V1, "spec": _spec_to_v1(obj.get("spec") or {})}


def _spec_to_v1(spec: Part) -> Part:
    versions = spec.get("versions") or (
        [{"name": spec["version"], "served": True, "storage": True}] if spec.get("version") else []
    )
    versions = [_renamed(one, "JSONPath", "jsonPath") for one in versions]
    new: Part = {key: spec[key] for key in ("group", "names", *NAME_FIELDS) if key in spec}
    new["scope"] = spec.get("scope") or "Namespaced"
    new["version"] = spec.get("version") or (versions[0].get("name", "") if versions else "")
    above = _renamed(spec, "JSONPath", "jsonPath")
    for field, title in _TITLES.items():
        if above.get(title) is None:
            continue
        if any(one.get(field) is not None for one in versions):
            new[title] = above[title]
        else:
            versions = [{**one, field: above[title]} for one in versions]
    new["versions"] = versions
    new["conversion"] = _conversion_to_v1(spec.get("conversion") or {"strategy": "None"})
    if spec.get("preserveUnknownFields", True):
        new["preserveUnknownFields"] = True
    return new


def _conversion_to_v1(conversion: Part) -> Part:
    new: Part = {"strategy": conversion.get("strategy", "")}
    config, versions = conversion.get("webhookClientConfig"), conversion.get("conversionReviewVersions")
    if not versions and new["strategy"] == "Webhook":
        versions = ["v1beta1"]
    if config is not None or versions:
        new["webhook"] = {"conversionReviewVersions": versions or []}
        if config is not None:
            new["webhook"]["clientConfig"] = config
    return new


# -- out -------------------------------------------------------------------------------------------------------------


def from_v1(obj: Object) -> Object:
    """The older form of what is stored, or, with marks, of what is about to be."""
    return {**obj, "apiVersion": V1BETA1, "spec": _spec_from_v1(obj.get("spec") or {})}


def _spec_from_v1(spec: Part) -> Part:
    shared, versions = top_level(spec.get("versions") or [])
    new: Part = {key: value for key, value in spec.items() if key not in ("versions", "conversion")}
    new["version"] = spec.get("version") or (versions[0].get("name", "") if versions else "")
    new |= {
        _TITLES[field]: value
        for field, value in _renamed(shared, "jsonPath", "JSONPath").items()
        if _TITLES[field] not in new
    }
    new["versions"] = [_renamed(one, "jsonPath", "JSONPath") for one in versions]
    if spec.get("conversion") is not None:
        new["conversion"] = _conversion_from_v1(spec["conversion"])
    new["preserveUnknownFields"] = bool(spec.get("preserveUnknownFields"))
    return new


def _conversion_from_v1(conversion: Part) -> Part:
    webhook = conversion.get("webhook") or {}
    new = {"strategy": conversion.get("strategy", "")}
    if webhook.get("clientConfig") is not None:
        new["webhookClientConfig"] = webhook["clientConfig"]
    if webhook.get("conversionReviewVersions"):
        new["conversionReviewVersions"] = webhook["conversionReviewVersions"]
    return new


def _renamed(part: Part, name: str, new_name: str) -> Part:
    """A part whose columns have their path under another name."""
    columns = part.get("additionalPrinterColumns")
    if not columns:
        return part
    renamed = [{(new_name if key == name else key): value for key, value in one.items()} for one in columns]
    return {**part, "additionalPrinterColumns": renamed}
