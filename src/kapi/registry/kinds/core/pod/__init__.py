"""Pods and the pod templates inside other kinds: defaults, validation, sub-resources."""
