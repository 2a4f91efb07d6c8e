"""The IP families of a Service, and the consistency of its four fields about addresses.

The four fields say one thing in four ways, grew over years, and may each be set, left out or changed by old and new
clients; these functions fill in what is missing the way kube-apiserver does. One family is configured here,
so dual-stack is refused where it is required and ignored where it is preferred. Pure functions; they change
`service` in place.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, duplicate, invalid, not_supported, required
from kapi.api.go.addresses import parse_ip_sloppy
from kapi.registry.kinds import fieldrules

if TYPE_CHECKING:
    from kapi.api.meta import Object

FAMILIES = ("IPv4", "IPv6")
POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
NONE = "None"

_ONE_FAMILY_EACH = "may specify no more than one IP for each IP family"


def family_of(address: str) -> str:
    """`IPv4`, `IPv6` or `unknown`."""
    parsed = parse_ip_sloppy(address)
    return f"IPv{parsed.version}" if parsed else "unknown"


def is_headless(service: Object | None) -> bool:
    """A Service whose only cluster IP is `None`."""
    return service is not None and service["spec"].get("clusterIPs") == [NONE]


def needs_cluster_ip(service: Object) -> bool:
    """All but external names have a place for one."""
    return bool(service["spec"].get("type") != "ExternalName")


def normalize_cluster_ips(service: Object, old: Object | None) -> None:
    """Bring `clusterIPs` in line with `clusterIP`, which older clients set alone."""
    spec = service["spec"]
    if old is None:
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        return
    was, now = old["spec"].get("clusterIP", ""), spec.get("clusterIP", "")
    stored = old["spec"].get("clusterIPs") or []
    if stored and not spec.get("clusterIPs") and was == now:
        spec["clusterIPs"] = list(stored)
    if was != now and (spec.get("clusterIPs") or []) == stored:
        if was and not now:
            spec.pop("clusterIPs", None)
        else:
            spec["clusterIPs"] = [now]


def keep_cluster_ips(service: Object, old: Object) -> None:
    """An update that leaves the addresses out keeps them."""
    if not (needs_cluster_ip(old) and needs_cluster_ip(service)):
        return
    spec = service["spec"]
    for field in ("clusterIP", "clusterIPs"):
        if not spec.get(field) and old["spec"].get(field):
            spec[field] = old["spec"][field]


def fill_families(service: Object, old: Object | None, configured: tuple[str, ...]) -> list[FieldError]:
    """Decide policy and families; what is wrong with the request is returned and left as it was."""
    spec = service["spec"]
    if not needs_cluster_ip(service) or _still_prefers_dual_stack(service, old):
        return []
    selectorless = spec.get("clusterIP") == NONE and not spec.get("selector")
    _fill_policy(spec, old, selectorless=selectorless)
    errors = cluster_ip_errors(service, old)
    if errors:
        return errors
    errors = _release_errors(spec, old) + _single_stack_errors(spec) + _fill_from_addresses(spec, configured)
    if errors:
        return errors
    if selectorless:
        _fill_selectorless(spec, configured[0])
        return []
    errors = _configured_errors(spec, configured)
    if not errors:
        _fill_remaining(spec, configured)
    return errors


def _still_prefers_dual_stack(service: Object, old: Object | None) -> bool:
    """Nothing to decide when a dual-stack-preferring Service comes back as it was."""
    if old is None or old["spec"].get("type") != service["spec"].get("type"):
        return False
    fields = ("clusterIPs", "ipFamilies")
    return (
        service["spec"].get("ipFamilyPolicy") == "PreferDualStack"
        and old["spec"].get("ipFamilyPolicy", "PreferDualStack") == "PreferDualStack"
        and all((service["spec"].get(field) or []) == (old["spec"].get(field) or []) for field in fields)
    )


def _fill_policy(spec: dict[str, Any], old: Object | None, *, selectorless: bool) -> None:
    if "ipFamilyPolicy" in spec:
        return
    if old is not None and "ipFamilyPolicy" in old["spec"]:
        spec["ipFamilyPolicy"] = old["spec"]["ipFamilyPolicy"]
    else:
        spec["ipFamilyPolicy"] = "RequireDualStack" if selectorless else "SingleStack"


def _release_errors(spec: dict[str, Any], old: Object | None) -> list[FieldError]:
    """Going back to one family: implied by the policy, or refused without it."""
    if old is None:
        return []
    errors = []
    for field, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        now, was = spec.get(field) or [], old["spec"].get(field) or []
        if spec["ipFamilyPolicy"] == "SingleStack":
            if now == was and len(now) > 1:
                spec[field] = now[:1]
        elif now and len(now) < len(was):
            errors.append(
                invalid(
                    "spec.ipFamilyPolicy",
                    spec["ipFamilyPolicy"],
                    f"must be 'SingleStack' to release the secondary {what}",
                ),
            )
    return errors


def _single_stack_errors(spec: dict[str, Any]) -> list[FieldError]:
    if spec["ipFamilyPolicy"] != "SingleStack":
        return []
    text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    return [
        invalid("spec.ipFamilyPolicy", "SingleStack", text.format(what))
        for field, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
        if len(spec.get(field) or ()) == 2
    ]


def _fill_from_addresses(spec: dict[str, Any], configured: tuple[str, ...]) -> list[FieldError]:
    """Families not named follow from the addresses that are."""
    errors: list[FieldError] = []
    for index, address in enumerate(spec.get("clusterIPs") or ()):
        if address == NONE:
            break
        families = spec.get("ipFamilies") or []
        if index < len(families):
            continue
        family = family_of(address)
        if family in configured:
            spec["ipFamilies"] = [*families, family]
        else:
            errors.append(
                invalid(f"spec.clusterIPs[{index}]", spec["clusterIPs"], f"{family} is not configured on this cluster"),
            )
    return errors


def _fill_selectorless(spec: dict[str, Any], primary: str) -> None:
    """Headless and without selector: the endpoints are managed by another controller, so both families are declared."""
    families = list(spec.get("ipFamilies") or [primary])
    if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
        families.append("IPv6" if families[0] == "IPv4" else "IPv4")
    spec["ipFamilies"] = families


def _configured_errors(spec: dict[str, Any], configured: tuple[str, ...]) -> list[FieldError]:
    errors = []
    if spec["ipFamilyPolicy"] == "RequireDualStack" and len(configured) < 2:
        errors.append(
            invalid(
                "spec.ipFamilyPolicy", "RequireDualStack", "this cluster is not configured for dual-stack services"
            ),
        )
    errors += [
        invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(spec.get("ipFamilies") or ())
        if family not in configured
    ]
    return errors


def _fill_remaining(spec: dict[str, Any], configured: tuple[str, ...]) -> None:
    families = list(spec.get("ipFamilies") or configured[:1])
    if spec["ipFamilyPolicy"] != "SingleStack" and len(families) == 1 and len(configured) == 2:
        families.append("IPv6" if families[0] == "IPv4" else "IPv4")
    spec["ipFamilies"] = families


# -- validation ------------------------------------------------------------------------------------------------------


def cluster_ip_errors(service: Object, old: Object | None) -> list[FieldError]:
    """Validate that the four fields agree with each other."""
    if not needs_cluster_ip(service):
        return []
    spec = service["spec"]
    errors = _agreement_errors(spec) + _enumeration_errors(spec)
    address_errors = _address_errors(spec, frozenset((old or {"spec": {}})["spec"].get("clusterIPs") or ()))
    errors += address_errors
    addresses = spec.get("clusterIPs") or []
    if len(addresses) > 2:
        errors.append(invalid("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    if address_errors:
        return errors
    if len(addresses) > 1 and len({family_of(address) for address in addresses}) < 2:
        errors.append(invalid("spec.clusterIPs", addresses, _ONE_FAMILY_EACH))
    if not is_headless(service):
        errors += _family_errors(addresses, spec.get("ipFamilies") or [])
    return errors


def _agreement_errors(spec: dict[str, Any]) -> list[FieldError]:
    single, plural = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if single and not plural:
        return [required("spec.clusterIPs")]
    if single and plural[0] != single:
        return [invalid("spec.clusterIPs", plural, "first value must match `clusterIP`")]
    if not single and plural:
        return [invalid("spec.clusterIPs", plural, "must be empty when `clusterIP` is not specified")]
    return []


def _enumeration_errors(spec: dict[str, Any]) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        path = f"spec.ipFamilies[{index}]"
        errors += fieldrules.one_of(path, family, FAMILIES)
        if family in seen:
            errors.append(duplicate(path, family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, POLICIES))
    return errors


def _address_errors(spec: dict[str, Any], stored: frozenset[str]) -> list[FieldError]:
    addresses = spec.get("clusterIPs") or []
    errors: list[FieldError] = []
    for index, address in enumerate(addresses):
        if index == 0 and address == NONE:
            if len(addresses) > 1:
                errors.append(invalid("spec.clusterIPs", addresses, "'None' must be the first and only value"))
            continue
        errors += fieldrules.ip(f"spec.clusterIPs[{index}]", address, stored)
    return errors


def _family_errors(addresses: list[str], families: list[str]) -> list[FieldError]:
    errors = []
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        is_six = isinstance(parse_ip_sloppy(address), ipaddress.IPv6Address)
        if family in FAMILIES and is_six != (family == "IPv6"):
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"spec.clusterIPs[{index}]", address, detail))
    return errors


def transition_errors(service: Object, old: Object) -> list[FieldError]:
    """Validate an update of addresses and families, most of which are immutable once set."""
    if not (needs_cluster_ip(service) and needs_cluster_ip(old)):
        return []
    headless, was_headless = is_headless(service), is_headless(old)
    errors: list[FieldError] = []
    if not (headless and was_headless):
        errors += _changed_errors(service["spec"], old["spec"], "clusterIPs", "clusterIP")
    if not headless and not was_headless:
        errors += _changed_errors(service["spec"], old["spec"], "ipFamilies", "ipFamily")
    return errors


def _changed_errors(spec: dict[str, Any], old: dict[str, Any], field: str, singular: str) -> list[FieldError]:
    now, was = spec.get(field) or [], old.get(field) or []
    path = f"spec.{field}"
    if len(now) == len(was):
        return [
            invalid(f"{path}[{index if field == 'clusterIPs' else 0}]", now, "may not change once set")
            for index, value in enumerate(was)
            if value != now[index]
        ]
    errors = []
    if len(now) < len(was) and not spec.get("clusterIPs"):
        errors.append(invalid(f"{path}[0]", now or None, f"primary {singular} can not be unset"))
    if now and was and now[0] != was[0]:
        errors.append(invalid(f"{path}[0]", spec.get("clusterIPs"), "may not change once set"))
    if len(now) < len(was) and len(now) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        detail = f"must be set to 'SingleStack' when releasing the secondary {singular}"
        errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), detail))
    return errors
