"""CEL, the expression language of validation rules: parsed, checked against types, priced, and compiled into closures.

The way of an expression: `parser` → `checker` → `cost` (how much it may cost at most) → `program` (a closure that runs
it within a budget). `engine` is the small door; `rules` puts expressions into schemas. Everything is pure and does no
I/O. Patterns run on RE2.
"""
