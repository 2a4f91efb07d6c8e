"""Credentials from programs: real ones, written by the test."""

import asyncio
import base64
import dataclasses
import datetime as dt
import json
import os
import sys

import pytest

from kapi.api import errors
from kapi.base.clock import ManualClock
from kapi.client import ClientConfig, ConfigError, RESTClient
from kapi.client.auth.credentials import Credentials
from kapi.client.auth.execplugin import ClusterInfo, ExecConfig, ExecPlugin

V1 = "client.authentication.k8s.io/v1"
BETA = "client.authentication.k8s.io/v1beta1"


@pytest.fixture
def program(tmp_path):
    """Writes a plugin: Python that is given `info`, what it was told, and `runs`, how often it ran before."""

    def write(body):
        path = tmp_path / "sign-in"
        counter = tmp_path / "runs"
        path.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys, time\n"
            "from pathlib import Path\n"
            f"counter = Path({str(counter)!r})\n"
            "runs = len(counter.read_text()) if counter.exists() else 0\n"
            "counter.write_text('x' * (runs + 1))\n"
            "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
            "def give(**status):\n"
            "    print(json.dumps({'kind': 'ExecCredential', 'apiVersion': info['apiVersion'], 'status': status}))\n"
            f"{body}\n"
        )
        path.chmod(0o700)
        return str(path)

    return write


def _plugin(command, *, clock=None, **fields):
    config = ExecConfig(command, **{"interactive_mode": "Never", **fields})
    cluster = ClusterInfo("https://x", tls_server_name="api", ca_data=b"CA", proxy="http://p:1")
    return ExecPlugin(config, lambda: cluster, clock=clock)


def _ask(plugin):
    return asyncio.run(plugin.credentials())


def _fails(command, **fields):
    with pytest.raises(ConfigError) as raised:
        _ask(_plugin(command, **fields))
    return str(raised.value)


def test_token_and_certificate_are_taken(program):
    body = "give(token='t', clientCertificateData='C', clientKeyData='K', expirationTimestamp='2026-01-01T01:00:00Z')"
    given = _ask(_plugin(program(body)))
    assert (given.token, given.certificate, given.key) == ("t", b"C", b"K")
    assert given.expires == dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC)


def test_secrets_of_a_plugin_are_not_printed(program):
    body = "give(token='SECRET', clientCertificateData='SECRET', clientKeyData='SECRET')"
    assert "SECRET" not in repr(_ask(_plugin(program(body))))


@pytest.mark.parametrize("version", [V1, BETA])
def test_a_plugin_gets_its_configuration_in_the_environment(program, version):
    told = json.loads(_ask(_plugin(program("give(token=json.dumps(info))"), api_version=version)).token)
    assert told == {"kind": "ExecCredential", "apiVersion": version, "spec": {"interactive": False}}


def test_a_plugin_gets_the_cluster_if_provideClusterInfo_is_set(program):
    plugin = _plugin(
        program("give(token=json.dumps(info['spec']['cluster']))"),
        provide_cluster_info=True,
        cluster_config={"audience": "me"},
    )
    assert json.loads(_ask(plugin).token) == {
        "server": "https://x",
        "tls-server-name": "api",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
        "proxy-url": "http://p:1",
        "config": {"audience": "me"},
    }


def test_arguments_and_environment_reach_the_plugin_as_they_are(program):
    plugin = _plugin(
        program("give(token=json.dumps([sys.argv[1:], os.environ['A'], bool(os.environ.get('PATH'))]))"),
        args=("$HOME", "a b", "; rm -rf /"),
        env=(("A", "$(id)"),),
    )
    assert json.loads(_ask(plugin).token) == [["$HOME", "a b", "; rm -rf /"], "$(id)", True]


def test_what_a_plugin_says_on_standard_error_is_passed_on(program, capfd):
    _ask(_plugin(program("print('open your browser', file=sys.stderr); give(token='t')")))
    assert capfd.readouterr() == ("", "open your browser\n")


def test_plugin_that_must_not_ask_cannot(program):
    assert _ask(_plugin(program("give(token=repr(sys.stdin.read()))"))).token == "''"


def test_plugin_that_must_ask_needs_a_terminal(program, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert "standard input is not a terminal" in _fails(program("give(token='t')"), interactive_mode="Always")
    assert _ask(_plugin(program("give(token='t')"), interactive_mode="IfAvailable")).token == "t"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("sys.exit(3)", "failed with exit code 3"),
        ("print('SECRET')", "did not print an ExecCredential"),
        ("print('[]')", "did not print an ExecCredential"),
        ("print(json.dumps({'kind': 'ExecCredential', 'apiVersion': 'x', 'status': 'SECRET'}))", "another version"),
        ("print(json.dumps({'kind': 'ExecCredential', 'apiVersion': info['apiVersion']}))", "did not print a status"),
        ("give()", "neither a token nor a certificate"),
        ("give(clientKeyData='SECRET')", "a certificate or a key, not both"),
        ("give(token='SECRET', expirationTimestamp='soon')", "expirationTimestamp that is no time"),
        ("give(token='x' * 2000000)", "printed more than"),
    ],
)
def test_plugin_that_fails_is_named_and_its_output_is_not(program, body, what):
    text = _fails(program(body))
    assert text.startswith("getting credentials: exec: ")
    assert what in text
    assert "sign-in" in text
    assert "SECRET" not in text


