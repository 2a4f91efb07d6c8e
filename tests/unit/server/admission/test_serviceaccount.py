"""ServiceAccount: waiting for the account `default`. What Pods get is in `admission_programs`."""

import asyncio

from api_client import NS, PODS, pod, serving
from controller_api import running_controllers
from kapi.controlplane.admissionoptions import AdmissionOptions
from kapi.controlplane.controllers.serviceaccount import add_serviceaccount_controller
from kapi.server.admission.serviceaccount import DEFAULT_SECONDS
from virtual_time import run

ACCOUNTS = f"{NS}/default/serviceaccounts"


def test_a_pod_waits_for_the_account_that_a_controller_is_about_to_create():
    async def main():
        async with serving(admission_options=AdmissionOptions()) as api:
            waiting = asyncio.ensure_future(api.post(PODS, pod()))
            await asyncio.sleep(DEFAULT_SECONDS / 2)
            assert not waiting.done()
            await api.made(ACCOUNTS, {"metadata": {"name": "other"}})
            await asyncio.sleep(0.01)
            assert not waiting.done()
            await api.made(ACCOUNTS, {"metadata": {"name": "default"}})
            answer = await waiting
            assert (answer.status, answer["spec"]["serviceAccountName"]) == (201, "default")

    run(main())


def test_other_accounts_are_not_waited_for():
    async def main():
        async with serving(admission_options=AdmissionOptions()) as api:
            before = api.clock.monotonic()
            assert (await api.post(PODS, pod(serviceAccountName="gone"))).status == 403
            assert api.clock.monotonic() - before < DEFAULT_SECONDS

    run(main())


def test_a_pod_is_admitted_right_after_its_namespace_is_created():
    async def main():
        options = AdmissionOptions()
        async with running_controllers(add_serviceaccount_controller, admission_options=options) as api:
            await api.made(NS, {"metadata": {"name": "new"}})
            answer = await api.post(f"{NS}/new/pods", pod())
            assert answer.status == 201, answer

    run(main())


def test_a_template_of_a_pod_is_left_as_it_is():
    async def main():
        async with serving(admission_options=AdmissionOptions()) as api:
            template = {"metadata": {"name": "t"}, "template": pod()}
            made = await api.made(f"{NS}/default/podtemplates", template)
            assert "serviceAccountName" not in made["template"]["spec"]

    run(main())
