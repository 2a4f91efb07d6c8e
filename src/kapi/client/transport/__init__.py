"""The transport of a client: how requests reach the API server.

`interface` is what `RESTClient` needs of a transport, `httptransport` is the one over sockets, `proxy` chooses the
proxy, `ratelimit` limits requests per second, `observer` follows requests and `metrics` counts them.
"""
