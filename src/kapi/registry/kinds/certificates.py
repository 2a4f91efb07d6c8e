"""CertificateSigningRequest.

Who asked is written down by the server, what was asked never changes, and approval has an endpoint of its own.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, duplicate, forbidden, invalid, required, too_long
from kapi.api.go.text import quote
from kapi.api.meta import format_time
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.sameness import difference, same
from kapi.registry.strategy import Strategy, copy_field

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)

_DECISIONS = ("Approved", "Denied")
_FINAL = ("Approved", "Denied", "Failed")
_PEM_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----", re.DOTALL)
_MAX_DOMAIN = 253
_MAX_PATH = 253 + 63 + 1


class CertificateSigningRequestStrategy(Strategy):
    """The rules of CertificateSigningRequest, and of its `/status`."""

    has_status = True
    selectable_fields = ("spec.signerName",)

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Write down who asks; nothing is decided."""
        spec = fieldrules.spec_of(obj)
        for field in ("username", "uid", "groups", "extra"):
            spec.pop(field, None)
        asking = {
            "username": write.user.name,
            "uid": write.user.uid,
            "groups": list(write.user.groups),
            "extra": write.user.extra,
        }
        spec.update({field: value for field, value in asking.items() if value})
        obj["status"] = {}

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A request a signer can understand."""
        return _request_errors(obj, None)

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Only metadata changes."""
        copy_field(obj, old, "spec")
        copy_field(obj, old, "status")

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Neither decisions nor certificates come in this way."""
        return _update_errors(obj, old, sets_decision=False, sets_certificate=False)

    def prepare_status(self, write: Write, obj: Object, old: Object) -> None:
        """Decisions are kept as they were made; new conditions get their times."""
        conditions = obj.setdefault("status", {}).get("conditions") or []
        for kind in _DECISIONS:
            _keep_conditions(conditions, _conditions(old), kind)
        _stamp_conditions(write, conditions, _conditions(old))

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """A signer sets the certificate once."""
        return _update_errors(obj, old, sets_decision=False, sets_certificate=True)

    def selectable(self, obj: Object) -> dict[str, str]:
        """By signer."""
        return {"spec.signerName": obj.get("spec", {}).get("signerName", "")}


class ApprovalStrategy(CertificateSigningRequestStrategy):
    """The rules of `certificatesigningrequests/{name}/approval`, an update that changes conditions and nothing else.

    `has_status` is off, so that the store leaves the request's status for `prepare_update` to take the conditions from.
    """

    has_status = False

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Take the conditions, restore the rest."""
        conditions = _conditions(obj)
        _stamp_conditions(write, conditions, _conditions(old))
        copy_field(obj, old, "spec")
        obj["status"] = {**(old.get("status") or {}), "conditions": conditions}
        if not conditions:
            del obj["status"]["conditions"]

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Decisions may be made, not unmade."""
        return _update_errors(obj, old, sets_decision=True, sets_certificate=False)


# -- the request -----------------------------------------------------------------------------------------------------


def _request_errors(obj: Object, old: Object | None) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    complaint = _pem_complaint(spec.get("request") or "")
    if complaint:
        errors.append(invalid("spec.request", spec.get("request"), complaint))
    errors += _usage_errors(spec.get("usages") or [])
    signer = spec.get("signerName", "")
    if old is None and signer == LEGACY_SIGNER:
        text = "the legacy signerName is not allowed via this API version"
        errors.append(invalid("spec.signerName", signer, text))
    else:
        errors += signer_name_errors("spec.signerName", signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", seconds, text))
    errors += _condition_errors(_conditions(obj))
    certificate = (obj.get("status") or {}).get("certificate")
    if certificate and (old is None or certificate != (old.get("status") or {}).get("certificate")):
        errors += _certificate_errors(certificate)
    return errors


def _pem_complaint(request: str) -> str:
    """Return why base64 text is not a PKCS#10 request in PEM, or nothing."""
    from cryptography import x509

    pem = base64.b64decode(request)
    block = _PEM_BLOCK.search(pem)
    if block is None or block[1] != b"CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        parsed = x509.load_pem_x509_csr(block[0])
    except ValueError as error:
        return f"asn1: structure error: {error}"
    return "" if parsed.is_signature_valid else "x509: signature verification failed"


def _certificate_errors(certificate: str) -> list[FieldError]:
    """Validate that what a signer issued is a chain of PEM certificates."""
    from cryptography import x509

    pem = base64.b64decode(certificate)
    blocks = list(_PEM_BLOCK.finditer(pem))
    other = next((block[1].decode() for block in blocks if block[1] != b"CERTIFICATE"), None)
    if other is not None:
        complaint = f"only CERTIFICATE PEM blocks are allowed, found {quote(other)}"
    elif not blocks:
        complaint = "must contain at least one CERTIFICATE PEM block"
    else:
        try:
            for block in blocks:
                x509.load_pem_x509_certificate(block[0])
        except ValueError as error:
            complaint = f"x509: malformed certificate: {error}"
        else:
            return []
    return [invalid("status.certificate", "<certificate data>", complaint)]


