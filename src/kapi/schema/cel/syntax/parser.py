"""From text to a syntax tree: the grammar of the language, with macros expanded on the way.

The parser keeps the open brackets on a stack of its own instead of calling itself, so that no expression can exhaust
Python's stack, and takes time linear in the length of the text. How deep expressions may nest is part of the contract
and is counted as cel-go counts it: by open expressions, and by operators that wait for their right side. The
depth of trees is limited too, which lets every later stage simply recurse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.syntax import lexer
from kapi.schema.cel.syntax.ast import (
    Call,
    Entry,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
    StructField,
)
from kapi.schema.cel.syntax.cursor import OPERAND, Cursor, Stop
from kapi.schema.cel.syntax.identifiers import RESERVED
from kapi.schema.cel.syntax.issues import ExpressionErrors, Issue
from kapi.schema.cel.syntax.lexer import END, IDENTIFIER, QUOTED, Token, tokenize
from kapi.schema.cel.syntax.macros import Ids, MacroError, TreeTooLarge, expand
from kapi.schema.cel.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.schema.cel.types import Type

LONGEST: Final = 100_000
"""In characters."""
DEEPEST: Final = 250
"""The deepest nesting of expressions, and the most nodes above a leaf of their trees."""

_RELATION, _SUM, _PRODUCT = 1, 2, 3
_BINARY: Final = {
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), _RELATION),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
_SIGNS: Final = frozenset({*_BINARY, "&&", "||", ".", "["})
_FUNCTIONS: Final = {sign: "@in" if sign == "in" else f"_{sign}_" for sign in _BINARY}
_LITERALS: Final[dict[str, tuple[Callable[[str], Any], Type]]] = {
    lexer.INT: (lexer.int_value, INT),
    lexer.UINT: (lexer.uint_value, UINT),
    lexer.FLOAT: (lexer.double_value, DOUBLE),
    lexer.STRING: (lexer.string_value, STRING),
    lexer.BYTES: (lexer.bytes_value, BYTES),
    "true": (lambda _: True, BOOL),
    "false": (lambda _: False, BOOL),
    "null": (lambda _: None, NULL),
}
_NUMBERS: Final = frozenset({lexer.INT, lexer.FLOAT})
_MACRO_DEPTH: Final = 5
"""The most nodes that an expansion puts above the arguments of a macro."""

# The brackets that an expression may stand in.
_START, _GROUP, _CALL, _INDEX, _LIST, _MAP, _STRUCT = "start", "group", "call", "index", "list", "map", "struct"
_CLOSER: Final = {_START: END, _GROUP: ")", _CALL: ")", _INDEX: "]", _LIST: "]", _MAP: "}", _STRUCT: "}"}
_AGGREGATES: Final = frozenset({_LIST, _MAP, _STRUCT})
"""These may end with a comma."""
_FIRST: Final = {
    _CALL: OPERAND | {")"},
    _INDEX: OPERAND | {"?"},
    _LIST: OPERAND | {"]", ",", "?"},
    _MAP: OPERAND | {"}", ",", "?"},
    _STRUCT: frozenset({"}", ",", "?", IDENTIFIER, QUOTED}),
}

Term = tuple[Expr, int]
"""A tree and its depth."""


class SyntaxErrors(ExpressionErrors):
    """The text is no expression of the language."""


def parse(source: str) -> Expr:
    """The tree of an expression, with macros expanded. Raises SyntaxErrors with all issues that could be found."""
    if len(source) > LONGEST:
        message = f"expression code point size exceeds limit: size: {len(source)}, limit {LONGEST}"
        raise SyntaxErrors(source, [Issue(None, message)])
    tokens, issues = tokenize(source)
    try:
        tree = _Parser(source, tokens, issues).run()
    except Stop:
        pass
    except TreeTooLarge:
        issues.append(Issue(None, "expression is too large after the expansion of macros"))
    else:
        if not issues:
            return tree
    raise SyntaxErrors(source, issues)


class _Open:
    """An expression that is being read, with the bracket around it.

    Operators wait on `waiting` until one that binds no tighter comes; terms of `&&` and `||` are collected because
    their tree is balanced in the end; `choices` has the conditions of `?:` and what they choose if true.
    """

    __slots__ = (
        "ands",
        "choices",
        "colons",
        "items",
        "kind",
        "name",
        "offset",
        "optional",
        "ors",
        "prefix",
        "target",
        "waiting",
    )

    def __init__(self, kind: str, offset: int, name: str = "", target: Term | None = None) -> None:
        self.kind = kind
        self.offset = offset
        self.name = name
        self.target = target
        self.items: list[Any] = []
        """The terms before this one; in a map keys and values in turn, in a struct names and values."""
        self.colons: list[int] = []
        """The offsets of the colons in a struct."""
        self.optional: set[int] = set()
        self.prefix: tuple[str, int] | None = None
        self.waiting: list[tuple[Term, str, int]] = []
        self.ands: list[tuple[Term, int]] = []
        self.ors: list[tuple[Term, int]] = []
        self.choices: list[tuple[Term, int, Term | None]] = []

    def followers(self) -> frozenset[str]:
        """The tokens that may follow a bracket: an operator, or the end of the expression."""
        if self.choices and self.choices[-1][2] is None:
            return _SIGNS | {":"}
        if self.kind == _MAP and len(self.items) % 2 == 0:
            return _SIGNS | {"?", ":"}
        comma = {","} if self.kind == _CALL or self.kind in _AGGREGATES else set()
        return _SIGNS | {"?", _CLOSER[self.kind], *comma}


class _Parser(Cursor):
    """Parses one expression. The position is either before an operand or after one."""

    def __init__(self, source: str, tokens: list[Token], issues: list[Issue]) -> None:
        super().__init__(source, tokens, issues)
        self._ids = Ids()
        self._open = [_Open(_START, 0)]
        self._qualified = ""
        """The dotted name that was just read, as long as it may still be the name of a message."""
        self._expressions = 1
        self._relations = 1
        self._sums = 1

    def run(self) -> Expr:
        term: Term | None = None
        while True:
            while term is None:
                term = self._operand()
            term = self._follow(term)
            if term is not None and not self._open:
                return term[0]

    # Before an operand.

    def _operand(self) -> Term | None:
        """Read an operand, or open a bracket and leave its content to the next iteration."""
        if self.token.kind in ("!", "-"):
            self._read_prefix()
        token = self.token
        kind = token.kind
        if kind == IDENTIFIER:
            return self._name(token.offset)
        if kind in _LITERALS:
            self.advance()
            return self._literal(token, token.text, token.offset)
        if kind == "-":
            return self._negative_number()
        if kind == ".":
            self.advance()
            if self.token.kind != IDENTIFIER:
                self.no_viable_alternative(token, self.token)
            return self._name(token.offset, ".")
        if kind == "(":
            self.advance()
            self._enter(_Open(_GROUP, token.offset))
            return None
        if kind in ("[", "{"):
            self.advance()
            return self._enter_brackets(_Open(_LIST if kind == "[" else _MAP, token.offset))
        self.expect_one_of(OPERAND)
        return None

    def _read_prefix(self) -> None:
        sign = self.token
        count = 1
        while self.peek(count).kind == sign.kind:
            count += 1
        follower = self.peek(count)
        if sign.kind == "-":
            if count == 1 and follower.kind in _NUMBERS:
                return  # The sign belongs to the number.
            if follower.kind not in OPERAND or follower.kind == "!":
                self.no_viable_alternative(sign, follower)
        self.advance(count)
        if count % 2:
            self._open[-1].prefix = (f"{sign.kind}_", sign.offset)

    def _negative_number(self) -> Term:
        sign = self.advance()
        number = self.token
        if number.kind not in _NUMBERS:
            self.no_viable_alternative(sign, number)
        self.advance()
        return self._literal(number, f"-{number.text}", sign.offset)

    def _literal(self, token: Token, text: str, offset: int) -> Term:
        read, type_ = _LITERALS[token.kind]
        try:
            value = read(text)
        except ValueError as error:
            return self._placeholder(offset, str(error))
        return Literal(id=self._ids.next(), offset=offset, value=value, type=type_), 1

    def _name(self, offset: int, lead: str = "") -> Term | None:
        token = self.advance()
        placeholder: Term | None = None
        if token.text in RESERVED:
            placeholder = self._placeholder(offset, f"reserved identifier: {token.text}")
        if self.token.kind == "(":
            return self._enter_brackets(_Open(_CALL, self.advance().offset, lead + token.text))
        self._qualified = lead + token.text
        return placeholder or (Ident(id=self._ids.next(), offset=token.offset, name=self._qualified), 1)

    # Brackets.

    def _enter(self, bracket: _Open) -> None:
        self._open.append(bracket)
        self._expressions += 1
        self._relations += 1
        self._sums += 1
        self._check_nesting()

    def _enter_brackets(self, bracket: _Open) -> Term | None:
        """Opens a bracket that may be empty, or whose first item may be optional."""
        kind = bracket.kind
        self.expect_one_of(_FIRST[kind])
        if self.token.kind == "," and kind in _AGGREGATES:
            self.advance()
            self.expect(_CLOSER[kind], self._open[-1].followers())
            return self._build(bracket)
        if self.token.kind == _CLOSER[kind]:
            self.advance()
            return self._build(bracket)
        self._enter(bracket)
        self._begin_item(bracket)
        return None

    def _begin_item(self, bracket: _Open) -> None:
        """Read what may precede an item: the mark of optional ones, and the names of fields."""
        if bracket.kind == _CALL:
            return
        if self.token.kind == "?":
            self.advance()
            bracket.optional.add(len(bracket.items))
        if bracket.kind == _STRUCT:
            bracket.items.append(self._field_name())
            bracket.colons.append(self.token.offset)
            self.expect(":", OPERAND)

    def _field_name(self) -> str:
        self.expect_one_of({IDENTIFIER, QUOTED})
        token = self.advance()
        if token.kind == IDENTIFIER:
            return token.text
        self.issues.append(Issue(token.offset, "unsupported syntax: '`'"))
        return ""

    def _end_item(self, bracket: _Open, term: Term) -> Term | None:
        """The end of an expression in a bracket: what comes next, or the whole bracket."""
        kind = bracket.kind
        bracket.items.append(term)
        if kind == _MAP and len(bracket.items) % 2:
            self.expect(":", OPERAND)
            return None
        closer = _CLOSER[kind]
        if kind in _AGGREGATES:
            self.expect_one_of({closer, ","})
        if self.token.kind == "," and (kind == _CALL or kind in _AGGREGATES):
            self.advance()
            if kind == _CALL or self.token.kind in _FIRST[kind] - {closer, ","}:
                self._begin_item(bracket)
                return None
        self.expect(closer, self._open[-2].followers() if kind != _START else frozenset())
        self._open.pop()
        self._expressions -= 1
        self._relations -= 1
        self._sums -= 1
        return self._build(bracket)

    def _build(self, bracket: _Open) -> Term:
        kind, items = bracket.kind, bracket.items
        self._qualified = ""
        if kind in (_START, _GROUP):
            group: Term = items[0]
            return group
        if kind == _CALL:
            return self._call_or_macro(bracket)
        if kind == _INDEX:
            assert bracket.target is not None
            return self._call("_[?_]" if bracket.optional else "_[_]", bracket.offset, bracket.target, items[0])
        return self._aggregate(bracket)

    def _aggregate(self, bracket: _Open) -> Term:
        items, offset = bracket.items, bracket.offset
        made: Expr
        if bracket.kind == _LIST:
            elements = [item[0] for item in items]
            made = ListExpr(id=self._ids.next(), offset=offset, elements=elements, optional=frozenset(bracket.optional))
            return self._deepen(made, max((item[1] for item in items), default=0))
        pairs = [*zip(items[::2], items[1::2], strict=True)]
        depth = max((item[1] for item in items if isinstance(item, tuple)), default=0)
        if bracket.kind == _STRUCT:
            fields = [
                StructField(name=name, value=value[0], offset=colon, optional=2 * at in bracket.optional)
                for at, ((name, value), colon) in enumerate(zip(pairs, bracket.colons, strict=True))
            ]
            made = StructExpr(id=self._ids.next(), offset=offset, name=bracket.name, fields=fields)
            return self._deepen(made, depth)
        entries = [
            Entry(id=self._ids.next(), key=key[0], value=value[0], optional=2 * at in bracket.optional)
            for at, (key, value) in enumerate(pairs)
        ]
        made = MapExpr(id=self._ids.next(), offset=offset, entries=entries)
        return self._deepen(made, depth)

    def _call_or_macro(self, call: _Open) -> Term:
        args = [item[0] for item in call.items]
        target = call.target and call.target[0]
        depth = max((item[1] for item in (call.target, *call.items) if item), default=0)
        try:
            expansion = expand(self._ids, call.offset, call.name, target, args)
        except MacroError as error:
            return self._placeholder(error.offset, str(error))
        if expansion is not None:
            return self._deepen(expansion, depth - 1 if target is None else depth + _MACRO_DEPTH - 1)
        made = Call(id=self._ids.next(), offset=call.offset, function=call.name, args=args, target=target)
        return self._deepen(made, depth)

    # Behind an operand.

    def _follow(self, term: Term) -> Term | None:
        """Read what follows an operand; None when another operand must follow."""
        kind = self.token.kind
        if kind == ".":
            return self._member(term)
        if kind == "[":
            return self._enter_brackets(_Open(_INDEX, self.advance().offset, target=term))
        if kind == "{" and self._qualified:
            return self._enter_brackets(_Open(_STRUCT, self.advance().offset, self._qualified))
        self._qualified = ""
        current = self._open[-1]
        if current.prefix:
            (function, offset), current.prefix = current.prefix, None
            term = self._call(function, offset, term)
        if kind in _BINARY:
            self._binary(current, term)
            return None
        term = self._reduce(current, term, _RELATION)
        if kind == "&&":
            current.ands.append((term, self.advance().offset))
            return None
        term = self._balance("_&&_", current.ands, term)
        if kind == "||":
            current.ors.append((term, self.advance().offset))
            return None
        return self._choose(current, self._balance("_||_", current.ors, term))

    def _member(self, term: Term) -> Term | None:
        dot = self.advance()
        is_optional = self.token.kind == "?"
        if is_optional:
            self.advance()
        elif self.token.kind not in (IDENTIFIER, QUOTED):
            self.no_viable_alternative(dot, self.token)
        token = self.token
        name = self._field_name()
        if is_optional:
            self._qualified = ""
            field = Literal(id=self._ids.next(), offset=token.offset, value=name, type=STRING)
            return self._call("_?._", dot.offset, term, (field, 1))
        if self.token.kind == "(" and token.kind == IDENTIFIER:
            return self._enter_brackets(_Open(_CALL, self.advance().offset, name, term))
        self._qualified = self._qualified and f"{self._qualified}.{name}"
        return self._deepen(Select(id=self._ids.next(), offset=dot.offset, operand=term[0], field=name), term[1])

    def _binary(self, current: _Open, term: Term) -> None:
        sign = self.advance()
        level = _BINARY[sign.kind]
        current.waiting.append((self._reduce(current, term, level), sign.kind, sign.offset))
        if level == _RELATION:
            self._relations += 1
        else:
            self._sums += 1
        self._check_nesting()

    def _reduce(self, current: _Open, term: Term, level: int) -> Term:
        """Applies the waiting operators that bind as tightly as `level`, or tighter."""
        waiting = current.waiting
        while waiting and _BINARY[waiting[-1][1]] >= level:
            left, sign, offset = waiting.pop()
            if _BINARY[sign] == _RELATION:
                self._relations -= 1
            else:
                self._sums -= 1
            term = self._call(_FUNCTIONS[sign], offset, left, term)
        return term

    def _balance(self, function: str, terms: list[tuple[Term, int]], last: Term) -> Term:
        """A tree of little depth for a chain of `&&` or of `||`: the sign in the middle is its root."""
        if not terms:
            return last
        operands = [*(term for term, _ in terms), last]
        offsets = [offset for _, offset in terms]
        terms.clear()
        return self._balanced(function, operands, offsets, 0, len(offsets) - 1)

    def _balanced(self, function: str, operands: list[Term], offsets: list[int], low: int, high: int) -> Term:
        middle = (low + high + 1) // 2
        left = operands[middle] if middle == low else self._balanced(function, operands, offsets, low, middle - 1)
        right = (
            operands[middle + 1] if middle == high else self._balanced(function, operands, offsets, middle + 1, high)
        )
        return self._call(function, offsets[middle], left, right)

    def _choose(self, current: _Open, term: Term) -> Term | None:
        """`?` and `:` of a choice; the end of the expression otherwise."""
        choices = current.choices
        if choices and choices[-1][2] is None:
            self.expect(":", OPERAND)
            choices[-1] = (*choices[-1][:2], term)
            self._expressions += 1
            self._check_nesting()
            return None
        if self.token.kind == "?":
            choices.append((term, self.advance().offset, None))
            return None
        self._expressions -= len(choices)
        while choices:
            condition, offset, chosen = choices.pop()
            assert chosen is not None
            term = self._call("_?_:_", offset, condition, chosen, term)
        return self._end_item(current, term)

    def _call(self, function: str, offset: int, *args: Term) -> Term:
        made = Call(id=self._ids.next(), offset=offset, function=function, args=[arg[0] for arg in args])
        return self._deepen(made, max(arg[1] for arg in args))

    # Limits.

    def _deepen(self, made: Expr, depth: int) -> Term:
        if depth > DEEPEST:
            self.issues.append(Issue(None, "max recursion depth exceeded"))
            raise Stop
        return made, depth + 1

    def _check_nesting(self) -> None:
        if max(self._expressions, self._relations, self._sums) > DEEPEST:
            self.issues.append(Issue(None, f"expression recursion limit exceeded: {DEEPEST}"))
            raise Stop

    def _placeholder(self, offset: int, message: str) -> Term:
        """A placeholder for an invalid part, so that parsing can continue."""
        self.issues.append(Issue(offset, message))
        return Literal(id=self._ids.next(), offset=offset, value=None, type=NULL), 1
