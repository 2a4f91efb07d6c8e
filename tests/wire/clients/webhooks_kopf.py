"""An operator on kopf that is a mutating and a validating webhook, and registers itself. Run by `kopf run`."""

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: object) -> None:
    """Serve on loopback, with the certificate in the working directory."""
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1", host="127.0.0.1", cafile="tls.crt", certfile="tls.crt", pkeyfile="tls.key"
    )
    settings.admission.managed = "kopf.example.dev"


@kopf.on.mutate("configmaps", labels={"kopf": "yes"})
def label(patch: kopf.Patch, warnings: list[str], **_: object) -> None:
    """Label what is created or changed."""
    patch.metadata.labels["touched"] = "yes"
    warnings.append("kopf was here")


@kopf.on.validate("configmaps", labels={"kopf": "yes"})
def check(body: kopf.Body, **_: object) -> None:
    """Refuse what is too large."""
    if body.get("data", {}).get("size") == "huge":
        raise kopf.AdmissionError("too large", code=418)
