"""Objects with owner references, for tests."""

from api_client import CM, cm


def reference(owner, **more):
    """An owner reference."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        **more,
    }


def blocking(owner):
    """A reference that its owner waits for."""
    return reference(owner, blockOwnerDeletion=True)


def owned(name, *references, **metadata):
    """A ConfigMap with owners."""
    return cm(name, metadata={"ownerReferences": list(references), **metadata})


async def chain(api, *names, make=owned, refer=blocking):
    """ConfigMaps of which each owns the next."""
    made = []
    for name in names:
        made.append(await api.made(CM, make(name, *(refer(one) for one in made[-1:]))))
    return made


def names(api, namespace="default"):
    """The ConfigMaps there are."""
    return {name for space, name in api.there("configmaps") if space == namespace}


def metadata(api, name, namespace="default", resource="configmaps"):
    """The metadata of an object that must be there."""
    obj = api.find(resource, namespace, name)
    assert obj is not None, name
    return obj["metadata"]


def owners(api, name, namespace="default", resource="configmaps"):
    """The names of the owners an object has."""
    return [one["name"] for one in metadata(api, name, namespace, resource).get("ownerReferences", ())]


def reconciles(api):
    """How often the collector has looked at something."""
    samples = [sample for metric in api.registry.collect() for sample in metric.samples]
    return sum(one.value for one in samples if one.name == "controller_runtime_reconcile_total")
