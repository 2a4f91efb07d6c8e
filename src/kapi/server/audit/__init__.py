"""Audit: a record of who asked for what, and what was answered, as audit.k8s.io/v1 Events."""
