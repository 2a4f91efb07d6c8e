"""URLs parsed as Go's net/url does it, with its error messages.

Two ways of reading: as a reference, where a fragment is cut off, and as the target of a request, which is absolute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kapi.api.go.addresses import BadAddress, parse_addr
from kapi.api.go.text import quote

_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS: Final = frozenset("0123456789")
_HEX: Final = _DIGITS | frozenset("abcdefABCDEF")
_UNRESERVED: Final = _LETTERS | _DIGITS | frozenset("-_.~")
_IN_HOST: Final = _UNRESERVED | frozenset("!$&'()*+,;=:[]<>\"")
_IN_PATH: Final = _UNRESERVED | frozenset("$&+,/:;=@")
_IN_FRAGMENT: Final = _UNRESERVED | frozenset("$&+,/:;=?@!()*")
_IN_USER: Final = _UNRESERVED | frozenset("$&+,;=")
_USER_SIGNS: Final = _LETTERS | _DIGITS | frozenset("-._:~!$&'()*+,;=%@")
_LEFT_ALONE: Final = frozenset("!$&'()*+,;=:@[]%")
_MOST_PARAMETERS: Final = 10_000


class BadUrl(ValueError):
    """The text is not a URL; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL; `host` includes the port, `path` and `fragment` are as they were written."""

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""
    query: str = ""
    has_empty_query: bool = False
    omits_host: bool = False
    fragment: str = ""

    def escaped_path(self) -> str:
        """The path, escaped where it must be."""
        return "*" if self.path == "*" else _escaped_as(self.path, _IN_PATH)

    def hostname(self) -> str:
        """The host without port and brackets."""
        host = self._split_host()[0]
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    def port(self) -> str:
        """The port, if there is one."""
        return self._split_host()[1]

    def _split_host(self) -> tuple[str, str]:
        host, colon, port = self.host.rpartition(":")
        return (host, port) if colon and _DIGITS.issuperset(port) else (self.host, "")

    def parameters(self) -> dict[str, list[str]]:
        """The parameters of the query; what is malformed is left out."""
        found: dict[str, list[str]] = {}
        parts = self.query.split("&")
        for part in parts if len(parts) <= _MOST_PARAMETERS else ():
            if not part or ";" in part:
                continue
            name, _, value = part.partition("=")
            try:
                found.setdefault(_decode(name.replace("+", " ")), []).append(_decode(value.replace("+", " ")))
            except BadUrl:
                continue
        return {name: values for name, values in found.items() if values}

    def __str__(self) -> str:
        text = f"{self.scheme}:" if self.scheme else ""
        text += self.opaque or self._hierarchy()
        if self.has_empty_query or self.query:
            text += f"?{self.query}"
        return f"{text}#{_escaped_as(self.fragment, _IN_FRAGMENT)}" if self.fragment else text

    def _hierarchy(self) -> str:
        path, text = self.escaped_path(), ""
        if (self.scheme or self.host or self.user is not None) and not self._says_no_host():
            text = "//" if self.host or path or self.user is not None else ""
            text += f"{self.user}@" if self.user is not None else ""
            text += _encode(self.host, _IN_HOST)
        if path and path[0] != "/" and self.host:
            text += "/"
        if not text and not self.scheme and ":" in path.partition("/")[0]:
            text = "./"
        return text + path

    def _says_no_host(self) -> bool:
        return self.omits_host and not self.host and self.user is None


# -- escapes ----------------------------------------------------------------------------------------------------------


def _decode(text: str) -> str:
    """The text without percent escapes; raises BadUrl for an invalid one."""
    if "%" not in text:
        return text
    start, *rest = text.split("%")
    octets = bytearray(start.encode(errors="replace"))
    for place, part in enumerate(rest):
        if len(part) < 2 or not _HEX.issuperset(part[:2]):
            broken = "%".join(["", part, *rest[place + 1 :]])
            raise _bad_escape(broken[:3])
        octets += bytes([int(part[:2], 16)]) + part[2:].encode(errors="replace")
    return octets.decode(errors="replace")


def _bad_escape(text: str) -> BadUrl:
    return BadUrl(f"invalid URL escape {quote(text)}")


def _encode(text: str, plain: frozenset[str]) -> str:
    if plain.issuperset(text):
        return text
    return "".join(
        one if one in plain else "".join(f"%{octet:02X}" for octet in one.encode(errors="replace")) for one in text
    )


def _escaped_as(text: str, plain: frozenset[str]) -> str:
    """The text as it was written, if that is a valid encoding, else escaped again."""
    return text if (plain | _LEFT_ALONE).issuperset(text) else _encode(_decode(text), plain)


def _decode_host(text: str, *, zone: bool = False) -> str:
    place = 0
    while place < len(text):
        if text[place] != "%":
            if text[place] not in _IN_HOST and ord(text[place]) < 0x80:
                raise BadUrl(f"invalid character {quote(text[place])} in host name")
            place += 1
            continue
        escape = text[place : place + 3]
        if len(escape) < 3 or not _HEX.issuperset(escape[1:]):
            raise _bad_escape(escape)
        code = chr(int(escape[1:], 16))
        # Only what cannot be written plainly may be escaped in a host; in a zone also spaces and what could be.
        allowed = code == " " or code in _IN_HOST if zone else ord(code) >= 0x80
        if escape != "%25" and not allowed:
            raise _bad_escape(escape)
        place += 3
    return _decode(text)


# -- reading ----------------------------------------------------------------------------------------------------------


def parse_reference(text: str) -> Url:
    """A URL that may be relative, with its fragment; raises BadUrl."""
    rest, _, fragment = text.partition("#")
    url = _parse(rest, rest, request=False)
    if not fragment:
        return url
    try:
        _decode(fragment)
    except BadUrl as error:
        raise BadUrl(f"parse {quote(text)}: {error}") from None
    return replace(url, fragment=fragment)


def parse_request(text: str) -> Url:
    """An absolute URL or an absolute path; raises BadUrl."""
    return _parse(text, text, request=True)


def _parse(text: str, shown: str, *, request: bool) -> Url:
    try:
        return _take_apart(text, request=request)
    except BadUrl as error:
        raise BadUrl(f"parse {quote(shown)}: {error}") from None


def _take_apart(text: str, *, request: bool) -> Url:
    if any(one < " " or one == "\x7f" for one in text):
        raise BadUrl("net/url: invalid control character in URL")
    if not text and request:
        raise BadUrl("empty url")
    if text == "*":
        return Url(path="*")
    scheme, rest = _scheme(text)
    is_bare = rest.endswith("?") and rest.count("?") == 1
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, rest, query=query, has_empty_query=is_bare)
        if request:
            raise BadUrl("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise BadUrl("first path segment in URL cannot contain colon")
    user, host, omits = None, "", False
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(scheme, authority)
        rest = slash + path
    elif scheme and rest.startswith("/"):
        omits = True
    _decode(rest)
    return Url(scheme, "", user, host, rest, query, is_bare, omits)


def _scheme(text: str) -> tuple[str, str]:
    for place, one in enumerate(text):
        if one == ":":
            if place == 0:
                raise BadUrl("missing protocol scheme")
            return text[:place].lower(), text[place + 1 :]
        if one not in _LETTERS and (place == 0 or one not in "0123456789+-."):
            break
    return "", text


def _authority(scheme: str, text: str) -> tuple[str | None, str]:
    user, at, rest = text.rpartition("@")
    host = _host(scheme, rest)
    if not at:
        return None, host
    if not _USER_SIGNS.issuperset(user):
        raise BadUrl("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    shown = _encode(_decode(name), _IN_USER)
    return f"{shown}:{_encode(_decode(password), _IN_USER)}" if colon else shown, host


def _host(scheme: str, text: str) -> str:
    bracket = text.rfind("[")
    if bracket > 0:
        raise BadUrl("invalid IP-literal")
    if bracket == 0:
        return _literal_host(text)
    place = text.find(":")
    if place >= 0:
        # Several colons are only forgiven where lists of hosts are customary.
        place = place if scheme in {"http", "https"} else text.rfind(":")
        _check_port(text[place:])
    return _decode_host(text)


def _check_port(text: str) -> None:
    if text and (text[0] != ":" or not _DIGITS.issuperset(text[1:])):
        raise BadUrl(f"invalid port {quote(text)} after host")


def _literal_host(text: str) -> str:
    end = text.rfind("]")
    if end < 0:
        raise BadUrl("missing ']' in host")
    _check_port(text[end + 1 :])
    name, percent, zone = text[1:end].partition("%25")
    host = _decode_host(name) + (_decode_host(f"%25{zone}", zone=True) if percent else "")
    try:
        address = parse_addr(host)
    except BadAddress as error:
        raise BadUrl(f"invalid host: {error}") from None
    if address.bits == 32:
        raise BadUrl("invalid IP-literal")
    return f"[{host}]{text[end + 1 :]}"