def test_plugin_that_prints_too_much_is_not_waited_for_with_a_full_buffer(program):
    """Its child survives it, and fills the buffer of the pipe that nothing reads any more."""
    assert "printed more than" in _fails(program("import os; os.fork(); give(token='x' * 4000000)"))


def test_missing_plugin_comes_with_a_hint():
    text = _fails("kapi-no-such-plugin", install_hint="get it there")
    assert text == "getting credentials: exec: executable kapi-no-such-plugin not found; get it there"


def test_file_that_is_no_program_is_named(program, tmp_path):
    path = program("give(token='t')")
    (tmp_path / "sign-in").write_text("#!/nowhere/interpreter\n")
    assert "sign-in" in _fails(path)


def test_credentials_are_kept_until_they_expire(program):
    clock = ManualClock(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    plugin = _plugin(
        program("give(token=str(runs), expirationTimestamp=f'2026-01-01T0{runs + 1}:00:00Z')"), clock=clock
    )
    tokens = []
    for seconds in (0, 3599, 1, 10):
        clock.advance(seconds)
        tokens.append(_ask(plugin).token)
    assert tokens == ["0", "0", "1", "1"]


def test_callers_at_the_same_time_share_one_run(program):
    async def main():
        plugin = _plugin(program("give(token=str(runs))"))
        return [given.token for given in await asyncio.gather(*(plugin.credentials() for _ in range(5)))]

    assert asyncio.run(main()) == ["0"] * 5


def test_rejected_credentials_are_replaced_once(program):
    async def main():
        plugin = _plugin(program("give(token=str(runs))"))
        first = await plugin.credentials()
        plugin.reject(first)
        second = await plugin.credentials()
        plugin.reject(first)  # too late: newer ones are in use
        return first.token, second.token, (await plugin.credentials()).token

    assert asyncio.run(main()) == ("0", "1", "1")


def test_a_cancelled_caller_does_not_stop_the_plugin_for_the_others(program, tmp_path):
    gate = tmp_path / "gate"

    async def main():
        plugin = _plugin(program(f"open({str(gate)!r}).read(); give(token=str(runs))"))
        impatient = asyncio.create_task(plugin.credentials())
        patient = asyncio.create_task(plugin.credentials())
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        await asyncio.to_thread(gate.write_text, "go")  # waits until the plugin reads
        return (await patient).token

    os.mkfifo(gate)
    assert asyncio.run(main()) == "0"


def test_closing_stops_a_plugin_that_is_running(program, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    async def main():
        config = ClientConfig("https://x", exec=ExecConfig(program(f"open({str(gate)!r}).read(); time.sleep(600)")))
        credentials = Credentials(config)
        waiting = asyncio.create_task(credentials.present())
        await asyncio.to_thread(gate.write_text, "go")  # waits until the plugin reads
        await credentials.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())


def test_own_credentials_go_before_a_plugin():
    for own in ({"token": "t"}, {"username": "u"}):
        config = ClientConfig("https://x", exec=ExecConfig("kapi-no-such-plugin"), **own)
        assert asyncio.run(Credentials(config).present()).headers
    with pytest.raises(ConfigError, match="kapi-no-such-plugin not found"):
        asyncio.run(Credentials(ClientConfig("https://x", exec=ExecConfig("kapi-no-such-plugin"))).present())


# -- against a server -------------------------------------------------------------------------------------------------


def _who(config):
    async def main():
        async with RESTClient(config) as rest:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            answer = await rest.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
            return answer["status"]["userInfo"]["username"]

    return asyncio.run(main())


def test_certificate_of_a_plugin_opens_the_door(program, admin):
    body = f"give(clientCertificateData={admin.cert_data.decode()!r}, clientKeyData={admin.key_data.decode()!r})"
    bare = admin.anonymous()
    assert _who(dataclasses.replace(bare, exec=ExecConfig(program(body)))) == _who(admin)


def test_certificate_that_is_none_is_named(program, admin):
    command = program("give(clientCertificateData='SECRET', clientKeyData='SECRET')")
    with pytest.raises(ConfigError, match="the certificate of the exec plugin cannot be used") as raised:
        _who(dataclasses.replace(admin.anonymous(), exec=ExecConfig(command)))
    assert "SECRET" not in str(raised.value)


def test_refused_token_makes_the_plugin_run_again(program, admin):
    good = f"dict(clientCertificateData={admin.cert_data.decode()!r}, clientKeyData={admin.key_data.decode()!r})"
    command = program(f"give(**({good} if runs else dict(token='stale')))")
    assert _who(dataclasses.replace(admin.anonymous(), exec=ExecConfig(command))) == _who(admin)


def test_token_that_stays_refused_is_the_servers_to_explain(program, admin, tmp_path):
    command = program("give(token='stale')")
    with pytest.raises(errors.Unauthorized):
        _who(dataclasses.replace(admin.anonymous(), exec=ExecConfig(command)))
    assert (tmp_path / "runs").read_text() == "xx"
