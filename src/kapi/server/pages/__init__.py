"""Endpoints that are not resources: discovery, OpenAPI, health, version, metrics."""
