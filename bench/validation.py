"""The time that validating one custom object takes, in this process: no server, no network, nothing else in the figure.

Timed are the steps of every write: pruning of unknown fields, metadata, defaulting, and
validation by schema, list types and rules. Decoding and encoding are not in it.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from bench.client import LoadError
from bench.definitions import example, example_object
from bench.figures import Figure, quantile
from kapi.codec import json
from kapi.schema.customschema import CustomSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object

AT_ONCE = 50
"""Objects decoded before the clock runs."""

EXAMPLES = {"large": ("large", ""), "typical": ("certificate", "intermediate")}
"""Which example and which object of it a row is about."""


def measure_validation(sort: str, seconds: float) -> Callable[[], Figure]:
    """A measurement of one kind; its functions are compiled once."""
    name, called = EXAMPLES[sort]
    props = example(name)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema = CustomSchema(lambda: props, preserve_unknown=False)
    encoded = json.encode(example_object(name, called))

    def measure() -> Figure:
        validate(schema, json.decode(encoded))
        times: list[float] = []
        end = perf_counter() + seconds
        while not times or perf_counter() < end:
            objects = [json.decode(encoded) for _ in range(AT_ONCE)]
            times += [validate(schema, obj) for obj in objects]
        return {"value": quantile(times, 0.5), "count": len(times)}

    return measure


def validate(schema: CustomSchema, obj: Object) -> float:
    """Seconds it takes to accept an object."""
    began = perf_counter()
    unknown = schema.coerce(obj)
    schema.default(obj)
    errors = schema.validate(obj)
    seconds = perf_counter() - began
    if unknown or errors:
        raise LoadError(f"a good object was not accepted as it is: {unknown} {errors}")
    return seconds
