"""The kubeconfigs of webhooks that flags name."""

import base64

import pytest
import yaml

from kapi.server.configfile import ConfigFileError
from kapi.server.webhooks.kubeconfig import read_webhook_config


def config(cluster, user=None, **changes):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://hook.example.com/x", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **changes,
    }


def read(tmp_path, document):
    path = tmp_path / "hook.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return read_webhook_config(path)


def refused(tmp_path, document):
    with pytest.raises(ConfigFileError) as caught:
        read(tmp_path, document)
    return str(caught.value).partition(": ")[2]


def encoded(text):
    return base64.b64encode(text).decode()


def test_everything_in_the_file(tmp_path):
    user = {"client-certificate-data": encoded(b"CERT"), "client-key-data": encoded(b"KEY"), "token": "t"}
    cluster = {"certificate-authority-data": encoded(b"CA"), "tls-server-name": "other.example.com"}
    endpoint = read(tmp_path, config(cluster, user))
    assert endpoint.url == "https://hook.example.com/x"
    assert endpoint.authority == b"CA"
    assert endpoint.server_name == "other.example.com"
    assert endpoint.certificate == b"CERT\nKEY"
    assert endpoint.token == "t"


def test_files_are_found_next_to_the_kubeconfig(tmp_path):
    for name in ("ca.crt", "me.crt", "me.key", "token"):
        (tmp_path / name).write_text(f"{name}\n")
    user = {"client-certificate": "me.crt", "client-key": "me.key", "tokenFile": str(tmp_path / "token")}
    endpoint = read(tmp_path, config({"certificate-authority": "ca.crt"}, user))
    assert (endpoint.authority, endpoint.certificate) == (b"ca.crt\n", b"me.crt\n\nme.key\n")
    assert endpoint.token == "token"


def test_the_only_context_needs_no_name(tmp_path):
    document = config({}, contexts=[{"context": {"cluster": "c"}}])
    del document["current-context"]
    assert read(tmp_path, document).token == ""


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            config({"server": "http://x"}),
            'clusters[0].cluster.server: Invalid value: "http://x": must begin with https://',
        ),
        (config({"server": ""}), "clusters[0].cluster.server: Required value"),
        (config({}, **{"current-context": "other"}), 'current-context: Not found: "other"'),
        (config({}, contexts=[]), 'current-context: Not found: "x"'),
        (config({}, clusters=[]), 'contexts[0].context.cluster: Not found: "c"'),
        (config({}, users=[]), 'contexts[0].context.user: Not found: "u"'),
        (config({}, {"client-certificate-data": encoded(b"x")}), "users[0].user.client-key: Required value"),
        (config({}, {"client-key-data": encoded(b"x")}), "users[0].user.client-certificate: Required value"),
        (
            config({"certificate-authority-data": "%"}),
            'clusters[0].cluster.certificate-authority-data: Invalid value: "": not base64',
        ),
        (
            config({"certificate-authority": "absent"}),
            "clusters[0].cluster.certificate-authority: absent: No such file or directory",
        ),
        (config({}, {"exec": {}}), "users[0].user.exec: unknown field"),
    ],
)
def test_mistakes(tmp_path, document, message):
    assert refused(tmp_path, document) == message
