"""The checks of the group authorization.k8s.io: access reviews, which are answered and not stored.

Each function raises the error that the client gets. The kind is empty in the 422 of an access review, as it is in
kube-apiserver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.errors import BadRequest, Invalid
from kapi.api.fielderror import FieldError, forbidden, invalid, required
from kapi.api.meta import GroupKind
from kapi.registry.kinds import fieldrules

if TYPE_CHECKING:
    from kapi.api.meta import Object

_AUTHORIZATION = GroupKind("authorization.k8s.io", "")
_EXACTLY_ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def check_subject_access_review(review: Object) -> None:
    """Validate a SubjectAccessReview: a user, and one request."""
    _raise_if_any(_spec_errors(review, needs_subject=True) + _metadata_errors(review))


def check_self_subject_access_review(review: Object) -> None:
    """Validate a SelfSubjectAccessReview: one request of the caller."""
    _raise_if_any(_spec_errors(review, needs_subject=False) + _metadata_errors(review))


def check_local_subject_access_review(review: Object, namespace: str) -> None:
    """Validate a LocalSubjectAccessReview: a user, and one request in the namespace of the URL."""
    errors = _spec_errors(review, needs_subject=True)
    metadata = _meaningful_metadata(review)
    own = metadata.pop("namespace", "")
    if metadata:
        errors.append(invalid("metadata", review["metadata"], "must be empty except for namespace"))
    spec = review.get("spec") or {}
    attributes = spec.get("resourceAttributes")
    if attributes is not None and attributes.get("namespace", "") != own:
        path = "spec.resourceAttributes.namespace"
        errors.append(invalid(path, attributes.get("namespace", ""), "must match metadata.namespace"))
    if "nonResourceAttributes" in spec:
        text = "disallowed on this kind of request"
        errors.append(invalid("spec.nonResourceAttributes", _url_as_printed(spec["nonResourceAttributes"]), text))
    _raise_if_any(errors)
    if own != namespace:
        raise BadRequest(f"spec.resourceAttributes.namespace must match namespace: {namespace}")


def check_self_subject_rules_review(review: Object) -> None:
    """There is a namespace to list rules for."""
    if not review.get("spec", {}).get("namespace"):
        raise BadRequest("no namespace on request")


def _raise_if_any(errors: list[FieldError]) -> None:
    if errors:
        raise Invalid.of(_AUTHORIZATION, "", errors)


def _meaningful_metadata(review: Object) -> dict[str, Any]:
    return {key: value for key, value in (review.get("metadata") or {}).items() if value and key != "managedFields"}


def _metadata_errors(review: Object) -> list[FieldError]:
    return [invalid("metadata", review["metadata"], "must be empty")] if _meaningful_metadata(review) else []


def _url_as_printed(attributes: dict[str, str]) -> dict[str, str]:
    """kube-apiserver prints its internal structure, whose field names are capitalised."""
    return {"Path": attributes.get("path", ""), "Verb": attributes.get("verb", "")}


def _spec_errors(review: Object, *, needs_subject: bool) -> list[FieldError]:
    spec = review.get("spec") or {}
    resource, url = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors: list[FieldError] = []
    if resource is not None and url is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", _url_as_printed(url), text))
    if resource is None and url is None:
        errors.append(invalid("spec.resourceAttributes", None, _EXACTLY_ONE))
    if needs_subject and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    for field in ("fieldSelector", "labelSelector"):
        selector = (resource or {}).get(field)
        if selector is not None:
            errors += _selector_errors(f"spec.resourceAttributes.{field}", selector, labels=field == "labelSelector")
    return errors


def _selector_errors(path: str, selector: dict[str, Any], *, labels: bool) -> list[FieldError]:
    raw, requirements = selector.get("rawSelector", ""), selector.get("requirements") or []
    errors: list[FieldError] = []
    if raw and requirements:
        errors.append(invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements"))
    if not raw and not requirements:
        text = f"when {path} is specified, requirements or rawSelector is required"
        errors.append(required(f"{path}.requirements", text))
    for index, requirement in enumerate(requirements):
        errors += _requirement_errors(f"{path}.requirements[{index}]", requirement, labels=labels)
    return errors


def _requirement_errors(path: str, requirement: dict[str, Any], *, labels: bool) -> list[FieldError]:
    """Operators unknown here are let through: a newer client may know more, and authorizers ignore what they do not."""
    key, values = requirement.get("key", ""), requirement.get("values") or []
    errors: list[FieldError] = []
    if not labels and not key:
        errors.append(required(f"{path}.key", "must be specified"))
    if requirement.get("operator") in {"In", "NotIn"} and not values:
        errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    if requirement.get("operator") in {"Exists", "DoesNotExist"} and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(f"{path}.values", text))
    if labels:
        errors += fieldrules.qualified_name(f"{path}.key", key)
        for index, value in enumerate(values):
            errors += fieldrules.each(f"{path}.values[{index}]", value, names.label_value(value))
    return errors
