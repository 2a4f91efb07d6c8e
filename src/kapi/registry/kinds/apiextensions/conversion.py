"""The rules of `spec.conversion`: where the webhook is, whose certificates it may have, which reviews it understands.

Also says whether a bundle of certificates can be used, which decides both whether a definition may be written and
whether it becomes established. Certificates are parsed, no connection is made.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any, Final

from kapi.api import names
from kapi.api.fielderror import FieldError, forbidden, invalid, not_supported, required
from kapi.registry.kinds.admissionregistration import client_config_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NONE, WEBHOOK = "None", "Webhook"
REVIEW_VERSIONS: Final = ("v1", "v1beta1")
"""The versions of ConversionReview that this server speaks."""

_UNUSED: Final = "should not be set when strategy is not set to Webhook"
_BEGIN, _END, _DASHES = b"-----BEGIN ", b"-----END ", b"-----"


def client_config(conversion: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return where the webhook of a conversion is; None when it does not say."""
    webhook = (conversion or {}).get("webhook") or {}
    config: Mapping[str, Any] | None = webhook.get("clientConfig")
    return config


def review_versions(conversion: Mapping[str, Any] | None) -> list[str]:
    """The reviews the webhook of a conversion understands."""
    return ((conversion or {}).get("webhook") or {}).get("conversionReviewVersions") or []


def is_recognized(versions: list[str]) -> bool:
    """Return True if there is a review version that both sides speak; an empty list says nothing."""
    return not versions or any(version in REVIEW_VERSIONS for version in versions)


def conversion_errors(
    conversion: Mapping[str, Any], path: str, *, recognized: bool, certificates: bool
) -> list[FieldError]:
    """Validate a conversion. `recognized`: a review version must be known; `certificates`: the bundle must be valid."""
    strategy = conversion.get("strategy", "")
    errors: list[FieldError] = []
    if not strategy:
        errors.append(required(f"{path}.strategy"))
    elif strategy not in (NONE, WEBHOOK):
        errors.append(not_supported(f"{path}.strategy", strategy, (NONE, WEBHOOK)))
    config, versions = client_config(conversion), review_versions(conversion)
    if strategy == WEBHOOK:
        errors += _webhook_errors(config, f"{path}.webhookClientConfig", certificates=certificates)
        return errors + _review_errors(versions, f"{path}.conversionReviewVersions", recognized=recognized)
    if config is not None:
        errors.append(forbidden(f"{path}.webhookClientConfig", _UNUSED))
    if versions:
        errors.append(forbidden(f"{path}.conversionReviewVersions", _UNUSED))
    return errors


def _webhook_errors(config: Mapping[str, Any] | None, path: str, *, certificates: bool) -> list[FieldError]:
    if config is None:
        return [required(path, "required when strategy is set to Webhook")]
    errors = client_config_errors(path, dict(config))
    bundle = config.get("caBundle")
    problem = bundle_problem(bundle) if bundle and certificates else ""
    return [*errors, invalid(f"{path}.caBundle", bundle, problem)] if problem else errors


def _review_errors(versions: list[str], path: str, *, recognized: bool) -> list[FieldError]:
    if not versions:
        return [required(path)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        seen.add(version)
        errors += [invalid(f"{path}[{index}]", version, sentence) for sentence in names.dns1035_label(version)]
    if recognized and not is_recognized(versions):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))
    return errors


def bundle_problem(bundle: str | None) -> str:
    """Return what is wrong with a `caBundle` (PEM in base64), in kube-apiserver's words; empty when nothing is."""
    if not bundle:
        return ""
    problem = "no valid certificate authority data seen"
    blocks = list(_blocks(binascii.a2b_base64(bundle)))
    if not blocks:
        problem = "unable to parse bytes as PEM block"
    for label, text in blocks:
        if label != b"CERTIFICATE":
            continue
        if _is_certificate(text):
            return ""
        problem = "failed to parse certificate: x509: malformed certificate"
    return f"unable to load root certificates: {problem}"


def _blocks(pem: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The blocks of a PEM text: what each says it is, and its content. Reads the text once, however it is made."""
    start, end = pem.find(_BEGIN), -1
    while start >= 0:
        content = pem.find(_DASHES, start + len(_BEGIN)) + len(_DASHES)
        if end < content:
            end = pem.find(_END, content)
        if end < 0 or content < len(_DASHES):
            return
        label = pem[start + len(_BEGIN) : content - len(_DASHES)]
        closed = pem.startswith(label + _DASHES, end + len(_END))
        if closed:
            yield label, pem[content:end]
        start = pem.find(_BEGIN, end if closed else content)


def _is_certificate(text: bytes) -> bool:
    # Imported when needed: few definitions have certificates, and it takes a while.
    from cryptography import x509

    try:
        x509.load_der_x509_certificate(binascii.a2b_base64(text))
    except ValueError:
        return False
    return True
