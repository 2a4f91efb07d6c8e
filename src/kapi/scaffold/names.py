"""Names for classes and attributes, from those in a definition: legal in Python, none twice, the same every time."""

from __future__ import annotations

import keyword
import re
import unicodedata
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

# A word of a camelCase name. Acronyms stay together, plural ones too (`podIPs` is pod_ips), and a version is its own
# word (`openAPIV3Schema` is open_api_v3_schema).
_WORD: Final = re.compile(
    r"[A-Z]+(?=V[0-9])|V[0-9]+|[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+"
)
_TAKEN: Final = frozenset({
    "bool", "bytes", "crd", "dict", "float", "gvk", "int", "list", "msgspec", "naming", "str",
})  # fmt: skip
"""The names that annotations use and that classes of kinds have: an attribute of that name would hide them."""
_CLASSES: Final = frozenset({"Annotated", "Any", "ClassVar", "Literal", "ObjectMeta"})


class Names:
    """Gives out names, each once."""

    def __init__(self, taken: frozenset[str] = _CLASSES) -> None:
        self._taken = set(taken)

    def claim(self, wanted: str, joint: str = "") -> str:
        """The name, or the first with a number that is free."""
        name, number = wanted, 1
        while name in self._taken or keyword.iskeyword(name):
            number += 1
            name = f"{wanted}{joint}{number}"
        self._taken.add(name)
        return name


def class_name(*parts: str) -> str:
    """A class's name, of the names of what it is in: `Certificate`, `spec`, `issuerRef` is CertificateSpecIssuerRef."""
    words = (word for part in parts for word in re.split(r"[^A-Za-z0-9]+", part) if word)
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"Type{name}"


def attribute_names(properties: Iterable[str], taken: frozenset[str] = frozenset()) -> dict[str, str]:
    """The attributes of a class, by the names of the fields; `taken` are those it has already."""
    names = Names(_TAKEN | taken)
    return {name: names.claim(_attribute(name), "_") for name in properties}


def _attribute(name: str) -> str:
    if name.isascii():
        found = "_".join(_WORD.findall(name)).lower()
    else:
        # Lower case first: it may leave the form in which Python compares identifiers.
        plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).lower())
        # Not all that a pattern takes for a letter or a digit may be in an identifier.
        found = "_".join("".join(each if f"a{each}".isidentifier() else " " for each in plain).split()).strip("_")
    if not found.isidentifier():
        found = f"field_{found}".rstrip("_")
    return f"{found}_" if keyword.iskeyword(found) or found in _TAKEN else found


def wire_name(attribute: str) -> str:
    """Return the field name of an attribute under `rename="camel"`, computed by msgspec itself."""
    return msgspec.defstruct("Sample", [attribute], rename="camel").__struct_encode_fields__[0]
