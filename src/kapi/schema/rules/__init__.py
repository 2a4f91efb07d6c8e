"""Validation rules of structural schemas: `x-kubernetes-validations`, written in CEL.

`declarations` and `adapters` give expressions their view of a schema and its values; `checks` validates the rules of a
definition; `validator` runs them on objects.
"""
