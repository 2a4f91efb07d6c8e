"""HTTP/1.1: sockets, TLS, connections, framing, messages, and the in-process transport."""
