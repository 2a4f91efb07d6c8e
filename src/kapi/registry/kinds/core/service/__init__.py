"""Services and the network around them: pools of addresses, endpoints, ingresses, policies."""
