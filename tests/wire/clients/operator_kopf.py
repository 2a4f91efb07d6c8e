"""A small operator on kopf: Lamps are switched on in their status, follow their spec, and are switched off in the end.

Run by `kopf run`. Creating, changing and deleting each have a handler; a finalizer keeps a Lamp until the last is done.
"""

import kopf


@kopf.on.create("lamps")
def switch_on(spec: kopf.Spec, patch: kopf.Patch, **_: object) -> dict[str, int]:
    patch.status["lit"] = spec["bulbs"]
    return {"watts": spec["watts"]}


@kopf.on.update("lamps", field="spec.bulbs")
def follow(body: kopf.Body, old: int, new: int, patch: kopf.Patch, **_: object) -> None:
    kopf.info(body, reason="Followed", message=f"from {old} to {new}")
    patch.status["lit"] = new
    patch.status["before"] = old


@kopf.on.delete("lamps")
def switch_off(retry: int, **_: object) -> None:
    # Only the second attempt succeeds, so that a Lamp is seen between its deletion and its end.
    if retry == 0:
        raise kopf.TemporaryError("the switch is stuck", delay=0.1)
