"""The executables of `kapi envtest-assets`, started with the flags that controller-runtime's envtest passes.

tests/wire/test_envtest_suite.py runs a whole suite in Go on them.
"""

import asyncio
import contextlib
import os
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

import certificates
from kapi import Client, ClientConfig, ObjectMeta
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.errors import Forbidden
from kapi.cli import kubeapiserver
from kapi.cli.command import Parser
from kapi.cli.main import add_up_options, run

SECONDS = 60


@pytest.fixture(scope="module")
def assets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assets")
    assert run(["envtest-assets", str(folder)]) == 0
    return folder


@contextlib.contextmanager
def started(*command, line):
    """A process that has printed a line; what the line matched."""
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            printed = process.stdout.readline()
            found = re.match(line, printed)
            assert found, (printed, process.stderr.read() if process.poll() is not None else "")
            yield process, found[1]
        finally:
            process.terminate()
            process.wait(SECONDS)
    assert process.returncode == 0


def test_the_folder_is_printed_and_has_the_executables(tmp_path, capsys, monkeypatch):
    assert run(["envtest-assets", str(tmp_path / "a" / "b")]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/a/b\n"
    names = ["etcd", "kube-apiserver", "kubectl"]
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == names
    assert all(os.access(tmp_path / "a" / "b" / name, os.X_OK) for name in names)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run(["envtest-assets"]) == 0
    assert Path(capsys.readouterr().out.strip()).is_relative_to(tmp_path / "cache" / "kapi")


def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["envtest-assets", str(tmp_path / "file")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_help_names_what_envtest_may_pass_and_not_what_it_must_not(assets):
    """envtest looks for --insecure-port, which is passed to old releases, and --unsafe-no-fsync of etcd."""
    for name, flag in {"kube-apiserver": "insecure-port", "etcd": "unsafe-no-fsync"}.items():
        done = subprocess.run([assets / name, "--help"], capture_output=True, text=True, check=True, timeout=SECONDS)
        assert not re.search(rf"(?m)^\s*--{flag}\b", done.stdout)
        assert re.search(r"(?m)^\s*--(data-dir|secure-port)\b", done.stdout)


def test_every_flag_that_is_passed_on_is_one_of_kapi_up():
    parser = Parser("kapi up", "", "")
    add_up_options(parser)
    missing = [flag for flag in kubeapiserver.PASSED if f"--{flag}" not in parser._option_string_actions]
    assert missing == []


def test_flags_are_translated_and_those_that_are_unknown_are_named(tmp_path):
    (tmp_path / "apiserver.crt").write_text("")
    (tmp_path / "apiserver.key").write_text("")
    given, warnings = kubeapiserver.translate(
        [
            "--secure-port=1234",
            "--bind-address",
            "::1",
            f"--cert-dir={tmp_path}",
            "--etcd-servers=http://127.0.0.1:2379",
            "--allow-privileged=true",
            "--event-ttl=1h0m30s",
            "--advertise-address=127.0.0.1",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://a/",
            "--service-account-issuer=https://b/",
            "--feature-gates=A=true,B=false",
            "--profiling",
        ],
        tmp_path / "data",
    )
    assert given == [
        f"--data-dir={tmp_path}/data",
        "--bind=[::1]:1234",
        "--storage=memory",
        "--log-level=warning",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://a/",
        "--service-account-issuer=https://b/",
        "--event-ttl=3630.0",
        f"--tls-cert-file={tmp_path}/apiserver.crt",
        f"--tls-private-key-file={tmp_path}/apiserver.key",
    ]
    assert warnings == [
        "--feature-gates is not a flag of Kapi, and is ignored",
        "--profiling is not a flag of Kapi, and is ignored",
    ]


def test_a_certificate_that_is_named_comes_before_that_of_the_folder(tmp_path):
    (tmp_path / "apiserver.crt").write_text("")
    (tmp_path / "apiserver.key").write_text("")
    named = ["--tls-cert-file=a", "--tls-private-key-file=b"]
    given, _ = kubeapiserver.translate([f"--cert-dir={tmp_path}", *named], tmp_path)
    assert given[-2:] == named


def test_etcd_is_healthy_where_it_is_told_to_listen_and_ends_when_told(assets):
    flags = ["--listen-client-urls=http://127.0.0.1:0", "--listen-peer-urls=http://127.0.0.1:0", "--data-dir=/nowhere"]
    with started(assets / "etcd", *flags, line=r"Listening on (\S+)\n") as (_, url):
        for _ in range(2):
            with urllib.request.urlopen(f"{url}/health", timeout=SECONDS) as response:
                assert response.read() == b'{"health":"true","reason":""}'
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/v3/kv/range", timeout=SECONDS)


def test_kubectl_is_the_one_that_is_installed_else_our_own(assets, tmp_path):
    real = tmp_path / "bin" / "kubectl"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\necho "real $1 $2"\n')
    real.chmod(0o755)
    command, path = [assets / "kubectl", "version", "a b"], "/usr/bin:/bin"
    done = subprocess.run(
        command, env={"PATH": f"{assets}:{real.parent}:{path}"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "real version a b\n"
    # Another folder of the same scripts is not a real one; neither is called for ever.
    again = tmp_path / "again"
    assert run(["envtest-assets", str(again)]) == 0
    done = subprocess.run(
        [assets / "kubectl", "version"],
        env={"PATH": f"{assets}:{again}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+\S* \(.*\)\n", done.stdout)


def test_kube_apiserver_serves_the_certificate_and_the_users_that_it_is_given(assets, tmp_path):
    """As envtest does it: an authority for the server, one for users, a key for service accounts, ports of its own."""
    serving = certificates.issue("envtest", authority=True)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    serving.issue("localhost", usages=(ExtendedKeyUsageOID.SERVER_AUTH,), more=((names, False),)).write(
        tmp_path, "apiserver"
    )
    users = certificates.issue("users", authority=True)
    users.write(tmp_path, "client-ca")
    accounts = certificates.issue("accounts", authority=True).write(tmp_path, "sa-signer")
    (tmp_path / "serving-ca.crt").write_bytes(serving.pem)
    flags = [
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        f"--cert-dir={tmp_path}",
        f"--client-ca-file={tmp_path}/client-ca.crt",
        "--disable-admission-plugins=ServiceAccount",
        "--etcd-servers=http://127.0.0.1:1",
        "--secure-port=0",
        "--service-account-issuer=https://127.0.0.1:1/",
        f"--service-account-key-file={accounts.certificate}",
        f"--service-account-signing-key-file={accounts.key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--watch-cache=false",
    ]

    def config(url, name, *groups):
        user = users.issue(name, groups).write(tmp_path, name)
        return ClientConfig(
            server=url.replace("127.0.0.1", "localhost"),
            ca_file=tmp_path / "serving-ca.crt",
            cert_file=user.certificate,
            key_file=user.key,
        )

    async def use(url):
        async with Client(config(url, "admin", "system:masters")) as admin, Client(config(url, "alice")) as alice:
            await admin.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"x": "1"}))
            with pytest.raises(Forbidden, match='User "alice" cannot get'):
                await alice.get(ConfigMap, "a", namespace="default")

    with started(assets / "kube-apiserver", *flags, line=r"Ready at (https://127\.0\.0\.1:\d+)\.") as (process, url):
        asyncio.run(asyncio.wait_for(use(url), SECONDS))
        process.terminate()  # so that what it printed ends
        assert process.stderr.read().startswith("kube-apiserver (Kapi): --watch-cache is not a flag of Kapi")
