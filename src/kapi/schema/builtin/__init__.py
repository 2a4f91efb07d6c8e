"""Schemas of the built-in kinds, compiled from the generated definitions."""
