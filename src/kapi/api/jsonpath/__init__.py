"""JSONPath as Kubernetes writes it: `path` reads one, `steps` are the functions it becomes."""
