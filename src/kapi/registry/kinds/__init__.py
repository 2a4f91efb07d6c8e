"""The rules of the built-in kinds, an area a module; `kapi.registry.rules` gathers them."""
