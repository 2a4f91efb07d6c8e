"""Structural schemas: the schemas of custom resources, compiled into functions that prune, default and judge objects.

`model` reads a schema; `violations` says what is not allowed in one; the other modules compile it.
"""
