"""Kinds about the cluster itself: namespaces, nodes, events, access, quotas, extension points."""
