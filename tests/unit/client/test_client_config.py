"""Where a client's config comes from, and what it never gives away."""

import base64
import dataclasses
from pathlib import Path

import pytest

from kapi.client import ClientConfig, ConfigError
from kapi.client.auth.execplugin import ExecConfig
from kapi.client.kubeconfig import Kubeconfig
from kapi.codec import yaml


def _kubeconfig(path, *, cluster=None, user=None, context=None, current="here", name="here"):
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": "https://one:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
        "current-context": current,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(yaml.encode(document))
    return path


def _b64(text):
    return base64.b64encode(text).decode()


def test_kubeconfig_says_where_and_as_whom(tmp_path):
    path = _kubeconfig(
        tmp_path / "c",
        cluster={"certificate-authority-data": _b64(b"CA"), "tls-server-name": "api", "proxy-url": "http://p:1"},
        user={
            "client-certificate-data": _b64(b"CERT"),
            "client-key-data": _b64(b"KEY"),
            "token": "t",
            "username": "u",
            "password": "p",
            "as": "jane",
            "as-uid": "7",
            "as-groups": ["g"],
            "as-user-extra": {"scope": ["a", "b"]},
        },
        context={"namespace": "shop"},
    )
    assert ClientConfig.from_kubeconfig(path) == ClientConfig(
        server="https://one:6443",
        ca_data=b"CA",
        tls_server_name="api",
        proxy="http://p:1",
        cert_data=b"CERT",
        key_data=b"KEY",
        token="t",
        username="u",
        password="p",
        impersonate_user="jane",
        impersonate_uid="7",
        impersonate_groups=("g",),
        impersonate_extra=(("scope", ("a", "b")),),
        namespace="shop",
    )


def test_paths_are_relative_to_the_file_they_are_in(tmp_path):
    user = {"client-certificate": "pki/a.crt", "client-key": "/abs/a.key", "tokenFile": "t"}
    path = _kubeconfig(tmp_path / "deep" / "c", cluster={"certificate-authority": "../ca.crt"}, user=user)
    config = ClientConfig.from_kubeconfig(path)
    assert config.ca_file == tmp_path / "deep" / "../ca.crt"
    assert config.cert_file == tmp_path / "deep" / "pki/a.crt"
    assert config.key_file == Path("/abs/a.key")
    assert config.token_file == tmp_path / "deep" / "t"


def test_first_of_several_files_wins_entry_by_entry(tmp_path, monkeypatch):
    first = _kubeconfig(tmp_path / "1", cluster={"server": "https://first"}, current="")
    second = _kubeconfig(tmp_path / "2", cluster={"server": "https://second"}, user={"token": "second"})
    third = _kubeconfig(tmp_path / "3", name="there", cluster={"server": "https://third"}, current="there")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{first}:{second}::{third}")
    config = ClientConfig.load()
    # Entries are not mixed: the user is the first file's, which has no token.
    assert (config.server, config.token) == ("https://first", "")
    assert ClientConfig.load(context="there").server == "https://third"


def test_home_has_the_kubeconfig_when_nothing_else_does(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    _kubeconfig(tmp_path / ".kube" / "config")
    assert ClientConfig.load().server == "https://one:6443"


def test_credentials_stay_home_when_there_is_no_tls(tmp_path):
    path = _kubeconfig(tmp_path / "c", cluster={"server": "http://one"}, user={"token": "t", "exec": {"command": "x"}})
    assert not ClientConfig.from_kubeconfig(path).has_credentials


def test_auth_provider_plugins_are_refused_in_clear_words(tmp_path):
    path = _kubeconfig(tmp_path / "c", user={"auth-provider": {"name": "x"}})
    with pytest.raises(ConfigError, match='user "here": auth-provider plugins are not supported'):
        ClientConfig.from_kubeconfig(path)


def test_explicit_server_has_its_own_name(tmp_path):
    path = _kubeconfig(tmp_path / "c", cluster={"tls-server-name": "api"}, user={"token": "t"})
    config = ClientConfig.load(kubeconfig=path, server="https://two")
    assert (config.server, config.tls_server_name, config.token) == ("https://two", "", "t")


def test_explicit_credentials_replace_those_of_the_file(tmp_path):
    user = {"tokenFile": "t", "client-certificate-data": _b64(b"C"), "client-key-data": _b64(b"K")}
    path = _kubeconfig(tmp_path / "c", user=user)
    config = ClientConfig.load(kubeconfig=path, token="new", cert_file=Path("a"), key_file=Path("b"))
    assert (config.token, config.token_file, config.cert_data, config.key_data) == ("new", None, b"", b"")


def test_explicit_trust_replaces_that_of_the_file(tmp_path):
    path = _kubeconfig(tmp_path / "c", cluster={"certificate-authority-data": _b64(b"CA")})
    assert ClientConfig.load(kubeconfig=path, insecure=True).ca_data == b""
    config = ClientConfig.load(kubeconfig=path, ca_file=Path("x"))
    assert (config.ca_file, config.ca_data) == (Path("x"), b"")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"current": "", "name": "here"}, "has no current-context"),
        ({"current": "gone"}, 'context "gone" does not exist'),
        ({"context": {"cluster": "gone"}}, 'cluster "gone" does not exist'),
        ({"context": {"user": "gone"}}, 'user "gone" does not exist'),
        ({"cluster": {"server": ""}}, 'cluster "here": server is not set'),
        ({"cluster": {"server": "one:6443"}}, "must begin with https:// or http://"),
        ({"cluster": {"server": 1}}, "server must be a string"),
        ({"cluster": {"certificate-authority-data": "?"}}, "certificate-authority-data is not base64"),
        ({"cluster": {"insecure-skip-tls-verify": "yes"}}, "must be true or false"),
        ({"cluster": {"insecure-skip-tls-verify": True, "certificate-authority": "x"}}, "contradict each other"),
        ({"user": {"as-groups": "g"}}, "as-groups must be a list of strings"),
        ({"user": {"as-user-extra": []}}, None),
        ({"user": {"as-user-extra": ["x"]}}, "as-user-extra must be a mapping"),
    ],
)
def test_an_inconsistent_kubeconfig_is_reported_with_the_place(tmp_path, changes, why):
    path = _kubeconfig(tmp_path / "c", **changes)
    if why is None:
        ClientConfig.from_kubeconfig(path)
        return
    with pytest.raises(ConfigError, match=why):
        ClientConfig.from_kubeconfig(path)


