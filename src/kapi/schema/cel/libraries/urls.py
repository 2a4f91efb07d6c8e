"""URLs: `url('https://example.com:8080/x').getPort()`. Absolute ones only, read as Go reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from kapi.schema.cel.cost.calls import READ_FACTOR, CallCost, CallSite, rewrite_argument
from kapi.schema.cel.cost.estimates import Estimate
from kapi.schema.cel.cost.prices import reads
from kapi.schema.cel.libraries.gourl import BadUrl, Url, parse_reference, parse_request
from kapi.schema.cel.library import Library
from kapi.schema.cel.types import BOOL, STRING, Overload, Type, list_of, map_of
from kapi.schema.cel.values import EvaluationError, Opaque

if TYPE_CHECKING:
    from collections.abc import Callable

URL_TYPE: Final = Type("kubernetes.URL")


class Location(Opaque):
    """A URL as a value of expressions."""

    __slots__ = ("url",)
    cel_type: ClassVar[Type] = URL_TYPE

    def __init__(self, url: Url) -> None:
        self.url = url

    def same(self, other: Location) -> bool:
        """Return True if both are written the same, once escaped the same way."""
        return str(self.url) == str(other.url)

    def __str__(self) -> str:
        return str(self.url)


def _parse(text: str) -> Location:
    try:
        # Whether it is absolute is asked first; only the other way of reading knows fragments.
        parse_request(text)
        return Location(parse_reference(text))
    except BadUrl as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> bool:
    try:
        parse_request(text)
    except BadUrl:
        return False
    return True


def _getter(overload: str, result: Type) -> tuple[Overload, ...]:
    return (Overload(overload, (URL_TYPE,), result, member=True),)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "url": (Overload("string_to_url", (STRING,), URL_TYPE),),
    "getScheme": _getter("url_get_scheme", STRING),
    "getHost": _getter("url_get_host", STRING),
    "getHostname": _getter("url_get_hostname", STRING),
    "getPort": _getter("url_get_port", STRING),
    "getEscapedPath": _getter("url_get_escaped_path", STRING),
    "getQuery": _getter("url_get_query", map_of(STRING, list_of(STRING))),
    "isURL": (Overload("is_url_string", (STRING,), BOOL),),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "string_to_url": _parse,
    "url_get_scheme": lambda location: location.url.scheme,
    "url_get_host": lambda location: location.url.host,
    "url_get_hostname": lambda location: location.url.hostname(),
    "url_get_port": lambda location: location.url.port(),
    "url_get_escaped_path": lambda location: location.url.escaped_path(),
    "url_get_query": lambda location: location.url.parameters(),
    "is_url_string": _is_url,
}


def _estimate_equality(site: CallSite) -> CallCost:
    right = site.args[1]
    return CallCost(Estimate(1, right.size.max if right.size else 1).scaled(READ_FACTOR))


LIBRARY: Final = Library(
    name="kubernetes.urls",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices={"url": reads()},
    estimates={"url": rewrite_argument},
    equality={URL_TYPE: _estimate_equality},
)
