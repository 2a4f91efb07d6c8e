"""Impersonation: acting as another user, who is named in the headers `Impersonate-*`.

Two kinds of permission allow it, as in Kubernetes v1.36. The old one is the verb `impersonate` on users, groups,
serviceaccounts, uids and userextras: it allows every request as that user. Constrained impersonation needs two verbs,
`impersonate:<mode>` on the user and `impersonate-on:<mode>:<verb>` on what is requested, and never makes a member of
`system:masters`. The mode follows from the user: `associated-node`, `arbitrary-node`, `serviceaccount` or `user-info`.
A request is allowed if any mode allows it; if none does, it is refused with the error of the first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from kapi.api import names
from kapi.api.errors import BadRequest, Forbidden
from kapi.api.go.text import quote
from kapi.api.user import ANONYMOUS, User
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.authorizer import aggregate, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kapi.server.authz.authorizer import Authorizer

PREFIX: Final = "impersonate-"
SEPARATOR: Final = "\n"
"""Between the values of a header that is given more than once, see `transport.message.Request`."""
MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""The extra attribute of a service account that is bound to a Pod: the node that the Pod runs on."""
MANY: Final = 4
"""With this many groups or extra values, a permission for all of them is looked for first."""
REMEMBERED_USERS: Final = 10_000

_EXTRA: Final = "impersonate-extra-"
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_NODE_PREFIX: Final = "system:node:"
_AUTHENTICATION: Final = "authentication.k8s.io"


def is_impersonated(headers: Iterable[str]) -> bool:
    """Return True if a request has a header of impersonation."""
    for name in headers:  # noqa: SIM110 - on the path of every request, where a generator costs twice as much
        if name.startswith(PREFIX):
            return True
    return False


class Impersonation(NamedTuple):
    """The user to act as, and the verb that allowed it; the verb is empty for the old kind of permission."""

    user: User
    constraint: str = ""


class Impersonator:
    """Decides which users the sender of a request may act as."""

    def __init__(self) -> None:
        self._last_mode: OrderedDict[str, _Mode] = OrderedDict()
        """The mode that last succeeded for each user: it is tried first."""

    async def impersonate(self, authorizer: Authorizer, request: Attributes, wanted: User) -> Impersonation:
        """Return the user that a request is made as; Forbidden if its sender may not act as that user."""
        name = request.user.name
        last = self._last_mode.get(name)
        modes = _MODES if last is None else (last, *(mode for mode in _MODES if mode is not last))
        first: Forbidden | None = None
        for mode in modes:
            if not mode.applies(wanted, request.user):
                continue
            try:
                user = await mode.check(authorizer, request, wanted)
            except Forbidden as error:
                first = first or error
                continue
            self._remember(name, mode)
            return Impersonation(user, "" if mode is _LEGACY else mode.verb)
        assert first is not None
        raise first

    def _remember(self, name: str, mode: _Mode) -> None:
        self._last_mode[name] = mode
        self._last_mode.move_to_end(name)
        if len(self._last_mode) > REMEMBERED_USERS:
            self._last_mode.popitem(last=False)


def wanted_user(headers: Mapping[str, str]) -> User | None:
    """Return the user that the headers name; None if they name none."""
    name = headers.get("impersonate-user", "").partition(SEPARATOR)[0]
    uid = headers.get("impersonate-uid", "").partition(SEPARATOR)[0]
    group_header = headers.get("impersonate-group")
    groups = () if group_header is None else tuple(group_header.split(SEPARATOR))
    extra: dict[str, list[str]] = {}
    for header, values in headers.items():
        if header.startswith(_EXTRA):
            extra.setdefault(unquote(header.removeprefix(_EXTRA)), []).extend(values.split(SEPARATOR))
    wanted = User(name, groups, uid, extra)
    if name:
        return wanted
    if uid or groups or extra:
        raise BadRequest(f"requested {_go_syntax(wanted)} without impersonating a user name")
    return None


def _go_syntax(user: User) -> str:
    """Return a user as Go prints its structure with %#v."""
    groups = f"{{{', '.join(map(quote, user.groups))}}}" if user.groups else "(nil)"
    values = ", ".join(
        f"{quote(key)}:[]string{{{', '.join(map(quote, user.extra[key]))}}}" for key in sorted(user.extra)
    )
    extra = f"{{{values}}}" if user.extra else "(nil)"
    return (
        f"&user.DefaultInfo{{Name:{quote(user.name)}, UID:{quote(user.uid)}, "
        f"Groups:[]string{groups}, Extra:map[string][]string{extra}}}"
    )


# -- modes ------------------------------------------------------------------------------------------------------------


class _Mode:
    """One way to be allowed to act as a user: `applies` tells whether it is for that user."""

    def __init__(self, name: str, applies: Callable[[User, User], bool]) -> None:
        self.name = name
        self.applies = applies
        self.verb = f"impersonate:{name}" if name else "impersonate"
        self.is_constrained = bool(name)

    async def check(self, authorizer: Authorizer, request: Attributes, wanted: User) -> User:
        """Return the user with its groups; Forbidden names the first permission that is missing."""
        if self.is_constrained:
            await _require(authorizer, request._replace(verb=f"impersonate-on:{self.name}:{request.verb}"))
        ask = _Ask(authorizer, request.user, self.verb, is_constrained=self.is_constrained)
        groups = await ask.name(wanted, self.name)
        if wanted.uid:
            await ask.uid(wanted.uid)
        if wanted.groups:
            await ask.groups(wanted.groups)
        if wanted.extra:
            await ask.extra_values(wanted.extra)
        return User(wanted.name, _with_default_group(wanted.name, groups), wanted.uid, wanted.extra)


