"""RBAC: roles, bindings, the decisions they lead to, and the check that no user grants more than it has."""
