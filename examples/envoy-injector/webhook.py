"""Form 2: a mutating webhook, which registers itself.

kubectl apply -f configmap.yaml
python webhook.py --kubeconfig ~/.kube/config
kubectl apply -f pod.yaml
"""

import argparse
import asyncio
import signal

import msgspec
from injection import asks_for_envoy, injected, read_config

from kapi import Client, ClientConfig
from kapi.api.builtin.core_v1 import Pod
from kapi.controller.webhook import AdmissionRequest, Match, Registration, SelfSigned, WebhookServer

ONCE = Match(operations=["CREATE"])


def injector(client: Client, *, port: int = 0, config_namespace: str = "default") -> WebhookServer:
    """Return the server, which the API server reaches on this machine."""
    registration = Registration(client, "envoy-injector", url=f"https://127.0.0.1:{port}", removes=True)
    server = WebhookServer("127.0.0.1", port, certificates=SelfSigned(["127.0.0.1"]), registration=registration)

    @server.mutating(Pod, match=ONCE)
    async def inject(pod: Pod, request: AdmissionRequest[Pod]) -> Pod | None:
        plain = msgspec.to_builtins(pod)
        if not asks_for_envoy(plain):
            return None
        return msgspec.convert(injected(plain, await read_config(client, config_namespace)), Pod)

    return server


async def main(config: ClientConfig, port: int) -> None:
    async with Client(config) as client:
        server = injector(client, port=port)
        for number in (signal.SIGINT, signal.SIGTERM):
            # The configuration is deleted when the server stops: without its webhook no Pod could be created.
            asyncio.get_running_loop().add_signal_handler(number, server.stop)
        await server.run()


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--kubeconfig", help="else $KUBECONFIG, ~/.kube/config, or the pod's account")
    flags.add_argument("--port", type=int, default=9443)
    given = flags.parse_args()
    asyncio.run(main(ClientConfig.load(kubeconfig=given.kubeconfig), given.port))
