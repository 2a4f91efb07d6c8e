"""The users of the kopf webhooks: they start them, create ConfigMaps, and see what becomes of them."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from kubernetes import client, config

SECONDS = 45
namespace = sys.argv[1]
config.load_kube_config()
core, admission = client.CoreV1Api(), client.AdmissionregistrationV1Api()

# fmt: off
subprocess.run(
    ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=webhook",
     "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "tls.key", "-out", "tls.crt"],
    check=True, capture_output=True,
)
# fmt: on


def create(name: str, **data: str) -> client.V1ConfigMap:
    metadata = client.V1ObjectMeta(name=name, labels={"kopf": "yes"})
    return core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=metadata, data=data))


def until_called() -> client.V1ConfigMap:
    """Create ConfigMaps until the webhooks are registered and called."""
    end = time.monotonic() + SECONDS
    for number in range(10_000):
        made = create(f"try-{number}", size="small")
        if "touched" in made.metadata.labels:
            return made
        assert time.monotonic() < end, "the webhooks are not called"
        time.sleep(0.1)
    raise AssertionError


core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
command = [sys.executable, "-m", "kopf", "run", str(Path(__file__).with_name("webhooks_kopf.py")), "-n", namespace]
operator = subprocess.Popen(command)
try:
    print("labelled", until_called().metadata.labels["touched"])
    try:
        create("large", size="huge")
    except client.ApiException as error:
        print("refused", error.status)
finally:
    operator.send_signal(signal.SIGTERM)
    print("stopped", operator.wait(SECONDS))
for kind in ("mutating", "validating"):
    getattr(admission, f"delete_{kind}_webhook_configuration")("kopf.example.dev")
