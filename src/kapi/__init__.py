"""The Kubernetes programming model in Python: a control plane you can install with pip, and a controller framework."""

__version__ = "0.1.0.dev0"
