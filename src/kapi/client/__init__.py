"""Clients of a Kubernetes API server: Kapi's own or any other.

`Client` is what most programs need, and `SyncClient` what most scripts do. In reading order: `config` says where and as
whom, `rest` sends requests, `discovery` and `mapper` know what the server serves, `typed` handles objects of one kind,
`dynamic` any kind as dictionaries, and `client` is the façade. Needs the base dependencies only.
"""

from kapi.client.client import ALL_NAMESPACES, Client
from kapi.client.config import ClientConfig
from kapi.client.discovery import APIResource, DiscoveryClient
from kapi.client.dynamic import DynamicClient, ResourceClient, WatchEvent
from kapi.client.errors import (
    AnswerError,
    ClientError,
    ConfigError,
    ConnectError,
    ConnectionLost,
    NoMatch,
    TransportError,
    TransportTimeout,
    WaitTimeout,
    error_from_status,
)
from kapi.client.mapper import RESTMapper
from kapi.client.rest import RESTClient
from kapi.client.sync import SyncClient
from kapi.client.typed import ObjectList, TypedClient, Watch
from kapi.client.wait import DELETED, retry_on_conflict

__all__ = [
    "ALL_NAMESPACES",
    "DELETED",
    "APIResource",
    "AnswerError",
    "Client",
    "ClientConfig",
    "ClientError",
    "ConfigError",
    "ConnectError",
    "ConnectionLost",
    "DiscoveryClient",
    "DynamicClient",
    "NoMatch",
    "ObjectList",
    "RESTClient",
    "RESTMapper",
    "ResourceClient",
    "SyncClient",
    "TransportError",
    "TransportTimeout",
    "TypedClient",
    "WaitTimeout",
    "Watch",
    "WatchEvent",
    "error_from_status",
    "retry_on_conflict",
]
