"""The control plane, assembled: the only package that imports every other package of the server."""
