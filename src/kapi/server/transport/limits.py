"""The limits of a connection: sizes, counts and times, in one table.

The transport checks these before anything is parsed or stored, so that no client, authenticated or not, can hold more
of the server than this. The limits on what a request contains (depth, patch operations) are in `api/limits.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kapi.api.limits import BODY_BYTES, MIB

KIB = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes are in bytes, times in seconds of the event loop's monotonic clock."""

    target: int = 32 * KIB
    """The request target; a longer one is answered 414."""
    head: int = 256 * KIB
    """Request line and headers together; more is answered 431."""
    headers: int = 1000
    """Header lines; more is answered 431. Repeated headers count each time."""
    body: int = BODY_BYTES
    """A longer body is not kept: the request is marked `oversized` and the connection ends with its answer."""
    chunk_overhead: int = 16 * KIB
    """Bytes of chunk extensions and trailers in one request, beyond 16 for each chunk."""
    pipeline: int = 4
    """Requests that may wait on one connection before it is no longer read."""
    discard: int = 256 * KIB
    """Input that is read and thrown away while a connection ends, so that the peer sees the answer and not a reset."""
    stream_input: int = 64 * KIB
    """Input a peer may send while it is being streamed to; more ends the connection."""
    connections: int = 10_000
    """Open connections of one server, unfinished TLS handshakes included. For one more, connections that have been idle
    for the longest are closed; if all are in use it is answered 503 and closed."""
    connections_per_address: int = 8000
    """The same for one address, so that it cannot take all. High, because clients may be behind one proxy."""
    handshakes: int = 1024
    """TLS handshakes that are not finished; the oldest is dropped for one more. Each costs a few milliseconds."""
    handshakes_per_address: int = 256
    """The same for one address."""

    free: int = 8 * KIB
    """Bytes of requests that a connection may hold without being charged, authenticated or not. Most requests fit, so
    they pay for no account; all connections together hold less than a sixth of `held` this way."""
    held: int = 512 * MIB
    """Bytes held for all peers together: bodies that arrive, responses and events not taken. Beyond, the slowest is
    closed. It is what slow peers can add to the memory of the process."""
    held_per_peer: int = 256 * MIB
    """Bytes held for one user, or one address while the user is not known. Half of the total, and not less, because
    many clusters have one user for everything."""

    head_timeout: float = 10.0
    """From the first byte of a request to the end of its headers."""
    body_timeout: float = 60.0
    """For the whole body, plus what `body_rate` allows for the bytes that have arrived."""
    body_rate: float = 16.0 * KIB
    """Bytes a second that a long body must keep up in the long run."""
    body_stall: float = 20.0
    """Between two reads of a body: a client that is alive sends something, however slow its network is."""
    idle_timeout: float = 120.0
    """Between requests, and before the first one."""
    write_timeout: float = 60.0
    """For the peer to take bytes from a full send buffer."""
    write_rate: float = 16.0 * KIB
    """Bytes a second at which the peer must take a long response in the long run, beyond `write_timeout`."""
    handshake_timeout: float = 10.0
    """For TLS to be agreed on."""
    shutdown_timeout: float = 5.0
    """For the peer to answer a TLS close_notify before the connection is dropped."""
    linger: float = 0.5
    """For the peer to take in the answer when a connection ends in the middle of a request."""
    stream_stop: float = 5.0
    """For a stream's writer to return after its peer has gone; then it is cancelled."""
