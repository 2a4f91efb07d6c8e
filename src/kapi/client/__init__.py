"""Clients of a Kubernetes API server: Kapi's own or any other.

`Client` is for programs, `SyncClient` for scripts. In reading order: `config` and `kubeconfig` hold the address of the
server and the credentials, `auth` presents them, `transport` carries requests, `rest` sends them and decodes responses,
`discovery` and `mapper` find resources, `typed` sends the requests of one resource, `client` has every verb for every
kind, and `kindclient` the same verbs for one. `dynamic` has the server's answers as they are, lists and tables among
them, without discovery. Needs the base dependencies only.
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
from kapi.client.kindclient import KindClient
from kapi.client.mapper import RESTMapper
from kapi.client.rest import RESTClient
from kapi.client.sync import SyncClient
from kapi.client.typed import ObjectList, Watch
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
    "KindClient",
    "NoMatch",
    "ObjectList",
    "RESTClient",
    "RESTMapper",
    "ResourceClient",
    "SyncClient",
    "TransportError",
    "TransportTimeout",
    "WaitTimeout",
    "Watch",
    "WatchEvent",
    "error_from_status",
    "retry_on_conflict",
]
