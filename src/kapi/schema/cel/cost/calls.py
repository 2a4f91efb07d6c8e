"""How much a call may cost at most, by its function or overload, and how large its result may be.

The numbers are part of the contract: what takes one look costs 1, what reads a string costs a tenth per character, and
patterns cost the product of both lengths. Functions of libraries are known by name, those of the language by overload.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.schema.cel.cost.estimates import LARGEST, ONE, UNKNOWN, ZERO, Estimate, exactly, wrapped
from kapi.schema.cel.syntax.ast import Literal
from kapi.schema.cel.types import BYTES, INT, STRING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.schema.cel.syntax.ast import Expr
    from kapi.schema.cel.types import Type

    Sizes = Callable[[Sequence[str]], Estimate | None]


class Operand(NamedTuple):
    """What the cost of a call can depend on: an argument, or the receiver."""

    expr: Expr
    type: Type
    path: Sequence[str]
    """From a variable; empty when the value is not an input."""
    size: Estimate | None


class _Site(NamedTuple):
    """One call that is priced."""

    overload: str
    target: Operand | None
    args: Sequence[Operand]
    sizes: Sizes

    def size(self, operand: Operand) -> Estimate:
        """The size of an operand, as library functions see it."""
        return operand.size or self.sizes(operand.path) or UNKNOWN


class _Price(NamedTuple):
    """What a call costs besides its arguments, and the size of its result where that is told."""

    cost: Estimate
    result: Estimate | None = None


_READ: Final = 0.1
"""The cost of reading one character."""
_PATTERN: Final = 0.25
"""The cost that one character of a pattern adds to each tenth of the text."""
_NEW_LIST: Final = exactly(10)
_REQUIREMENT: Final = 50.0
_ADDRESS: Final = Estimate(4, 16)
_FORMAT_PATTERN: Final = 128
_FORMAT_NAME: Final = 64
_CHECK: Final = exactly(350_000)


def estimate_call(
    function: str,
    overload: str,
    target: Operand | None,
    args: Sequence[Operand],
    costs: Sequence[Estimate],
    sizes: Sizes,
) -> _Price:
    """The price of a call with its arguments, and the size of its result; the receiver is paid for by the caller."""
    if overload in ("logical_or", "logical_and"):
        return _Price(Estimate(costs[0].min, costs[0].plus(costs[1]).max))
    if overload == "conditional":
        result = (args[1].size or UNKNOWN).union(args[2].size or UNKNOWN)
        return _Price(costs[0].plus(costs[1].union(costs[2])), result)
    site = _Site(overload, target, args, sizes)
    price = None
    for prices, name in ((_EXTENDED, overload), (_LIBRARIES, function), (_STANDARD, overload)):
        pricing = prices.get(name)
        price = pricing(site) if pricing else None
        if price is not None:
            break
    total = price.cost if price else ONE
    for cost in costs:
        total = total.plus(cost)
    return _Price(total, price.result if price else None)


def _one(_: _Site) -> _Price:
    return _Price(ONE)


# What the language has.


def _format(site: _Site) -> _Price | None:
    return _Price((site.target.size or UNKNOWN).scaled(_READ)) if site.target else None


def _string_to_bytes(site: _Site) -> _Price:
    size = site.args[0].size or UNKNOWN
    return _Price(size.scaled(_READ), Estimate(size.min, wrapped(size.max * 4)))


def _bytes_to_string(site: _Site) -> _Price:
    size = site.args[0].size or UNKNOWN
    return _Price(size.scaled(_READ), Estimate(size.min // 4, size.max))


def _quote(site: _Site) -> _Price:
    size = site.args[0].size or UNKNOWN
    return _Price(size.scaled(_READ), Estimate(wrapped(size.min + 2), wrapped(size.max * 2 + 2)))


def _starts_with(site: _Site) -> _Price:
    return _Price((site.args[0].size or UNKNOWN).scaled(_READ))


def _in_list(site: _Site) -> _Price:
    return _Price((site.args[1].size or UNKNOWN).scaled(1))


def _matches(site: _Site) -> _Price | None:
    if site.target is None:
        return None
    # One more than the text, so that a pattern costs something on an empty one.
    text = (site.target.size or UNKNOWN).plus(ONE).scaled(_READ)
    return _Price(text.times((site.args[0].size or UNKNOWN).scaled(_PATTERN)))


def _contains(site: _Site) -> _Price | None:
    if site.target is None:
        return None
    text = (site.target.size or UNKNOWN).scaled(_READ)
    return _Price(text.times((site.args[0].size or UNKNOWN).scaled(_READ)))


def _add_text(site: _Site) -> _Price:
    size = (site.args[0].size or UNKNOWN).plus(site.args[1].size or UNKNOWN)
    return _Price(size.scaled(_READ), size)


def _add_list(site: _Site) -> _Price:
    return _Price(ONE, (site.args[0].size or UNKNOWN).plus(site.args[1].size or UNKNOWN))


def _compare(site: _Site) -> _Price:
    most = min((arg.size or UNKNOWN).max for arg in site.args)
    return _Price(Estimate(1 if most > 0 else 0, most).scaled(_READ))


_STANDARD: Final[dict[str, Callable[[_Site], _Price | None]]] = {
    "string_format": _format,
    "string_to_bytes": _string_to_bytes,
    "bytes_to_string": _bytes_to_string,
    "strings_quote": _quote,
    "starts_with_string": _starts_with,
    "ends_with_string": _starts_with,
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    "add_string": _add_text,
    "add_bytes": _add_text,
    "add_list": _add_list,
    **dict.fromkeys(
        [
            f"{order}_{of}"
            for order in ("less", "greater", "less_equals", "greater_equals")
            for of in ("string", "bytes")
        ],
        _compare,
    ),
    "equals": _compare,
    "not_equals": _compare,
}


# What libraries add, by the name of the function.


def _selector(site: _Site) -> _Price | None:
    if len(site.args) != 1:
        return None
    length = site.size(site.args[0])
    return _Price(_NEW_LIST.plus(length.scaled(_READ)).plus(length.scaled(0.5).scaled(_REQUIREMENT)))


def _items(site: _Site, operand: Operand) -> tuple[Type, Estimate] | None:
    """The type and the size of the items, when the operand is a list."""
    if not operand.type.params:
        return None
    size = site.sizes([*operand.path, "@items"]) if operand.path else None
    return operand.type.params[0], size or UNKNOWN


def _traverse(site: _Site) -> _Price | None:
    if site.target is None:
        return None
    items = _items(site, site.target)
    if items is None:
        return _Price(site.size(site.target).scaled(_READ))
    item, size = items
    each = ONE.plus(size.scaled(_READ)) if item in (STRING, BYTES) else ONE
    return _Price(site.size(site.target).times(each))


def _rewrite_argument(site: _Site) -> _Price | None:
    if len(site.args) != 1:
        return None
    size = site.size(site.args[0])
    return _Price(size.scaled(_READ), size)


def _rewrite_target(site: _Site) -> _Price | None:
    if site.target is None:
        return None
    size = site.size(site.target)
    return _Price(size.scaled(_READ), size)


def _replace(site: _Site) -> _Price | None:
    if site.target is None or len(site.args) < 2:
        return None
    size, old, new = site.size(site.target), site.size(site.args[0]), site.size(site.args[1])
    most, kept_most = _longest_replacement(size.max, old.min, new.max)
    least, kept_least = _shortest_replacement(size.min, old.max, new.min)
    result = Estimate(least, most).times(new).plus(Estimate(kept_least, kept_most))
    return _Price(size.scaled(2 * _READ), result)


def _longest_replacement(size: int, old: int, new: int) -> tuple[int, int]:
    """How often something is put in, and how much is kept, when the result is as long as can be."""
    if old == 0:
        # An empty string is found around every character.
        return min(size + 1, LARGEST), size
    if new <= old:
        return 0, size
    return math.ceil(float(size) / float(old)), 0


def _shortest_replacement(size: int, old: int, new: int) -> tuple[int, int]:
    if old == 0:
        return min(size + 1, LARGEST), size
    if old <= new:
        return 0, size
    return math.ceil(float(size) / float(old)), 0


def _split(site: _Site) -> _Price | None:
    if site.target is None:
        return None
    size = site.size(site.target)
    most = size.max
    if len(site.args) > 1:
        limit = _written_int(site.args[1])
        most = most if limit is None else wrapped(limit)
    return _Price(size.scaled(2 * _READ), Estimate(0, most))


def _join(site: _Site) -> _Price | None:
    if site.target is None:
        return None
    count = site.size(site.target)
    items = _items(site, site.target)
    size = count.times(items[1]) if items else ZERO
    if site.args:
        gaps = Estimate(max(count.min - 1, 0), max(count.max - 1, 0))
        size = size.plus(site.size(site.args[0]).times(gaps))
    return _Price(size.scaled(_READ), size)


def _find(site: _Site) -> _Price | None:
    if site.target is None or not site.args:
        return None
    size = site.size(site.target)
    cost = size.plus(ONE).scaled(_READ).times(site.size(site.args[0]).scaled(_PATTERN))
    return _Price(cost, Estimate(0, size.max))


def _read_argument(site: _Site) -> _Price | None:
    return _Price(site.size(site.args[0]).scaled(_READ)) if site.args else None


def _ip(site: _Site) -> _Price | None:
    return _Price(ONE) if site.overload == "cidr_ip" else _read_argument(site)


def _is_canonical(site: _Site) -> _Price | None:
    return _Price(site.size(site.args[0]).scaled(2 * _READ)) if site.args else None


def _contains_ip(site: _Site) -> _Price | None:
    if not site.args:
        return None
    cost = _ADDRESS.plus(_ADDRESS).scaled(_READ)
    if site.overload == "cidr_contains_ip_string":
        cost = cost.plus(site.size(site.args[0]).scaled(_READ))
    return _Price(cost)


def _contains_cidr(site: _Site) -> _Price | None:
    if not site.args:
        return None
    cost = _ADDRESS.plus(_ADDRESS).scaled(_READ).plus(_ADDRESS.scaled(_READ)).plus(ONE)
    if site.overload == "cidr_contains_cidr_string":
        cost = cost.plus(site.size(site.args[0]).scaled(_READ))
    return _Price(cost)


def _validate(site: _Site) -> _Price | None:
    return _Price(site.size(site.args[0]).scaled(_READ).scaled(_FORMAT_PATTERN * _PATTERN)) if site.args else None


def _equal(site: _Site) -> _Price | None:
    """Of values that libraries define; all others are the language's."""
    left, right = site.args
    if left.type != right.type:
        return None
    if left.type.name == "kubernetes.NamedFormat":
        return _Price(Estimate(1, _FORMAT_NAME).scaled(_READ))
    if left.type.name == "kubernetes.URL":
        return _Price(Estimate(1, right.size.max if right.size else 1).scaled(_READ))
    return _Price(ONE) if left.type.name in _OPAQUE else None