@pytest.mark.parametrize("text", ["[1]", "clusters: 3", "clusters: [3]", "clusters: [{name: 1, cluster: {}}]", "a: ["])
def test_file_that_is_not_a_kubeconfig_is_named(tmp_path, text):
    path = tmp_path / "odd"
    path.write_text(text)
    with pytest.raises(ConfigError, match=str(path)):
        ClientConfig.from_kubeconfig(path)


def test_missing_file_is_an_error_only_when_it_was_named(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        ClientConfig.load(kubeconfig=tmp_path / "gone")
    assert Kubeconfig.load([tmp_path / "gone"]).current_context == ""


def test_nothing_configured_says_what_to_do():
    with pytest.raises(ConfigError, match="set KUBECONFIG"):
        ClientConfig.load()
    with pytest.raises(ConfigError, match="there is no kubeconfig"):
        ClientConfig.load(context="x")


def test_address_alone_is_enough():
    assert ClientConfig.load(server="https://x", token="t") == ClientConfig("https://x", token="t")


def _account(folder, **files):
    for name, text in {"token": "t", "ca.crt": "CA", "namespace": "shop\n", **files}.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_pod_has_its_service_account(tmp_path, host, url):
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    config = ClientConfig.in_cluster(_account(tmp_path), environ)
    assert config == ClientConfig(url, ca_file=tmp_path / "ca.crt", token_file=tmp_path / "token", namespace="shop")


def test_outside_of_a_pod_there_is_no_account(tmp_path):
    with pytest.raises(ConfigError, match="not in a pod"):
        ClientConfig.in_cluster(_account(tmp_path), {})
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigError, match="no service account token"):
        ClientConfig.in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "x", "KUBERNETES_SERVICE_PORT": "1"})


MARK = "hunter2"
SAMPLES = {
    "str": MARK,
    "bytes": MARK.encode(),
    "Path | None": Path(MARK),
    "bool": True,
    "float": 77.0,
    "int": 77,
    "ExecConfig | None": ExecConfig(MARK),
}
ABOUT_THE_SERVER = {
    "server",
    "ca_file",
    "ca_data",
    "namespace",
    "tls_server_name",
    "insecure",
    "proxy",
    "timeout",
    "connect_timeout",
    "user_agent",
    "qps",
    "burst",
    "max_response_bytes",
    "max_event_bytes",
    "max_list_bytes",
    "max_pages",
}


def _filled():
    """A config with every field set, so that a new field cannot be forgotten here."""
    values = {field.name: SAMPLES.get(field.type) for field in dataclasses.fields(ClientConfig)}
    values |= {"server": "https://x", "insecure": False}
    values |= {"impersonate_groups": (MARK,), "impersonate_extra": ((MARK, (MARK,)),)}
    assert None not in values.values()
    return ClientConfig(**values)


def test_anonymous_copy_keeps_nothing_but_what_is_about_the_server():
    full, anonymous = _filled(), _filled().anonymous()
    for field in dataclasses.fields(ClientConfig):
        kept = field.name in ABOUT_THE_SERVER
        assert getattr(anonymous, field.name) == (getattr(full, field.name) if kept else field.default), field.name
    assert full.has_credentials
    assert not anonymous.has_credentials