def _usage_errors(usages: list[str]) -> list[FieldError]:
    errors = [] if usages else [required("spec.usages")]
    for index, usage in enumerate(usages):
        errors += fieldrules.one_of(f"spec.usages[{index}]", usage, USAGES)
    return errors + [duplicate(f"spec.usages[{index}]", usages[index]) for index in fieldrules.repeated(usages)]


def signer_name_errors(path: str, name: str) -> list[FieldError]:
    """`example.com/signer-name`: a domain and a dotted path."""
    if not name:
        return [required(path)]
    if name.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, name, text)]
    domain, _, rest = name.partition("/")
    errors = [too_long(path, _MAX_DOMAIN)] if len(domain) > _MAX_DOMAIN else []
    errors += _label_errors(path, domain, names.dns_label)
    if "." not in domain:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    errors += _label_errors(path, rest, names.dns_subdomain)
    return [*errors, too_long(path, _MAX_PATH)] if len(rest) > _MAX_PATH else errors


def _label_errors(path: str, text: str, rule: Any) -> list[FieldError]:
    """The complaints about the first label that is wrong; more would only repeat them."""
    for label in text.split("."):
        sentences = rule(label)
        if sentences:
            return [invalid(path, text, f"validating label {quote(label)}: {sentence}") for sentence in sentences]
    return []


# -- conditions ------------------------------------------------------------------------------------------------------


def _conditions(obj: Object) -> list[dict[str, Any]]:
    conditions: list[dict[str, Any]] = (obj.get("status") or {}).get("conditions") or []
    return conditions


def _of_kind(conditions: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [condition for condition in conditions if condition.get("type") == kind]


def _keep_conditions(conditions: list[dict[str, Any]], stored: list[dict[str, Any]], kind: str) -> None:
    """Put the stored instances back where the request repeats them."""
    before = _of_kind(stored, kind)
    places = [index for index, condition in enumerate(conditions) if condition.get("type") == kind]
    if len(places) == len(before):
        for place, condition in zip(places, before, strict=True):
            conditions[place] = condition


def _stamp_conditions(write: Write, conditions: list[dict[str, Any]], stored: list[dict[str, Any]]) -> None:
    now = format_time(write.now)
    for condition in conditions:
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
        if condition.get("lastTransitionTime"):
            continue
        same_state = (
            before.get("lastTransitionTime")
            for before in stored
            if all(before.get(field) == condition.get(field) for field in ("type", "status"))
        )
        condition["lastTransitionTime"] = next(filter(None, same_state), now)


def _condition_errors(conditions: list[dict[str, Any]]) -> list[FieldError]:
    path = "status.conditions"
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        kind, status = condition.get("type", ""), condition.get("status", "")
        if not kind:
            errors.append(required(f"{path}[{index}].type"))
        allowed = ("True",) if kind in _FINAL else ("False", "True", "Unknown")
        if not status:
            errors.append(required(f"{path}[{index}].status"))
        else:
            errors += fieldrules.one_of(f"{path}[{index}].status", status, allowed)
        if kind in _DECISIONS and seen & set(_DECISIONS) - {kind}:
            errors.append(invalid(path, kind, "Approved and Denied conditions are mutually exclusive"))
        if kind in seen:
            errors.append(duplicate(f"{path}[{index}].type", kind))
        seen.add(kind)
    return errors


def _update_errors(obj: Object, old: Object, *, sets_decision: bool, sets_certificate: bool) -> list[FieldError]:
    errors = _request_errors(obj, old)
    path = "status.conditions"
    now, was = _conditions(obj), _conditions(old)
    for kind in _FINAL:
        if len(_of_kind(now, kind)) < len(_of_kind(was, kind)):
            errors.append(forbidden(path, f'updates may not remove a condition of type "{kind}"'))
    for kind in () if sets_decision else _DECISIONS:
        new, stored = _of_kind(now, kind), _of_kind(was, kind)
        if len(new) > len(stored):
            errors.append(forbidden(path, f'updates may not add a condition of type "{kind}"'))
        elif len(new) == len(stored) and not same(new, stored):
            text = f'updates may not modify a condition of type "{kind}"\n{difference(stored, new)}'
            errors.append(forbidden(path, text))
    return errors + _certificate_change_errors(obj, old, allowed=sets_certificate)


def _certificate_change_errors(obj: Object, old: Object, *, allowed: bool) -> list[FieldError]:
    now, was = ((side.get("status") or {}).get("certificate", "") for side in (obj, old))
    if now == was:
        return []
    if not allowed:
        return [forbidden("status.certificate", "updates may not set certificate content")]
    return [forbidden("status.certificate", "updates may not modify existing certificate content")] if was else []


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("certificates.k8s.io", "CertificateSigningRequest"): CertificateSigningRequestStrategy(),
}
