"""Services: rules, allocation of cluster IPs and node ports, and the records of what is allocated."""
