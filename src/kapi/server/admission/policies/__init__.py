"""Admission policies written in CEL: ValidatingAdmissionPolicy and MutatingAdmissionPolicy, with their bindings.

`source` has the stored policies and bindings, indexed by what they match; `matchresources` and `params` decide which of
them apply to a request, and with which params; `validating` and `mutating` are the two plug-ins. What needs the
expression language (`validator`, `mutator`, `patches`) is imported when the first policy is used.
"""
