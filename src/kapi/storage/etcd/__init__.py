"""The etcd backend: the store of control planes that outgrow one machine, shared by several servers.

In reading order: `address` is the URL of a store (endpoints, prefix, TLS files, user, deadlines). `messages` are etcd's
on the wire, the few fields that a store needs; `headers`, `streams` (one call) and `http2` (a connection) carry them.
`cluster` has the connections to the members, failover, deadlines and authentication. `opening` checks what is there
before a store is used. `livefeed` is the one watch of the whole prefix, resumed wherever it breaks off, and history for
late followers. `latest` reads the latest revision once for all that wait at a moment. `storage` is the `Storage`
contract, made of these. `monitor` asks for alarms, sizes and leaders, for health checks and metrics.
"""
