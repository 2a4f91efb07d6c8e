"""The rules for names, keys and small formatted strings, each in the words Kubernetes uses.

Every rule is a function from a string to the list of sentences that say what is wrong with it; the empty list means
the string is fine. Callers put the sentences into field errors, so the texts are exactly those of kube-apiserver
server. Lengths count bytes of UTF-8, as they do there. The patterns are fixed and cannot backtrack more than
linearly. No I/O; randomness only in `generate_name`.
"""

from __future__ import annotations

import ipaddress
import random
import re
from functools import lru_cache, wraps
from typing import TYPE_CHECKING

from kapi.api import fielderror
from kapi.api.go.addresses import IPAddress, parse_ip, parse_ip_sloppy
from kapi.api.go.text import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.fielderror import FieldError

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN = rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HTTP_HEADER = "[-A-Za-z0-9]+"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PERCENT = "[0-9]+%"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_underscore_subdomain = re.compile(_UNDERSCORE_SUBDOMAIN).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_wildcard = re.compile(_WILDCARD).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_http_header = re.compile(_HTTP_HEADER).fullmatch
_is_http_path = re.compile(_HTTP_PATH).fullmatch
_is_percent = re.compile(_PERCENT).fullmatch

_SUBDOMAIN_BYTES = 253
_LABEL_BYTES = 63
_PORT_NAME_BYTES = 15
_REMEMBERED = 2048
_MAX_INT32 = 2**31 - 1

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_GENERATED_BASE_BYTES = _LABEL_BYTES - _SUFFIX_LENGTH
_random = random.Random()  # noqa: S311 (a suffix must be unlikely to be taken, not hard to guess)


def _pattern_sentence(sentence: str, pattern: str, *examples: str) -> str:
    """Append the examples and the pattern; the odd spacing before `or` is what clients have always seen."""
    if not examples:
        return f"{sentence} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{sentence} (e.g. {shown}regex used for validation is '{pattern}')"


