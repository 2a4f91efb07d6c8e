"""The file of --authorization-config is read again when it changes; one with mistakes changes nothing."""

import asyncio
import json
import os

import pytest
from prometheus_client import CollectorRegistry

from api_client import served
from kapi.api.user import User
from kapi.controlplane.authorization import Authorization
from kapi.controlplane.authorizationoptions import AuthorizationOptions
from kapi.server.authz.attributes import Attributes
from kapi.server.filewatch import FileWatch

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1/'}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
"""
RBAC = {"type": "RBAC", "name": "rbac"}
ALLOW = {"type": "AlwaysAllow", "name": "alwaysallow"}
NODE = {"type": "Node", "name": "node"}
GET = Attributes(User("bob"), "get", "", "v1", "pods", "", "default", "a")


class Configured:
    """An `Authorization` with a configuration file, which a test changes."""

    def __init__(self, api, folder):
        self._file = folder / "authorization.yaml"
        self._hook = folder / "webhook.yaml"
        self._hook.write_text(KUBECONFIG)
        self._written = 0
        self.write(RBAC)
        options = AuthorizationOptions((), config_file=self._file)
        self.authorization = Authorization(options, api.catalog, clock=api.clock)
        self.registry = CollectorRegistry()
        self._files = FileWatch(self.registry)
        self.authorization.watch(self._files)

    def webhook(self, **changes):
        settings = {
            "authorizedTTL": "1m",
            "unauthorizedTTL": "10s",
            "timeout": "3s",
            "subjectAccessReviewVersion": "v1",
            "failurePolicy": "Deny",
            "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(self._hook)},
        }
        return {"type": "Webhook", "name": "hook", "webhook": {**settings, **changes}}

    def write(self, *authorizers, text=None):
        kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration"}
        self._file.write_text(text or json.dumps({**kind, "authorizers": authorizers}))
        # Two writes within one tick of the file system's clock would look the same.
        self._written += 1
        os.utime(self._file, (self._written, self._written))

    def reloads(self, status):
        labels = {"file": "authorization-config", "status": status}
        return self.registry.get_sample_value("kapi_file_reloads_total", labels) or 0

    def reload(self, *authorizers, text=None):
        """Change the file; returns True if that was taken over."""
        before = self.reloads("success")
        self.write(*authorizers, text=text)
        self._files.check()
        return self.reloads("success") > before

    async def allows(self):
        authorizer = self.authorization.authorizer
        return (authorizer.decide(GET) or await authorizer.authorize(GET)).allowed


@pytest.fixture
def configured(tmp_path):
    """Return a decorator that runs `check(configured)`."""

    def decorate(check):
        @served
        async def run(api):
            one = Configured(api, tmp_path)
            try:
                await check(one)
            finally:
                await one.authorization.close()

        run()

    return decorate


def test_authorizers_that_are_added_and_removed_count_at_once(configured):
    @configured
    async def check(one):
        assert not await one.allows()
        assert one.reload(RBAC, ALLOW)
        assert await one.allows()
        assert not one.reload(ALLOW)
        assert await one.allows()


@pytest.mark.parametrize(
    ("authorizers", "text"),
    [
        pytest.param([ALLOW], None, id="a type is missing"),
        pytest.param([RBAC, NODE, ALLOW], None, id="a type is new"),
        pytest.param([{"type": "RBAC", "name": "rbac", "unknown": 1}, ALLOW], None, id="an unknown field"),
        pytest.param([], None, id="no authorizers"),
        pytest.param([], "authorizers: [", id="no YAML"),
    ],
)
def test_a_file_with_mistakes_changes_nothing(configured, authorizers, text):
    @configured
    async def check(one):
        assert not one.reload(*authorizers, text=text)
        assert one.reloads("failure") == 1
        assert not await one.allows()
        assert one.reload(RBAC, ALLOW)


def test_a_webhook_whose_kubeconfig_is_missing_changes_nothing(configured):
    @configured
    async def check(one):
        connection = {"type": "KubeConfigFile", "kubeConfigFile": "/nonexistent"}
        assert not one.reload(RBAC, one.webhook(connectionInfo=connection))
        assert not one.authorization.authorizer.may_wait


def test_webhooks_are_closed_a_reload_after_they_were_replaced(configured):
    @configured
    async def check(one):
        assert one.reload(one.webhook(), RBAC)
        assert one.authorization.authorizer.may_wait
        (webhook,) = one.authorization._webhooks
        closed = []
        close = webhook.close

        async def close_and_note():
            closed.append(webhook)
            await close()

        webhook.close = close_and_note
        assert one.reload(RBAC)
        assert not one.authorization.authorizer.may_wait
        # A request may still wait for it.
        await asyncio.sleep(0)
        assert closed == []
        assert one.reload(RBAC, ALLOW)
        await asyncio.wait(one.authorization._closing)
        assert closed == [webhook]


def test_the_same_configuration_again_keeps_the_authorizers(configured):
    @configured
    async def check(one):
        assert one.reload(RBAC, one.webhook())
        before = one.authorization._webhooks
        assert one.reload(RBAC, one.webhook())
        assert one.authorization._webhooks is before
