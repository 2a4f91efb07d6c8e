"""Which format to speak: `Accept` for answers, `Content-Type` for bodies, and when to print for people.

The rules, the order of preference and the texts of 406 and 415 are kube-apiserver's. A header seen
before costs one dictionary look-up: clients send few distinct values, and those are remembered, bounded.
Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from kapi.api.errors import NotAcceptable, UnsupportedMediaType
from kapi.api.limits import ACCEPT_CLAUSES, NEGOTIATION_CACHE, NEGOTIATION_LENGTH
from kapi.api.patch.mergepatch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_BODY_TYPES: Final = (JSON, YAML, PROTOBUF)
_CUSTOM_PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
_PATCH_TYPES: Final = (*_CUSTOM_PATCH_TYPES, STRATEGIC_MERGE_PATCH)
_STREAM: Final = ";stream=watch"
_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MEDIA_TYPE = re.compile(rf'\s*({_WORD}/{_WORD})\s*(?:;\s*{_WORD}=(?:{_WORD}|"(?:[^"\\]|\\.)*")\s*)*;?\s*')
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_PEOPLE: Final = ("curl", "Wget", "Mozilla/5.0")


class Accepted(NamedTuple):
    """The outcome: a format, perhaps a form to turn the object into, and whether the clause asked for indentation."""

    media_type: str
    as_kind: str = ""
    as_group: str = ""
    as_version: str = ""
    pretty: bool = False


class Offer:
    """The forms an endpoint offers: formats in order of preference, and forms as (group, version, kind).

    `streams` are the formats a watch can be in; an endpoint that can be watched lists them in its 406. Offers
    are compared by identity, so make them once, at import.
    """

    __slots__ = ("first", "forms", "media_types", "streams")

    def __init__(
        self,
        media_types: tuple[str, ...] = (JSON, YAML),
        forms: frozenset[tuple[str, str, str]] = frozenset(),
        streams: tuple[str, ...] = (),
    ) -> None:
        self.media_types = media_types
        self.first = Accepted(media_types[0])
        self.forms = forms
        self.streams = streams


_META_FORMS: Final = frozenset(
    ("meta.k8s.io", version, kind)
    for version in ("v1", "v1beta1")
    for kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
)

PLAIN: Final = Offer()
"""Objects as they are: discovery, reviews, errors."""

OBJECTS: Final = Offer(forms=_META_FORMS)
"""Objects of a resource: also as a Table, or as metadata alone."""

COLLECTION: Final = Offer(forms=_META_FORMS, streams=(JSON,))
"""A collection, which can be watched as well."""


def accept(header: str | None, offer: Offer = OBJECTS) -> Accepted:
    """The best of what the client accepts and the endpoint offers.

    Raises:
        NotAcceptable: there is none.
    """
    if not header:
        return offer.first
    return _accept(header, offer) if len(header) <= NEGOTIATION_LENGTH else _accept.__wrapped__(header, offer)


def accept_stream(header: str | None, offer: Offer = COLLECTION) -> Accepted:
    """The same for a watch, whose formats are fewer.

    Raises:
        NotAcceptable: what the client would accept cannot be streamed.
    """
    try:
        accepted = accept(header, offer)
    except NotAcceptable as error:
        if error.details is not None:
            raise
        accepted = None
    if accepted is None or accepted.media_type not in offer.streams:
        raise _not_accepted(tuple(media_type + _STREAM for media_type in offer.streams))
    return accepted


def wrong_form(accepted: Accepted, kind: str) -> NotAcceptable:
    """The refusal to turn a list into one PartialObjectMetadata, or an object into a list of them."""
    whether = "not a list" if accepted.as_kind.endswith("List") else "a list"
    return NotAcceptable(f"you requested {accepted.as_kind}, but the requested object is {whether} ({kind})")


def is_pretty(query: str, user_agent: str) -> bool:
    """True when the answer is for a person: `?pretty=true`, or a browser or curl that did not say otherwise."""
    if "pretty" in query:
        values = parse_qs(query, keep_blank_values=True).get("pretty", [""])
        if values[0]:
            return values[0] in _TRUE
    return user_agent.startswith(_PEOPLE)


def body_type(content_type: str | None) -> str:
    """The format of a request body: JSON when the client does not say.

    Raises:
        UnsupportedMediaType: it is none that we read.
    """
    if not content_type or content_type == JSON:
        return JSON
    match = _MEDIA_TYPE.fullmatch(content_type)
    media_type = match[1].lower() if match else ""
    if media_type not in _BODY_TYPES:
        raise UnsupportedMediaType.accepted(_BODY_TYPES)
    return media_type


def patch_type(content_type: str | None, *, custom: bool = False) -> str:
    """The kind of patch a body is. Strategic merge needs Go types upstream, so custom resources do not have it.

    Raises:
        UnsupportedMediaType: it is no patch, or none for this kind of resource.
    """
    media_type = (content_type or "").partition(";")[0].strip(" ")
    if media_type in (_CUSTOM_PATCH_TYPES if custom else _PATCH_TYPES):
        return media_type
    if custom:
        raise UnsupportedMediaType.accepted(_CUSTOM_PATCH_TYPES)
    raise UnsupportedMediaType("415: Unsupported Media Type", details={})


class _Clause(NamedTuple):
    """One media range of an Accept header."""

    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]

    def goes_before(self, other: _Clause) -> bool:
        """Compare as kube-apiserver does. It is not a total order, so `_clauses` sorts as kube-apiserver does."""
        return (
            self.quality > other.quality
            or (self.type != "*" and other.type == "*")
            or (self.subtype != "*" and other.subtype == "*")
        )


@lru_cache(maxsize=NEGOTIATION_CACHE)
def _accept(header: str, offer: Offer) -> Accepted:
    ranges = [part.partition(";")[0].strip(" ") for part in header.split(",")]
    if not any(media_range == "*/*" or media_range in offer.media_types for media_range in ranges):
        available = (*offer.media_types, *(media_type + _STREAM for media_type in offer.streams))
        raise NotAcceptable(
            "406: Not Acceptable\n\nAvailable representations: " + ", ".join(available),
            details={},
        )
    for clause in _clauses(header):
        for media_type in offer.media_types:
            accepted = _match(clause, media_type, offer)
            if accepted is not None:
                return accepted
    raise _not_accepted(offer.media_types)


def _not_accepted(media_types: tuple[str, ...]) -> NotAcceptable:
    return NotAcceptable("only the following media types are accepted: " + ", ".join(media_types))


def _clauses(header: str) -> list[_Clause]:
    """The media ranges, best first; malformed ones are left out."""
    found = [_clause(part) for part in header.split(",")[:ACCEPT_CLAUSES]]
    clauses = [clause for clause in found if clause is not None]
    for index in range(1, len(clauses)):
        at = index
        while at > 0 and clauses[at].goes_before(clauses[at - 1]):
            clauses[at], clauses[at - 1] = clauses[at - 1], clauses[at]
            at -= 1
    return clauses


def _clause(text: str) -> _Clause | None:
    media_range, *parts = text.strip(" ").split(";")
    main, _, sub = media_range.partition("/")
    main, sub = main.strip(" "), sub.strip(" ")
    if not sub and main == "*":
        sub = "*"
    if not sub or "/" in sub:
        return None
    quality = 1.0
    parameters = {}
    for part in parts:
        name, _, value = part.partition("=")
        if not value or "=" in value:
            continue
        if name.strip(" ") == "q":
            quality = _quality(value)
        else:
            parameters[name.strip(" ")] = value.strip(" ")
    return _Clause(main, sub, quality, parameters)


def _quality(text: str) -> float:
    try:
        return float(text) if text == text.strip() else 0.0
    except ValueError:
        return 0.0


def _match(clause: _Clause, media_type: str, offer: Offer) -> Accepted | None:
    """Return what the clause accepts, if this format and the endpoint offer it. Unknown parameters are ignored."""
    main, _, sub = media_type.partition("/")
    if clause.type not in (main, "*") or clause.subtype not in (sub, "*") or (clause.type == "*" != clause.subtype):
        return None
    asked = clause.parameters
    stream = asked.get("stream")
    if stream and (stream != "watch" or media_type not in offer.streams):
        return None
    if asked.get("sv", "v1") != "v1":
        return None
    pretty = asked.get("pretty") == "1"
    if not asked.keys() & {"as", "g", "v"}:
        return Accepted(media_type, pretty=pretty)
    form = (asked.get("g", ""), asked.get("v", ""), asked.get("as", ""))
    if form not in offer.forms:
        return None
    return Accepted(media_type, form[2], form[0], form[1], pretty)