_OPAQUE: Final = frozenset(
    {
        "net.IP",
        "net.CIDR",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    }
)
_ONE_EACH: Final = (
    # of authorizers
    *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason", "error"),
    "errored",
    # of addresses
    *("masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast"),
    "isGlobalUnicast",
    # of quantities and versions
    *("sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub"),
    *("major", "minor", "patch"),
    # of URLs and formats
    *("getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery", "format.named"),
)
_LIBRARIES: Final[dict[str, Callable[[_Site], _Price | None]]] = {
    **dict.fromkeys(_ONE_EACH, _one),
    "check": lambda _: _Price(_CHECK),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traverse),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _rewrite_argument),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _rewrite_target),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _read_argument),
    "ip": _ip,
    "ip.isCanonical": _is_canonical,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equal,
}


# What libraries add and price themselves, by overload.


def _sets(factor: float) -> Callable[[_Site], _Price | None]:
    def price(site: _Site) -> _Price | None:
        if len(site.args) != 2:
            return None
        return _Price(site.size(site.args[0]).times(site.size(site.args[1])).scaled(factor).plus(ONE))

    return price


def _new_list(factor: float, size: Estimate) -> _Price:
    return _Price(size.scaled(factor).plus(ONE).plus(_NEW_LIST), size)


