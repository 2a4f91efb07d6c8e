"""The control plane, assembled: the only room that sees every other room of the server."""
