"""The file of `--authentication-config`: an AuthenticationConfiguration, with issuers of tokens and anonymous paths.

Everything that is wrong is reported at once, with file, line and field, in the words of kube-apiserver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from kapi.api import names
from kapi.api.fielderror import duplicate, forbidden, invalid, required, too_many
from kapi.base.trust import Authorities
from kapi.server.authn.claims import Expression, ExpressionError, claims_expression, claims_rule, user_rule
from kapi.server.configfile import ConfigFile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from kapi.api.fielderror import FieldError

    Errors = Iterator[FieldError]

MAX_ISSUERS: Final = 64

_PREFIXED: Final = {"claim": str, "prefix": str, "expression": str}
_SHAPE: Final[Mapping[str, Any]] = {
    "jwt": [
        {
            "issuer": {
                "url": str,
                "discoveryURL": str,
                "certificateAuthority": str,
                "audiences": [str],
                "audienceMatchPolicy": str,
                "egressSelectorType": str,
            },
            "claimValidationRules": [{"claim": str, "requiredValue": str, "expression": str, "message": str}],
            "claimMappings": {
                "username": _PREFIXED,
                "groups": _PREFIXED,
                "uid": {"claim": str, "expression": str},
                "extra": [{"key": str, "valueExpression": str}],
            },
            "userValidationRules": [{"expression": str, "message": str}],
        }
    ],
    "anonymous": {"enabled": bool, "conditions": [{"path": str}]},
}
_VERSIONS: Final = ("apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1")


class AuthenticationConfig(NamedTuple):
    """A configuration without mistakes."""

    issuers: Sequence[Mapping[str, Any]]
    """The entries of `jwt`."""
    anonymous: Mapping[str, Any] | None = None


def read_authentication_config(path: Path, own_issuers: Collection[str]) -> AuthenticationConfig:
    """Read a configuration file. `own_issuers` are those of service accounts, which no other may have the name of.

    Raises:
        ConfigFileError: the file has mistakes, all of which the message names.
    """
    kind = "AuthenticationConfiguration"
    file = ConfigFile(path, {(version, kind): _SHAPE for version in _VERSIONS})
    file.refuse(config_errors(file.obj, own_issuers))
    return AuthenticationConfig(file.obj.get("jwt") or (), file.obj.get("anonymous"))


def config_errors(config: Mapping[str, Any], own_issuers: Collection[str]) -> Errors:
    """Find the mistakes in a configuration of the right shape."""
    issuers = config.get("jwt") or ()
    if len(issuers) > MAX_ISSUERS:
        yield too_many("jwt", len(issuers), MAX_ISSUERS)
        return
    urls: set[str] = set()
    discovery_urls: set[str] = set()
    for index, entry in enumerate(issuers):
        path, issuer = f"jwt[{index}]", entry.get("issuer") or {}
        yield from _issuer_errors(f"{path}.issuer", issuer, own_issuers)
        yield from _mapping_errors(path, entry)
        yield from _user_rule_errors(f"{path}.userValidationRules", entry.get("userValidationRules") or ())
        for field, seen in (("url", urls), ("discoveryURL", discovery_urls)):
            if (value := issuer.get(field)) and value in seen:
                yield duplicate(f"{path}.issuer.{field}", value)
            seen.add(value or "")
    anonymous = config.get("anonymous")
    if anonymous is not None and not anonymous.get("enabled") and anonymous.get("conditions"):
        why = "enabled should be set to true when conditions are defined"
        yield invalid("anonymous.conditions", anonymous["conditions"], why)


def _issuer_errors(path: str, issuer: Mapping[str, Any], own_issuers: Collection[str]) -> Errors:
    url, discovery = issuer.get("url") or "", issuer.get("discoveryURL") or ""
    if not url:
        yield required(f"{path}.url")
    else:
        if url in own_issuers:
            why = f"URL must not overlap with disallowed issuers: [{' '.join(sorted(own_issuers))}]"
            yield invalid(f"{path}.url", url, why)
        yield from url_errors(f"{path}.url", url)
    if discovery:
        if url.rstrip("/") == discovery.rstrip("/"):
            yield invalid(f"{path}.discoveryURL", discovery, "discoveryURL must be different from URL")
        yield from url_errors(f"{path}.discoveryURL", discovery)
    yield from _audience_errors(path, issuer.get("audiences") or (), issuer.get("audienceMatchPolicy") or "")
    if authority := issuer.get("certificateAuthority"):
        try:
            Authorities(authority.encode())
        except ValueError:
            why = "data does not contain any valid RSA or ECDSA certificates"
            yield invalid(f"{path}.certificateAuthority", "<omitted>", why)
    if issuer.get("egressSelectorType"):
        yield forbidden(f"{path}.egressSelectorType", "egress selectors are not supported by this server")


def url_errors(path: str, url: str) -> Errors:
    """Find what is wrong with the URL of an issuer."""
    try:
        parts = urlsplit(url)
        user = parts.username or parts.password
    except ValueError as error:
        yield invalid(path, url, str(error))
        return
    if parts.scheme != "https":
        yield invalid(path, url, "URL scheme must be https")
    if user:
        yield invalid(path, url, "URL must not contain a username or password")
    if parts.query:
        yield invalid(path, url, "URL must not contain a query")
    if parts.fragment:
        yield invalid(path, url, "URL must not contain a fragment")


def _audience_errors(path: str, audiences: Sequence[str], policy: str) -> Errors:
    if not audiences:
        yield required(f"{path}.audiences", f"at least one {path}.audiences is required")
        return
    for index, audience in enumerate(audiences):
        if not audience:
            yield required(f"{path}.audiences[{index}]")
        if audience in audiences[:index]:
            yield duplicate(f"{path}.audiences[{index}]", audience)
    if len(audiences) > 1 and policy != "MatchAny":
        why = "audienceMatchPolicy must be MatchAny for multiple audiences"
        yield invalid(f"{path}.audienceMatchPolicy", policy, why)
    if len(audiences) == 1 and policy not in ("", "MatchAny"):
        why = "audienceMatchPolicy must be empty or MatchAny for single audience"
        yield invalid(f"{path}.audienceMatchPolicy", policy, why)


class _Compiler:
    """Compiles expressions, collects what is wrong with them, and keeps those that are not."""

    def __init__(self) -> None:
        self.compiled: list[Expression] = []

    def check(self, path: str, source: str, compile_one: Callable[[str], Expression]) -> Errors:
        """Compile one expression."""
        try:
            self.compiled.append(compile_one(source))
        except ExpressionError as error:
            yield invalid(path, source, str(error))


def _mapping_errors(path: str, entry: Mapping[str, Any]) -> Errors:
    mappings = entry.get("claimMappings") or {}
    others, username = _Compiler(), _Compiler()
    yield from _claim_rule_errors(f"{path}.claimValidationRules", entry.get("claimValidationRules") or (), others)
    path = f"{path}.claimMappings"
    yield from _prefixed_errors(f"{path}.username", mappings.get("username") or {}, username, is_required=True)
    yield from _prefixed_errors(f"{path}.groups", mappings.get("groups") or {}, _Compiler(), is_required=False)
    uid = mappings.get("uid") or {}
    if uid.get("claim") and uid.get("expression"):
        yield invalid(f"{path}.uid", "", "claim and expression can't both be set")
    elif uid.get("expression"):
        yield from _Compiler().check(f"{path}.uid.expression", uid["expression"], claims_expression)
    yield from _extra_errors(f"{path}.extra", mappings.get("extra") or (), others)
    checked = [*others.compiled, *username.compiled]
    if any(one.uses_claim("email") for one in username.compiled) and not any(
        one.uses_claim("email_verified") for one in checked
    ):
        why = (
            "claims.email_verified must be used in claimMappings.username.expression or "
            "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in "
            "claimMappings.username.expression"
        )
        yield invalid(f"{path}.username.expression", mappings["username"]["expression"], why)


def _prefixed_errors(path: str, mapping: Mapping[str, Any], compiler: _Compiler, *, is_required: bool) -> Errors:
    claim, expression = mapping.get("claim"), mapping.get("expression")
    if claim and expression:
        yield invalid(path, "", "claim and expression can't both be set")
    elif expression:
        if mapping.get("prefix") is not None:
            yield invalid(f"{path}.prefix", mapping["prefix"], "may not be specified when expression is set")
        yield from compiler.check(f"{path}.expression", expression, claims_expression)
    elif claim:
        if mapping.get("prefix") is None:
            why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
            yield required(f"{path}.prefix", why)
    elif is_required:
        yield required(path, "claim or expression is required")


def _claim_rule_errors(path: str, rules: Sequence[Mapping[str, Any]], compiler: _Compiler) -> Errors:
    seen: set[tuple[str, str]] = set()
    for index, rule in enumerate(rules):
        where, claim, expression = f"{path}[{index}]", rule.get("claim"), rule.get("expression")
        if claim and expression:
            yield invalid(where, claim, "claim and expression can't both be set")
        elif claim:
            if rule.get("message"):
                yield invalid(f"{where}.message", rule["message"], "may not be specified when claim is set")
            if ("claim", claim) in seen:
                yield duplicate(f"{where}.claim", claim)
            seen.add(("claim", claim))
        elif expression:
            if rule.get("requiredValue"):
                why = "may not be specified when expression is set"
                yield invalid(f"{where}.requiredValue", rule["requiredValue"], why)
            if ("expression", expression) in seen:
                yield duplicate(f"{where}.expression", expression)
                continue
            seen.add(("expression", expression))
            yield from compiler.check(f"{where}.expression", expression, claims_rule)
        else:
            yield required(where, "claim or expression is required")


def _extra_errors(path: str, extra: Sequence[Mapping[str, Any]], compiler: _Compiler) -> Errors:
    seen: set[str] = set()
    for index, mapping in enumerate(extra):
        where, key = f"{path}[{index}]", mapping.get("key") or ""
        yield from names.domain_prefixed_path(f"{where}.key", key)
        if key != key.lower():
            yield invalid(f"{where}.key", key, "must be lowercase")
        domain = key.partition("/")[0] if "/" in key else ""
        if any(domain == one or domain.endswith(f".{one}") for one in ("kubernetes.io", "k8s.io")):
            why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
            yield invalid(f"{where}.key", key, why)
        if key in seen:
            yield duplicate(f"{where}.key", key)
            continue
        seen.add(key)
        if not mapping.get("valueExpression"):
            yield required(f"{where}.valueExpression")
            continue
        yield from compiler.check(f"{where}.valueExpression", mapping["valueExpression"], claims_expression)


def _user_rule_errors(path: str, rules: Sequence[Mapping[str, Any]]) -> Errors:
    seen: set[str] = set()
    for index, rule in enumerate(rules):
        where, expression = f"{path}[{index}].expression", rule.get("expression") or ""
        if not expression:
            yield required(where)
        elif expression in seen:
            yield duplicate(where, expression)
        else:
            seen.add(expression)
            yield from _Compiler().check(where, expression, user_rule)