class _Ask(NamedTuple):
    """The questions about one user: whether each of its attributes may be impersonated with a verb."""

    authorizer: Authorizer
    requestor: User
    verb: str
    is_constrained: bool

    async def name(self, wanted: User, mode: str) -> tuple[str, ...]:
        """Ask for the name; returns the groups, which are fixed for nodes and service accounts."""
        groups = wanted.groups
        attributes = self._attributes("users", wanted.name)
        node, account = _node_name(wanted.name), _account(wanted.name)
        if self.is_constrained and node:
            # A service account may act as the node it runs on, whichever that is.
            attributes = attributes._replace(resource="nodes", name="*" if mode == _ASSOCIATED else node)
            groups = ("system:nodes",)
        elif account:
            namespace, name = account
            attributes = attributes._replace(resource="serviceaccounts", namespace=namespace, name=name)
            groups = groups or ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        await _require(self.authorizer, attributes)
        return groups

    async def uid(self, uid: str) -> None:
        """Ask for the uid."""
        await _require(self.authorizer, self._attributes("uids", uid)._replace(group=_AUTHENTICATION))

    async def groups(self, groups: tuple[str, ...]) -> None:
        """Ask for each group."""
        attributes = self._attributes("groups", "")
        if self.is_constrained:
            if "" in groups:
                raise refusal(attributes, "impersonating the empty string group is not allowed")
            if MASTERS in groups:
                why = "impersonating the system:masters group is not allowed"
                raise refusal(attributes._replace(name=MASTERS), why)
            if len(groups) >= MANY and await _is_allowed(self.authorizer, attributes._replace(name="*")):
                return
        for group in groups:
            await _require(self.authorizer, attributes._replace(name=group))

    async def extra_values(self, extra: Mapping[str, list[str]]) -> None:
        """Ask for each value of each extra attribute."""
        attributes = self._attributes("userextras", "")._replace(group=_AUTHENTICATION)
        if self.is_constrained:
            if problem := _extra_problem(extra):
                raise refusal(attributes, problem)
            if sum(map(len, extra.values())) >= MANY and await _is_allowed(
                self.authorizer, attributes._replace(subresource="*", name="*")
            ):
                return
        for key, values in extra.items():
            for value in values:
                await _require(self.authorizer, attributes._replace(subresource=key, name=value))

    def _attributes(self, resource: str, name: str) -> Attributes:
        group = _AUTHENTICATION if self.is_constrained else ""
        return Attributes(self.requestor, self.verb, group, "v1", resource, name=name)


async def _is_allowed(authorizer: Authorizer, attributes: Attributes) -> bool:
    return (authorizer.decide(attributes) or await authorizer.authorize(attributes)).allowed


async def _require(authorizer: Authorizer, attributes: Attributes) -> None:
    decision = authorizer.decide(attributes) or await authorizer.authorize(attributes)
    if not decision.allowed:
        raise refusal(attributes, ": ".join(part for part in (decision.error, decision.reason) if part))


def _with_default_group(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if name == ANONYMOUS.name:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    return groups if AUTHENTICATED in groups or UNAUTHENTICATED in groups else (*groups, AUTHENTICATED)


def _extra_problem(extra: Mapping[str, list[str]]) -> str:
    """Return why extra attributes cannot be impersonated in a constrained mode; empty if they can."""
    for key, values in extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if problems := names.domain_prefixed_path("extra.key", key):
            return f"impersonating an invalid key in extra is not allowed: {aggregate(map(str, problems))}"
        if key != key.lower():
            return f"impersonating a non-lowercase key in extra is not allowed: {quote(key)}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _node_name(user: str) -> str:
    """Return the name of the node that a user name is for; empty if it is for none."""
    name = user.removeprefix(_NODE_PREFIX)
    return name if name != user and not names.dns_subdomain(name) else ""


def _account(user: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account that a user name is for; None if it is for none."""
    namespace, colon, name = user.removeprefix(_ACCOUNT_PREFIX).partition(":")
    if not user.startswith(_ACCOUNT_PREFIX) or not colon:
        return None
    return None if names.dns_label(namespace) or names.dns_subdomain(name) else (namespace, name)


def _has_only_a_name(user: User) -> bool:
    return not (user.uid or user.groups or user.extra)


def _is_associated_node(wanted: User, requestor: User) -> bool:
    node = _has_only_a_name(wanted) and _node_name(wanted.name)
    return bool(node) and _account(requestor.name) is not None and requestor.extra.get(NODE_NAME) == [node]


def _is_node(wanted: User, _: User) -> bool:
    return _has_only_a_name(wanted) and bool(_node_name(wanted.name))


def _is_account(wanted: User, _: User) -> bool:
    return _has_only_a_name(wanted) and _account(wanted.name) is not None


def _is_other(wanted: User, _: User) -> bool:
    return not _node_name(wanted.name) and _account(wanted.name) is None


_ASSOCIATED: Final = "associated-node"
_LEGACY: Final = _Mode("", lambda _wanted, _requestor: True)
_MODES: Final = (
    _Mode(_ASSOCIATED, _is_associated_node),
    _Mode("arbitrary-node", _is_node),
    _Mode("serviceaccount", _is_account),
    _Mode("user-info", _is_other),
    _LEGACY,
)
