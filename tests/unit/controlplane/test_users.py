"""Users with client certificates of the server's own CA."""

import base64
import stat

import pytest

from kapi.base.clock import SystemClock
from kapi.base.trust import Authorities, subject
from kapi.cli.main import run
from kapi.codec import yaml
from kapi.controlplane.bootstrap import ensure_credentials, write_kubeconfig
from kapi.controlplane.options import OptionError, Options
from kapi.controlplane.users import add_user


@pytest.fixture
def data(tmp_path):
    options = Options(data_dir=tmp_path / "data")
    write_kubeconfig(options.kubeconfig_path, "https://127.0.0.1:6443", ensure_credentials(options))
    return options.data_dir


def der_of(pem):
    body = b"".join(line for line in pem.splitlines() if not line.startswith(b"-----"))
    return base64.b64decode(body)


def test_user_gets_a_private_kubeconfig_with_a_certificate_of_the_ca(data, tmp_path, capsys):
    output = tmp_path / "ann.kubeconfig"
    command = [
        "user",
        "add",
        "ann",
        "--group",
        "devs",
        "--group",
        "ops",
        "--data-dir",
        str(data),
        "--output",
        str(output),
    ]
    assert run(command) == 0
    assert f"{output} written." in capsys.readouterr().out
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    config = yaml.decode(output.read_bytes())
    certificate = der_of(base64.b64decode(config["users"][0]["user"]["client-certificate-data"]))
    who = subject(certificate)
    assert (who.common_name, who.organizations) == ("ann", ("devs", "ops"))
    Authorities.read(data / "pki" / "ca.crt").verify([certificate], SystemClock().now())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert config["contexts"] == [{"name": "kapi", "context": {"cluster": "kapi", "user": "ann"}}]


def test_the_ca_of_servers_that_share_a_folder_of_keys_is_found_there(tmp_path, capsys):
    keys, output = tmp_path / "keys", tmp_path / "ann.kubeconfig"
    options = Options(data_dir=tmp_path / "data", pki_dir=keys)
    write_kubeconfig(options.kubeconfig_path, "https://127.0.0.1:6443", ensure_credentials(options))
    command = ["user", "add", "ann", "--data-dir", str(options.data_dir), "--output", str(output)]
    assert run(command) == 2
    assert "--pki-dir DIR if the server was started with it" in capsys.readouterr().err
    assert run([*command, "--pki-dir", str(tmp_path)]) == 2
    assert f"{tmp_path} has no ca.crt and ca.key; choose another folder: --pki-dir DIR" in capsys.readouterr().err
    assert run([*command, "--pki-dir", str(keys)]) == 0
    config = yaml.decode(output.read_bytes())
    certificate = der_of(base64.b64decode(config["users"][0]["user"]["client-certificate-data"]))
    Authorities.read(keys / "ca.crt").verify([certificate], SystemClock().now())


def test_existing_file_is_not_replaced(data, tmp_path, capsys):
    output = tmp_path / "ann.kubeconfig"
    output.write_text("mine")
    assert run(["user", "add", "ann", "--data-dir", str(data), "--output", str(output)]) == 2
    assert "exists already; choose another file: --output FILE" in capsys.readouterr().err
    assert output.read_text() == "mine"


@pytest.mark.parametrize(("name", "groups"), [("", []), ("x" * 65, []), ("ann", [""]), ("ann", ["x" * 65])])
def test_names_that_do_not_fit_in_a_certificate_are_refused(data, tmp_path, name, groups):
    with pytest.raises(OptionError, match="expected 1 to 64 characters"):
        add_user(data, name, groups, tmp_path / "a.kubeconfig")
    assert not (tmp_path / "a.kubeconfig").exists()


def test_folder_that_is_not_that_of_a_server_is_refused(tmp_path):
    with pytest.raises(OptionError, match="is not the data folder of a server"):
        add_user(tmp_path, "ann", [], tmp_path / "a.kubeconfig")
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_server_that_never_started_is_refused(data, tmp_path):
    (data / "admin.kubeconfig").unlink()
    with pytest.raises(OptionError, match="start the server once"):
        add_user(data, "ann", [], tmp_path / "a.kubeconfig")
