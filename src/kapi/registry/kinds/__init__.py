"""The rules of the built-in kinds, an area a module; `kapi.registry.strategies` gathers them."""
