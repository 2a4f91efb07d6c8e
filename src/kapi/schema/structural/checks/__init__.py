"""The rules a schema has for values, one kind of rule a module, and the two ways to apply them all.

`accepting` says yes or no on every write; `explaining` says what is wrong, and how the rules work together. The rules
themselves are `typenames`, `numeric`, `textual` (with `addresses` for its larger formats) and `enumerating`.
"""
