"""Typed clients, listers and informers of custom kinds, as the source of a Python package.

`package` writes the package, `kinds` names its classes, `imports` sorts imports.
"""

from kapi.scaffold.clientset.package import MADE, package_of_classes, package_of_definitions

__all__ = ["MADE", "package_of_classes", "package_of_definitions"]
