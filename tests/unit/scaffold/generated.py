"""What the tests of generated source share: importing it, and comparing definitions."""

import importlib.util
import itertools
import sys

import msgspec

from kapi.api.crd import definition
from kapi.scaffold.types import types_source

_number = itertools.count()
HEAD = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}


def imported(source, folder):
    """The module of a source text; from a file, since descriptions are read from there."""
    name = f"generated_{next(_number)}"
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def there_and_back(obj, folder):
    """The definition of the classes made from a definition, all its versions."""
    kind = obj["spec"]["names"]["kind"]
    sources = [types_source([obj], version["name"]) for version in obj["spec"]["versions"]]
    modules = [imported(source, folder) for source in sources]
    return definition(*(_kind(module, kind) for module in modules))


def _kind(module, kind):
    return next(one for one in vars(module).values() if getattr(getattr(one, "gvk", None), "kind", "") == kind)


def comparable(obj):
    """A definition without what may differ: order, white space in descriptions, the head, and what says nothing."""
    spec = msgspec.json.decode(msgspec.json.encode(obj["spec"]))
    spec.pop("conversion", None)
    for version in spec["versions"]:
        props = version["schema"]["openAPIV3Schema"]
        properties = props.setdefault("properties", {})
        for name, schema in HEAD.items():
            found = {key: value for key, value in properties.get(name, {}).items() if key != "description"}
            properties[name] = schema | found
        _settle(props)
    spec["versions"].sort(key=lambda version: version["name"])
    return {"annotations": obj["metadata"].get("annotations"), **spec}


def _settle(props):
    if "description" in props:
        props["description"] = " ".join(props["description"].split())
    if "required" in props:
        props["required"] = sorted(props["required"])
    for key in ("description", "properties", "required"):
        if not props.get(key, True):
            del props[key]
    below = [*props.get("properties", {}).values(), props.get("items"), props.get("additionalProperties")]
    for one in below:
        if isinstance(one, dict):
            _settle(one)