_LABEL_SENTENCE = _pattern_sentence(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_SENTENCE = _pattern_sentence(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_CASELESS_SUBDOMAIN_SENTENCE = _pattern_sentence(
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character",
    _SUBDOMAIN,
    "Example.com",
)
_UNDERSCORE_SUBDOMAIN_SENTENCE = _pattern_sentence(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character",
    _UNDERSCORE_SUBDOMAIN,
    "example.com",
)
_LABEL_1035_SENTENCE = _pattern_sentence(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_WILDCARD_SENTENCE = _pattern_sentence(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    _WILDCARD,
    "*.example.com",
)
_KEY_SENTENCE = _pattern_sentence(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _KEY,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_SENTENCE = _pattern_sentence(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_CONFIG_KEY_SENTENCE = _pattern_sentence(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)
_HTTP_HEADER_SENTENCE = _pattern_sentence(
    "a valid HTTP header must consist of alphanumeric characters or '-'", _HTTP_HEADER, "X-Header-Name"
)
_PERCENT_SENTENCE = _pattern_sentence(
    "a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%"
)


def byte_length(text: str) -> int:
    """The length of a string as kube-apiserver counts it: bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _remember_valid(rule: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Have a rule remember the texts that it has nothing to say about: the same keys are written again and again."""
    is_valid = lru_cache(maxsize=_REMEMBERED)(lambda text: not rule(text))

    @wraps(rule)
    def check(text: str) -> list[str]:
        # What is longer than any valid text is not kept.
        return [] if len(text) <= _SUBDOMAIN_BYTES + _LABEL_BYTES + 1 and is_valid(text) else rule(text)

    return check


def too_many_characters(limit: int) -> str:
    """The sentence of most name rules; it says characters and means bytes."""
    return f"must be no more than {limit} characters"


def _too_many_bytes(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _mask_trailing_dash(name: str) -> str:
    """Make one trailing dash of a prefix valid. The character before it is replaced too, as in kube-apiserver."""
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") and name.isascii() else name


# -- names of objects ------------------------------------------------------------------------------------------------


def dns_subdomain(name: str, *, prefix: bool = False) -> list[str]:
    """Dot-separated lower-case labels, 253 bytes in all: the rule of most kinds."""
    name = _mask_trailing_dash(name) if prefix else name
    sentences = [too_many_characters(_SUBDOMAIN_BYTES)] if byte_length(name) > _SUBDOMAIN_BYTES else []
    if not _is_subdomain(name):
        sentences.append(_SUBDOMAIN_SENTENCE)
    return sentences


def dns_label(name: str, *, prefix: bool = False) -> list[str]:
    """One lower-case label of 63 bytes: namespaces, stateful sets, containers, volumes."""
    name = _mask_trailing_dash(name) if prefix else name
    sentences = [too_many_characters(_LABEL_BYTES)] if byte_length(name) > _LABEL_BYTES else []
    if not _is_label(name):
        sentences.append("must not contain dots" if _is_subdomain(name) else _LABEL_SENTENCE)
    return sentences


def dns1035_label(name: str, *, prefix: bool = False) -> list[str]:
    """A label that starts with a letter."""
    name = _mask_trailing_dash(name) if prefix else name
    sentences = [too_many_characters(_LABEL_BYTES)] if byte_length(name) > _LABEL_BYTES else []
    if not _is_label_1035(name):
        sentences.append(_LABEL_1035_SENTENCE)
    return sentences


def path_segment(name: str, *, prefix: bool = False) -> list[str]:
    """A segment of a URL path: the only rule for the names of roles, and the least for every kind."""
    if not prefix and name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in name]


def generate_name(base: str, rand: random.Random | None = None) -> str:
    """A name from a `generateName` prefix: at most 58 bytes of it and five random characters without vowels."""
    if byte_length(base) > _GENERATED_BASE_BYTES:
        base = base.encode("utf-8", "surrogatepass")[:_GENERATED_BASE_BYTES].decode("utf-8", "ignore")
    return base + "".join((rand or _random).choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))


# -- DNS names inside objects ----------------------------------------------------------------------------------------


def dns_subdomain_with_underscore(name: str) -> list[str]:
    """A subdomain that may have underscores: search paths of pods."""
    sentences = [too_many_characters(_SUBDOMAIN_BYTES)] if byte_length(name) > _SUBDOMAIN_BYTES else []
    if not _is_underscore_subdomain(name):
        sentences.append(_UNDERSCORE_SUBDOMAIN_SENTENCE)
    return sentences


def wildcard_dns(name: str) -> list[str]:
    """`*.` and a subdomain: hosts of ingresses."""
    sentences = [too_many_characters(_SUBDOMAIN_BYTES)] if byte_length(name) > _SUBDOMAIN_BYTES else []
    if not _is_wildcard(name):
        sentences.append(_WILDCARD_SENTENCE)
    return sentences


def fully_qualified_name(name: str) -> list[str]:
    """A subdomain of at least three segments. An empty name is for the caller to call required."""
    sentences = dns_subdomain(name)
    if sentences:
        return [",".join(sentences)]
    if name.count(".") < 2:
        return ["should be a domain with at least three segments separated by dots"]
    return []


def domain_prefixed_path(field: str, value: str) -> list[FieldError]:
    """`example.com/anything`: a subdomain, a slash and a URL path. The errors name the part that is wrong."""
    if not value:
        return [fielderror.required(field)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [fielderror.invalid(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [fielderror.invalid(field, host, sentence) for sentence in dns_subdomain(host)]
    return errors + [fielderror.invalid(field, rest, sentence) for sentence in http_path(rest)]


# -- keys and values -------------------------------------------------------------------------------------------------


@_remember_valid
def qualified_name(name: str) -> list[str]:
    """A label key: an optional subdomain and slash, then a name of 63 bytes. Finalizers and resources use it too."""
    head, slash, name_part = name.rpartition("/")
    if "/" in head:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_KEY_SENTENCE} {optional}"]
    sentences = _prefix_sentences(head) if slash else []
    if not name_part:
        sentences.append("name part must be non-empty")
    elif byte_length(name_part) > _LABEL_BYTES:
        sentences.append(f"name part {_too_many_bytes(_LABEL_BYTES)}")
    if not _is_key(name_part):
        sentences.append(f"name part {_KEY_SENTENCE}")
    return sentences


def _prefix_sentences(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    sentences = []
    if byte_length(prefix) > _SUBDOMAIN_BYTES:
        sentences.append(f"prefix part {_too_many_bytes(_SUBDOMAIN_BYTES)}")
    if not _is_subdomain(prefix):
        sentences.append(f"prefix part {_SUBDOMAIN_SENTENCE}")
    return sentences


@_remember_valid
def label_value(value: str) -> list[str]:
    """Empty, or 63 bytes that start and end with a letter or digit."""
    sentences = [_too_many_bytes(_LABEL_BYTES)] if byte_length(value) > _LABEL_BYTES else []
    if not _is_value(value):
        sentences.append(_VALUE_SENTENCE)
    return sentences


@_remember_valid
def config_map_key(key: str) -> list[str]:
    """A key of a ConfigMap or Secret: usable as a file name."""
    sentences = [too_many_characters(_SUBDOMAIN_BYTES)] if byte_length(key) > _SUBDOMAIN_BYTES else []
    if not _is_config_key(key):
        sentences.append(_CONFIG_KEY_SENTENCE)
    if key in {".", ".."}:
        sentences.append(f"must not be '{key}'")
    elif key.startswith(".."):
        sentences.append("must not start with '..'")
    return sentences


def env_var_name(name: str) -> list[str]:
    """An environment variable: printable ASCII without `=`."""
    sentences = [] if name else ["environment variable name must be non-empty"]
    if not all(" " <= character <= "~" and character != "=" for character in name):
        sentences.append(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
    return sentences


def port_name(name: str) -> list[str]:
    """The name of a port as IANA registers them: 15 bytes, one letter at least, no two hyphens together."""
    sentences = [too_many_characters(_PORT_NAME_BYTES)] if byte_length(name) > _PORT_NAME_BYTES else []
    if not name or not all(_is_lower_or_digit(character) or character == "-" for character in name):
        sentences.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= character <= "z" for character in name):
        sentences.append("must contain at least one letter (a-z)")
    if "--" in name:
        sentences.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        sentences.append("must not begin or end with a hyphen")
    return sentences


def _is_lower_or_digit(character: str) -> bool:
    return "a" <= character <= "z" or "0" <= character <= "9"


def http_header_name(name: str) -> list[str]:
    """A header of an HTTP probe."""
    return [] if _is_http_header(name) else [_HTTP_HEADER_SENTENCE]


def http_path(path: str) -> list[str]:
    """Characters RFC 3986 allows in a path; the first need not be a slash."""
    return [] if _is_http_path(path) else [_pattern_sentence("Invalid path", _HTTP_PATH)]


def percent(text: str) -> list[str]:
    """Digits and a percent sign."""
    return [] if _is_percent(text) else [_PERCENT_SENTENCE]


# -- numbers ---------------------------------------------------------------------------------------------------------


def in_range(value: int, low: int, high: int) -> list[str]:
    """A number between two others, both included."""
    return [] if low <= value <= high else [f"must be between {low} and {high}, inclusive"]


def port_number(port: int) -> list[str]:
    """A TCP, UDP or SCTP port."""
    return in_range(port, 1, 65535)


def user_id(uid: int) -> list[str]:
    """A Unix user id."""
    return in_range(uid, 0, _MAX_INT32)


def group_id(gid: int) -> list[str]:
    """A Unix group id."""
    return in_range(gid, 0, _MAX_INT32)


# -- addresses --------------------------------------------------------------------------------------------------------


def ip(value: str, *, canonical: bool = False) -> list[str]:
    """An IPv4 or IPv6 address. New fields also ask for the one canonical spelling (RFC 5952)."""
    address = parse_ip_sloppy(value)
    if address is None:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if parse_ip(value) is None:
        return ["must not have leading 0s"]
    if _is_mapped(address):
        return ["must not be an IPv4-mapped IPv6 address"]
    if canonical and value != str(address):
        return [f"must be in canonical form ({quote(str(address))})"]
    return []


def cidr(value: str, *, canonical: bool = False) -> list[str]:
    """An address range. New fields also ask for the one canonical spelling."""
    text, _, bits = value.partition("/")
    address = parse_ip_sloppy(text)
    if address is None or not _is_number(bits) or int(bits) > address.max_prefixlen:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    if parse_ip(text) is None or bits != str(int(bits)):
        return ["must not have leading 0s in IP or prefix length"]
    if _is_mapped(address):
        return ["must not have an IPv4-mapped IPv6 address"]
    network = ipaddress.ip_network((address, int(bits)), strict=False)
    if network.network_address != address:
        return ["must not have bits set beyond the prefix length"]
    if canonical and value != str(network):
        return [f"must be in canonical form ({quote(str(network))})"]
    return []


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _is_mapped(address: IPAddress) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