def _slice(site: _Site) -> _Price | None:
    if site.target is None or len(site.args) != 2:
        return None
    end = _whole(site.args[1], site.size(site.target).max)
    return _new_list(1, exactly(wrapped(end - _whole(site.args[0], 0))))


def _flatten(site: _Site) -> _Price | None:
    if site.target is None:
        return None
    depth = _whole(site.args[0], LARGEST) if site.args else 1
    return _new_list(float(depth), site.size(site.target))


def _range(site: _Site) -> _Price | None:
    return _new_list(1, exactly(_whole(site.args[0], LARGEST))) if site.target is None else None


def _reverse(site: _Site) -> _Price | None:
    return _new_list(1, site.size(site.target)) if site.target else None


def _pairs(operand: Callable[[_Site], Operand | None], factor: float) -> Callable[[_Site], _Price | None]:
    """A price by how many pairs there are in a list: sorting and finding duplicates are reckoned as such."""

    def price(site: _Site) -> _Price | None:
        of = operand(site)
        if of is None:
            return None
        size = site.size(of)
        return _new_list(factor, size.times(size))

    return price


def _target(site: _Site) -> Operand | None:
    return site.target


def _first(site: _Site) -> Operand | None:
    return site.args[0] if site.target and site.args else None


def _written_int(operand: Operand) -> int | None:
    expr = operand.expr
    return expr.value if isinstance(expr, Literal) and expr.type == INT else None


def _whole(operand: Operand, otherwise: int) -> int:
    """The number that an argument is written as, if it is."""
    written = _written_int(operand)
    return otherwise if written is None else max(written, 0)


def _sorting() -> dict[str, Callable[[_Site], _Price | None]]:
    prices = {}
    for name in (
        "int",
        "uint",
        "double",
        "bool",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "string",
        "bytes",
    ):
        factor = 2 + _READ if name in ("string", "bytes") else 2.0
        prices[f"list_{name}_sort"] = _pairs(_target, factor)
        prices[f"list_{name}_sortByAssociatedKeys"] = _pairs(_first, factor)
    return prices


_EXTENDED: Final[dict[str, Callable[[_Site], _Price | None]]] = {
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _pairs(_target, 2.0),
    **_sorting(),
}
