"""Parts that know nothing of Kubernetes: clocks, event loop, TLS, logs, fail points."""
