"""RBAC in the control plane: the default roles and bindings, and their reconciliation at the start."""
