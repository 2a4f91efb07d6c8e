"""Validation of addresses: of hosts (IP, CIDR, MAC), of resources (URI) and of people (email).

The formats of a schema promise what Go's standard library accepts, which is not what Python's accepts: leading zeros
in IPv4 are fine in some formats and not in others, a URI may be a bare path or `*`, and an email address may have a
display name, comments and even be a group of one. Every function is linear in the length of its text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kapi.api.go.addresses import parse_cidr_sloppy, parse_ip, parse_ip_sloppy

if TYPE_CHECKING:
    from collections.abc import Callable

_PAIR: Final = "[0-9A-Fa-f]{2}"
_MAC: Final = re.compile(
    rf"{_PAIR}([:-])(?:{_PAIR}\1){{4}}(?:(?:{_PAIR}\1){{2}}|(?:{_PAIR}\1){{14}})?{_PAIR}"
    rf"|(?:{_PAIR}{_PAIR}\.){{2}}(?:{_PAIR}{_PAIR}\.|(?:{_PAIR}{_PAIR}\.){{7}})?{_PAIR}{_PAIR}"
).fullmatch


def is_ipv4(text: str) -> bool:
    """Return True for four numbers, leading zeros allowed, or an IPv6 address that ends in them."""
    return "." in text and parse_ip_sloppy(text) is not None


def is_ipv6(text: str) -> bool:
    """Return True for an IPv6 address without a zone."""
    return ":" in text and parse_ip(text) is not None


def is_cidr(text: str) -> bool:
    """Return True for an address, leading zeros allowed, with the length of its prefix."""
    return parse_cidr_sloppy(text) is not None


def is_mac(text: str) -> bool:
    """Return True for a hardware address of 6, 8 or 20 bytes: pairs with `:` or `-`, or groups of four with dots."""
    return _MAC(text) is not None


# --- URIs -------------------------------------------------------------------------------------------------------------

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]").search
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):").match
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})").search
_HOST_CHARACTER: Final = r"[A-Za-z0-9!$&'()*+,;=:\[\]<>\"._~\x80-\U0010ffff-]"
# Only bytes outside ASCII may be escaped in a host, and the percent sign itself.
_HOST: Final = re.compile(rf"(?:{_HOST_CHARACTER}|%[89A-Fa-f][0-9A-Fa-f]|%25)*").fullmatch
_ZONE: Final = re.compile(rf"(?:{_HOST_CHARACTER}|%[0-9A-Fa-f]{{2}})+").fullmatch
_ZONE_ESCAPES: Final = re.compile(r"%([0-9A-Fa-f]{2})").findall
_ZONE_ESCAPED: Final = re.compile(r"[A-Za-z0-9!$&'()*+,;=:\[\]<>\"._~ %-]").fullmatch
_PORT: Final = re.compile(r"(?::[0-9]*)?").fullmatch
_USER: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*").fullmatch


def is_request_uri(text: str) -> bool:
    """Return True for an absolute URI, an absolute path, or `*`, as in the first line of an HTTP request."""
    if not text or _CONTROL(text):
        return False
    if text == "*":
        return True
    if text.startswith(":"):
        return False
    match = _SCHEME(text)
    scheme = match[1].lower() if match else ""
    rest = (text[match.end() :] if match else text).partition("?")[0]
    if not rest.startswith("/"):
        return match is not None
    if match and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return _is_authority(scheme, authority) and not _BAD_ESCAPE(slash + path)
    return not _BAD_ESCAPE(rest)


def _is_authority(scheme: str, text: str) -> bool:
    user, at, host = text.rpartition("@")
    if at and (_USER(user) is None or _BAD_ESCAPE(user)):
        return False
    bracket = host.rfind("[")
    if bracket >= 0:
        return bracket == 0 and _is_literal(host)
    first, last = host.find(":"), host.rfind(":")
    if first >= 0:
        # Databases write lists of hosts here; web addresses have one host and one port.
        port = host[first if scheme in {"http", "https"} else last :]
        if _PORT(port) is None:
            return False
    return _HOST(host) is not None


def _is_literal(host: str) -> bool:
    inside, bracket, port = host[1:].rpartition("]")
    if not bracket or _PORT(port) is None:
        return False
    address, percent, zone = inside.partition("%25")
    if percent and not (_ZONE(zone) and all(_is_zone_escape(code) for code in _ZONE_ESCAPES(zone))):
        return False
    return is_ipv6(address)


def _is_zone_escape(code: str) -> bool:
    return _ZONE_ESCAPED(chr(int(code, 16))) is not None


# --- email ------------------------------------------------------------------------------------------------------------

_BLANKS: Final = re.compile(r"[ \t]*").match
_ATOM: Final = re.compile(r"[!#-'*+./0-9=?A-Z^-~\x80-\U0010ffff-]+").match
_QUOTED: Final = re.compile(r'"((?:[ \t!#-\[\]-~\x80-\U0010ffff]|\\[ \t!-~\x80-\U0010ffff])*)"').match
_LITERAL: Final = re.compile(r"\[([!-Z^-~\x80-\U0010ffff]*)\]").match
_ENCODED: Final = re.compile(r"=\?([^?]+)\?([BbQq])\?([^?]*)\?=").fullmatch
_Q_TEXT: Final = re.compile(r"(?:=[0-9A-Fa-f]{2}|[ -<>-~\n\r\t])*").fullmatch
_B_TEXT: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?").fullmatch
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL).sub
_CHARSETS: Final = frozenset({"utf-8", "iso-8859-1", "us-ascii"})


class _NotAnAddressError(Exception):
    """The text is not an address."""


def is_email(text: str) -> bool:
    """Return True for one mailbox: `user@domain`, `Name <user@domain>`, `user@domain (comment)` or a group of one."""
    reader = _Mailbox(text)
    try:
        count = reader.addresses(group=True)
        reader.skip_comments()
    except _NotAnAddressError:
        return False
    return count == 1 and reader.at == len(text)


class _Mailbox:
    """A walk along an address; `at` is what comes next."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def addresses(self, *, group: bool) -> int:
        """Read one address, or the group it opens; how many there were."""
        self._skip_blanks()
        start = self.at
        try:
            self._specification()
        except _NotAnAddressError:
            self.at = start
            return self._named(group=group)
        self._skip_blanks()
        if self._peek() == "(":
            self._display_comment()
        return 1

    def skip_comments(self) -> None:
        self._skip_blanks()
        while self._peek() == "(":
            self._comment()
            self._skip_blanks()

    def _named(self, *, group: bool) -> int:
        if self._peek() != "<":
            self._phrase()
        self._skip_blanks()
        if group and self._take(":"):
            return self._group()
        self._expect("<")
        self._specification()
        self._expect(">")
        return 1

    def _group(self) -> int:
        count = 0
        self._skip_blanks()
        while not (count == 0 and self._peek() == ";"):
            count += self.addresses(group=False)
            self.skip_comments()
            if self._peek() == ";":
                break
            self._expect(",")
        self._expect(";")
        self.skip_comments()
        return count

    def _specification(self) -> None:
        self._skip_blanks()
        if self._peek() == '"':
            if not self._match(_QUOTED)[1]:
                raise _NotAnAddressError
        else:
            self._dot_atom()
        self._expect("@")
        self._skip_blanks()
        if self._peek() != "[":
            self._dot_atom()
            return
        literal = self._match(_LITERAL)[1]
        if parse_ip(literal) is None:
            raise _NotAnAddressError

    def _phrase(self) -> None:
        # Comments may stand between words, but kube-apiserver looks for none while it has only encoded words.
        plain, encoded = False, False
        while True:
            if plain:
                self.skip_comments()
            self._skip_blanks()
            if not self._peek():
                return
            try:
                word = self._match(_QUOTED if self._peek() == '"' else _ATOM)[0]
                text = _decoded(word)
            except _NotAnAddressError:
                if plain or encoded:
                    return
                raise
            plain, encoded = plain or text is None, encoded or bool(text)

    def _display_comment(self) -> None:
        start = self.at + 1
        self._comment()
        comment = _ESCAPED(r"\1", self.text[start : self.at - 1])
        for word in comment.replace("\t", " ").split(" "):
            _decoded(word)

    def _comment(self) -> None:
        depth = 0
        while self.at < len(self.text):
            character = self.text[self.at]
            self.at += 1
            if character == "\\" and self.at < len(self.text):
                self.at += 1
            elif character == "(":
                depth += 1
            elif character == ")":
                depth -= 1
                if depth == 0:
                    return
        raise _NotAnAddressError

    def _dot_atom(self) -> None:
        atom = self._match(_ATOM)[0]
        if atom.startswith(".") or atom.endswith(".") or ".." in atom:
            raise _NotAnAddressError

    def _match(self, pattern: Callable[[str, int], re.Match[str] | None]) -> re.Match[str]:
        match = pattern(self.text, self.at)
        if match is None:
            raise _NotAnAddressError
        self.at = match.end()
        return match

    def _skip_blanks(self) -> None:
        self._match(_BLANKS)

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, character: str) -> bool:
        taken = self._peek() == character
        self.at += taken
        return taken

    def _expect(self, character: str) -> None:
        if not self._take(character):
            raise _NotAnAddressError


def _decoded(word: str) -> str | None:
    """The text inside an encoded word, None for any other. Refuses the character sets that are not known."""
    match = _ENCODED(word)
    if match is None:
        return None
    charset, how, text = match.groups()
    if not (_Q_TEXT(text) if how in "Qq" else _B_TEXT(text.replace("\r", "").replace("\n", ""))):
        return None
    if charset.lower() not in _CHARSETS:
        raise _NotAnAddressError
    return text
