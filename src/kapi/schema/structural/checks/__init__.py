"""The validations that a schema has for values, by kind, and the two ways to run all of them.

`acceptance` tells valid from invalid on every write; `explanation` makes the errors of invalid values. The validations
themselves are in `typenames`, `numbers`, `strings` and `enumeration`.
"""
