"""The operator as a process of its own, on a control plane in another: it starts, reconciles the samples, and ends."""

import asyncio
import signal
import sys
from functools import partial

import pytest
from kapi.testing import Environment
from samples import ROOT, is_ready, sample

from vpc.generated import KINDS, RECONCILED


@pytest.mark.skipif(not RECONCILED, reason="the operator has no controller yet")
async def test_the_program_reconciles_the_samples() -> None:
    async with Environment.process(crds=KINDS) as env:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "vpc", f"--kubeconfig={await env.kubeconfig()}", "--leader-elect", cwd=ROOT
        )
        try:
            for kind in RECONCILED:
                await env.client.create(sample(kind, "smoke"))
            for kind in RECONCILED:
                await env.eventually(partial(is_ready, env.client, kind, "smoke"), timeout=60)
        finally:
            process.send_signal(signal.SIGTERM)
            status = await process.wait()
        assert status == 0
