"""Clients of a Kubernetes API server: Kapi's own or any other.

In reading order: `config` says where and as whom, `rest` sends requests, `discovery` and `mapper` know what the server
serves, `dynamic` handles objects of any kind as dictionaries. Needs the base dependencies only.
"""

from kapi.client.config import ClientConfig
from kapi.client.discovery import APIResource, DiscoveryClient
from kapi.client.dynamic import DynamicClient, ResourceClient, WatchEvent
from kapi.client.errors import (
    AnswerError,
    ClientError,
    ConfigError,
    ConnectError,
    NoMatch,
    TransportError,
    TransportTimeout,
    error_from_status,
)
from kapi.client.mapper import RESTMapper
from kapi.client.rest import RESTClient

__all__ = [
    "APIResource",
    "AnswerError",
    "ClientConfig",
    "ClientError",
    "ConfigError",
    "ConnectError",
    "DiscoveryClient",
    "DynamicClient",
    "NoMatch",
    "RESTClient",
    "RESTMapper",
    "ResourceClient",
    "TransportError",
    "TransportTimeout",
    "WatchEvent",
    "error_from_status",
]
