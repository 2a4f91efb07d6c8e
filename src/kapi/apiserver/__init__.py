"""A library for API servers of one's own: your resources behind `kubectl`, over a database, another API, or computed.

    class Books(Resource[Book]):
        async def get(self, request: Request, name: str) -> Book | None: ...
        async def list(self, request: Request, options: ListOptions) -> Sequence[Book]: ...

    ApiServer(Books(Book), cluster=ClientConfig.load()).run()

It is the server of Kapi with another registry: the pipeline, the handlers, discovery, OpenAPI and Tables are the same
code. `resources` is the contract with your functions, `backing` calls them from the write path, `observed` makes
watches of a backing that reports no changes, `delegation` asks the cluster who a client is and what it may do. Needs
`kapi[server]`.
"""

from kapi.api.crd import Column, CustomResource, Model, Rule, resource
from kapi.apiserver.registration import ServiceReference, api_service
from kapi.apiserver.resources import Event, ListOptions, Page, Request, Resource
from kapi.apiserver.server import ApiServer
from kapi.apiserver.stored import Stored

__all__ = [
    "ApiServer",
    "Column",
    "CustomResource",
    "Event",
    "ListOptions",
    "Model",
    "Page",
    "Request",
    "Resource",
    "Rule",
    "ServiceReference",
    "Stored",
    "api_service",
    "resource",
]