def test_printing_a_config_shows_no_secret():
    secrets = {"token": MARK, "password": MARK, "key_data": MARK.encode(), "cert_data": MARK.encode()}
    config = ClientConfig("https://x", username="u", **secrets)
    for text in (repr(config), str(config), f"{config}"):
        assert MARK not in text
        assert "token=<hidden>" in text
        assert "username='u'" in text


# -- exec plugins -----------------------------------------------------------------------------------------------------

PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sign-in", "interactiveMode": "Never"}


def _exec(tmp_path, cluster=None, **more):
    path = _kubeconfig(tmp_path / "c", cluster=cluster, user={"exec": {**PLUGIN, **more}})
    return ClientConfig.from_kubeconfig(path).exec


def test_exec_plugin_is_read(tmp_path):
    extensions = [
        {"name": "other", "extension": {"x": 1}},
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "here"}},
    ]
    plugin = _exec(
        tmp_path,
        cluster={"extensions": extensions},
        args=["--for", "me"],
        env=[{"name": "A", "value": "1"}],
        installHint="get it \x1b[31mthere",
        provideClusterInfo=True,
    )
    assert plugin == ExecConfig(
        command="sign-in",
        args=("--for", "me"),
        env=(("A", "1"),),
        install_hint="get it [31mthere",
        provide_cluster_info=True,
        interactive_mode="Never",
        cluster_config={"audience": "here"},
    )


def test_only_a_command_with_a_folder_is_a_path(tmp_path):
    assert _exec(tmp_path, command="./bin/sign-in").command == str(tmp_path / "bin/sign-in")
    assert _exec(tmp_path, command="/opt/sign-in").command == "/opt/sign-in"
    assert _exec(tmp_path).command == "sign-in"


def test_old_version_need_not_say_how_interactive_it_is(tmp_path):
    beta = "client.authentication.k8s.io/v1beta1"
    assert _exec(tmp_path, apiVersion=beta, interactiveMode=None).interactive_mode == "IfAvailable"
    with pytest.raises(ConfigError, match="interactiveMode must be given"):
        _exec(tmp_path, interactiveMode=None)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"command": ""}, "needs a command"),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "apiVersion .* is not known"),
        ({"interactiveMode": "Sometimes"}, "interactiveMode must be one of"),
        ({"args": "x"}, "args must be a list"),
        ({"env": {"A": "1"}}, "env must be a list"),
        ({"provideClusterInfo": "yes"}, "provideClusterInfo must be true or false"),
    ],
)
def test_exec_plugin_that_does_not_add_up_is_named(tmp_path, fields, what):
    with pytest.raises(ConfigError, match=f'user "here".*{what}'):
        _exec(tmp_path, **fields)


# -- what is never printed --------------------------------------------------------------------------------------------


def test_printed_config_keeps_every_secret():
    config = ClientConfig(
        "https://x",
        cert_data=b"SECRET",
        key_data=b"SECRET",
        token="SECRET",
        password="SECRET",
        proxy="http://user:SECRET@proxy:3128",
        exec=ExecConfig("sign-in", args=("SECRET",), env=(("A", "SECRET"),), cluster_config={"a": "SECRET"}),
    )
    for text in (repr(config), str(config), repr(config.exec)):
        assert "SECRET" not in text
    assert "sign-in" in repr(config)
    assert "proxy:3128" in repr(config)
    assert "https://x" in repr(config)


def test_address_with_a_password_is_refused_without_showing_it():
    for server in ("https://user:SECRET@x", "ftp://user:SECRET@x"):
        with pytest.raises(ConfigError) as raised:
            ClientConfig(server)
        assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize("server", ["https://", "https://x:port", "https://[::1"])
def test_an_address_without_a_host_is_refused(server):
    with pytest.raises(ConfigError, match="names no host"):
        ClientConfig(server)


# -- flags ------------------------------------------------------------------------------------------------------------


def test_flags_name_a_server_a_kubeconfig_or_both(tmp_path):
    path = _kubeconfig(tmp_path / "c", user={"token": "t"})
    assert ClientConfig.from_flags(kubeconfig=path).server == "https://one:6443"
    both = ClientConfig.from_flags("https://two", path)
    assert (both.server, both.token) == ("https://two", "t")
    assert ClientConfig.from_flags("https://two") == ClientConfig("https://two")
    assert ClientConfig.from_flags("127.0.0.1:8080").server == "http://127.0.0.1:8080"


def test_no_flags_mean_the_pods_account_whatever_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(_kubeconfig(tmp_path / "c")))
    with pytest.raises(ConfigError, match="not in a pod"):
        ClientConfig.from_flags()
