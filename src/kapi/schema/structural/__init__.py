"""Structural schemas: those of custom resources, compiled into functions that prune, default and validate objects.

`model` reads a schema; `violations` finds what is not allowed in one; the other modules compile it.
"""
