"""What has nothing to do with Kubernetes: clocks, loops, TLS, logs, fail points."""
