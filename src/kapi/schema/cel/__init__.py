"""CEL, the Common Expression Language: parsed, checked against types, priced, and compiled into closures.

An expression passes through `syntax` (text to tree) → `check` (types and overloads) → `cost` (how much it may cost at
most) → `run` (a closure that runs it within a budget). `libraries` has the functions that expressions may call.
Nothing here knows schemas, requests or storage; `kapi.schema.rules` puts expressions into schemas. Everything is pure
and does no I/O. Patterns run on RE2.
"""
