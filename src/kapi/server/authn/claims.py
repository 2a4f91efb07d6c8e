"""From the claims of a token to a user: the mappings and rules of one issuer in an AuthenticationConfiguration.

A value is taken from a claim, with a prefix, or computed by an expression (CEL) that sees `claims`. Rules see `claims`
or, once it is known, the `user`. Errors read as those of kube-apiserver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.user import CREDENTIAL_ID, User
from kapi.schema.cel.environment import Environment, ResultTypeError
from kapi.schema.cel.run.code import BudgetExceeded, ProgramError
from kapi.schema.cel.syntax.ast import Call, Ident, Literal, Select, children
from kapi.schema.cel.syntax.identifiers import unescape
from kapi.schema.cel.syntax.issues import ExpressionErrors
from kapi.schema.cel.types import BOOL, DYN, STRING, Object, list_of, map_of
from kapi.schema.cel.values import EvaluationError
from kapi.server.authn.tokens import InvalidToken

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kapi.schema.cel.run.program import Program
    from kapi.schema.cel.syntax.ast import Expr
    from kapi.schema.cel.types import Type

    Claims = Mapping[str, Any]

_USER: Final = Object(
    "kubernetes.UserInfo",
    fields={
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
)
_CLAIMS: Final = Environment({"claims": map_of(STRING, DYN)})
_USERS: Final = Environment({"user": _USER})
_NOT_TEXTS: Final = "expression must return a string or a list of strings"


class ExpressionError(ValueError):
    """An expression of a configuration cannot be used; the text says why."""


class Expression:
    """A compiled expression of a configuration."""

    def __init__(self, source: str, environment: Environment, result: Type | None = None) -> None:
        self.source = source
        try:
            self._program: Program = environment.compile(source, result)
        except ExpressionErrors as error:
            raise ExpressionError(f"compilation failed: {error}") from None
        except ResultTypeError:
            raise ExpressionError("must evaluate to bool") from None
        except ProgramError as error:
            raise ExpressionError(f"program instantiation failed: {error}") from None
        self._escaped = {
            node.field: name
            for node in _nodes(self._program.checked.root)
            if isinstance(node, Select) and (name := unescape(node.field)) and name != node.field
        }

    def uses_claim(self, claim: str) -> bool:
        """Return True if the expression selects a claim by its name."""
        return any(_selects(node, claim) for node in _nodes(self._program.checked.root))

    def of_claims(self, claims: Claims) -> Any:
        """Return the value for claims; raises `InvalidToken`."""
        if self._escaped:
            # A field like `a__dash__b` stands for the claim `a-b`.
            claims = {**claims, **{name: claims[real] for name, real in self._escaped.items() if real in claims}}
        return self._evaluate({"claims": claims})

    def of_user(self, user: User) -> Any:
        """Return the value for a user; raises `InvalidToken`."""
        return self._evaluate(
            {"user": {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": user.extra}}
        )

    def _evaluate(self, variables: Mapping[str, Any]) -> Any:
        try:
            return self._program.evaluate(variables)[0]
        except (EvaluationError, BudgetExceeded) as error:
            raise InvalidToken(f"expression '{self.source}' resulted in error: {error}") from None


def claims_expression(source: str, result: Type | None = None) -> Expression:
    """Compile an expression on `claims`; raises `ExpressionError`."""
    return Expression(source, _CLAIMS, result)


def user_rule(source: str) -> Expression:
    """Compile a rule on `user`; raises `ExpressionError`."""
    return Expression(source, _USERS, BOOL)


def claims_rule(source: str) -> Expression:
    """Compile a rule on `claims`; raises `ExpressionError`."""
    return Expression(source, _CLAIMS, BOOL)


def _nodes(root: Expr) -> Iterator[Expr]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(children(node))


def _selects(node: Expr, claim: str) -> bool:
    match node:
        case Select(operand=Ident(name="claims")):
            return node.field == claim
        case Call(function="_?._", args=[Ident(name="claims"), Literal(value=value)]):
            return bool(value == claim)
        case _:
            return False


class ClaimMapper:
    """The mappings and rules of one issuer; the configuration they are read from is valid."""

    def __init__(self, issuer: Mapping[str, Any]) -> None:
        mappings = issuer["claimMappings"]
        self._username = mappings["username"]
        self._groups = mappings.get("groups") or {}
        self._uid = mappings.get("uid") or {}
        self._extra = [(one["key"], claims_expression(one["valueExpression"])) for one in mappings.get("extra") or ()]
        rules = issuer.get("claimValidationRules") or ()
        self._required = {one["claim"]: one.get("requiredValue") or "" for one in rules if one.get("claim")}
        self._claim_rules = _rules(rules, claims_rule)
        self._user_rules = _rules(issuer.get("userValidationRules") or (), user_rule)
        self._expressions = {
            what: claims_expression(mapping["expression"])
            for what, mapping in (("username", self._username), ("group", self._groups), ("uid", self._uid))
            if mapping.get("expression")
        }

    def user_of(self, claims: Claims) -> User:
        """Return the user that claims stand for; `InvalidToken` if a mapping or a rule refuses them."""
        seen = as_seen(claims)
        user = User(
            self._name(claims, seen),
            self._group_names(claims, seen),
            self._user_id(claims, seen),
            self._extras(claims, seen),
        )
        for claim, wanted in self._required.items():
            value = claims.get(claim)
            if value is None:
                raise InvalidToken(f"oidc: required claim {claim} not present in ID token")
            if value != wanted:
                raise InvalidToken(f"oidc: required claim {claim} value does not match. Got = {value}, want = {wanted}")
        for rule, message in self._claim_rules:
            _require(rule, rule.of_claims(seen), message, "claim validation expression")
        for rule, message in self._user_rules:
            _require(rule, rule.of_user(user), message, "user info validation rule")
        return user

    def _name(self, claims: Claims, seen: Claims) -> str:
        if "username" in self._expressions:
            name = self._expressions["username"].of_claims(seen)
            if not isinstance(name, str):
                raise InvalidToken(
                    "oidc: error evaluating username claim expression: username claim expression must return a string"
                )
            if not name:
                raise InvalidToken("oidc: empty username via CEL expression is not allowed")
            return name
        claim = self._username["claim"]
        name = _text(claims, claim, "username claims")
        if claim == "email" and claims.get("email_verified", True) is not True:
            raise InvalidToken("oidc: email not verified")
        return (self._username.get("prefix") or "") + name

    def _group_names(self, claims: Claims, seen: Claims) -> tuple[str, ...]:
        claim = self._groups.get("claim")
        if claim and claim in claims:
            value = claims[claim]
            names = [value] if isinstance(value, str) else value
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise InvalidToken(f'oidc: parse groups claim "{claim}": expected a string or a list of strings')
            prefix = self._groups.get("prefix") or ""
            return tuple(prefix + name for name in names)
        if "group" not in self._expressions:
            return ()
        return _texts(self._expressions["group"].of_claims(seen), "group claim expression")

    def _user_id(self, claims: Claims, seen: Claims) -> str:
        if claim := self._uid.get("claim"):
            return _text(claims, claim, "uid claim")
        if "uid" not in self._expressions:
            return ""
        uid = self._expressions["uid"].of_claims(seen)
        if not isinstance(uid, str):
            raise InvalidToken("oidc: error evaluating uid claim expression: uid claim expression must return a string")
        return uid

    def _extras(self, claims: Claims, seen: Claims) -> dict[str, list[str]]:
        extra = {}
        if isinstance(claims.get("jti"), str):
            extra[CREDENTIAL_ID] = [f"JTI={claims['jti']}"]
        for key, expression in self._extra:
            if values := _texts(expression.of_claims(seen), f"extra claim expression: {expression.source}"):
                extra[key] = list(values)
        return extra


def _rules(rules: Sequence[Mapping[str, Any]], compile_rule: Any) -> list[tuple[Expression, str]]:
    return [(compile_rule(one["expression"]), one.get("message") or "") for one in rules if one.get("expression")]


def as_seen(value: Any) -> Any:
    """Return claims as expressions see them: all numbers of JSON are doubles there."""
    if isinstance(value, dict):
        return {key: as_seen(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_seen(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _require(rule: Expression, value: object, message: str, what: str) -> None:
    if value is not True:
        raise InvalidToken(f"oidc: error evaluating {what}: validation expression '{rule.source}' failed: {message}")


def _text(claims: Claims, claim: str, what: str) -> str:
    value = claims.get(claim)
    if value is None:
        raise InvalidToken(f'oidc: parse {what} "{claim}": claim not present')
    if not isinstance(value, str):
        raise InvalidToken(f'oidc: parse {what} "{claim}": expected a string')
    return value


def _texts(value: Any, what: str) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(values, (list, tuple)) or not all(isinstance(one, str) for one in values):
        raise InvalidToken(f"oidc: error evaluating {what}: {_NOT_TEXTS}")
    return tuple(one for one in values if one)
