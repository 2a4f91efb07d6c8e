"""`kapi up` as a process: its ready line, its exit codes, and what it says when it cannot start."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import kapi
from kapi.base.version import described
from kapi.cli.up import run

READY = re.compile(
    r"Ready at (https://127\.0\.0\.1:(\d+))\. Next:  export KUBECONFIG=(\S+) && kubectl get namespaces\n"
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])}


def _command(*arguments):
    return [sys.executable, "-c", "from kapi.cli.main import main; main()", *map(str, arguments)]


def _kapi(*arguments):
    return subprocess.run(
        _command(*arguments), capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False
    )


@contextmanager
def _up(data, *arguments):
    """A running server and what its ready line said."""
    command = _command("up", "--data-dir", data, "--bind", "127.0.0.1:0", *arguments)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        match = READY.fullmatch(process.stdout.readline())
        assert match, process.communicate()
        yield process, match
    finally:
        process.kill()
        process.communicate()


def _run(tmp_path, **options):
    defaults = {
        "data_dir": tmp_path / "data",
        "bind": "127.0.0.1:0",
        "advertise_address": "",
        "kubeconfig": None,
        "storage": "memory",
        "socket": None,
        "history_seconds": 300.0,
        "controllers": "*",
        "event_ttl": 3600.0,
        "service_cluster_ip_range": "10.0.0.0/24",
        "log_level": "error",
        "log_format": "text",
    }
    return run(**{**defaults, **options})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"bind": "nowhere"},
            "kapi: --bind 'nowhere': expected HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:6443",
        ),
        ({"bind": "127.0.0.1:70000"}, "kapi: --bind '127.0.0.1:70000': expected HOST:PORT"),
        ({"storage": "floppy"}, "kapi: --storage 'floppy': expected sqlite, memory or etcd://"),
        ({"storage": "etcd://x:y"}, "expected HOST:PORT"),
        ({"service_cluster_ip_range": "10.0.0"}, "kapi: --service-cluster-ip-range '10.0.0': '10.0.0' does not appear"),
        ({"service_cluster_ip_range": "10.0.0.0/24,10.1.0.0/24"}, "expected at most one range of IPv4 and one of IPv6"),
        ({"service_cluster_ip_range": "10.0.0.0/30"}, "10.0.0.0/30 has fewer than 8 addresses"),
        ({"service_cluster_ip_range": "fd00::/32"}, "the prefix of fd00::/32 is too short; expected /64 or longer"),
        ({"advertise_address": "here"}, "kapi: --advertise-address 'here': expected an IP address"),
        ({"advertise_address": "0.0.0.0"}, "expected an address at which other machines reach this one"),
        ({"advertise_address": "::1"}, "expected an address at which other machines reach this one"),
        ({"log_format": "xml"}, "kapi: --log-format 'xml': expected one of text, json"),
        ({"log_level": "loud"}, "kapi: --log-level 'loud': expected one of debug, info, warning, error"),
    ],
)
def test_wrong_options_are_a_usage_error(tmp_path, capsys, options, why):
    assert _run(tmp_path, **options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert why in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_port_in_use_is_reported_with_the_option_to_change(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert _run(tmp_path, bind=f"127.0.0.1:{port}") == 1
    expected = f"kapi: 127.0.0.1:{port} is in use; choose another port: --bind 127.0.0.1:0\n"
    assert capsys.readouterr().err == expected


def test_an_address_of_another_machine_is_reported_with_the_option_to_change(tmp_path, capsys):
    assert _run(tmp_path, bind="192.0.2.1:0") == 1
    expected = "kapi: 192.0.2.1 is not an address of this machine; choose another: --bind 127.0.0.1:6443\n"
    assert capsys.readouterr().err == expected


def test_a_data_directory_that_is_a_file_is_reported_with_the_option_to_change(tmp_path, capsys):
    (tmp_path / "data").write_text("not a directory")
    assert _run(tmp_path, storage="sqlite") == 1
    expected = f"kapi: {tmp_path / 'data'} is not a directory; choose another data directory: --data-dir DIR\n"
    assert capsys.readouterr().err == expected


def test_wrong_option_ends_the_process_with_two():
    done = _kapi("up", "--bind", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kapi: --bind 'nowhere': expected HOST:PORT")


def test_unknown_option_ends_the_process_with_two():
    done = _kapi("up", "--frob")
    assert done.returncode == 2
    assert "--frob" in done.stderr


def test_version_is_printed():
    done = _kapi("version")
    assert (done.returncode, done.stdout.strip()) == (0, described())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_prints_its_address_and_stops_at_a_signal(tmp_path, number):
    config = tmp_path / "conf" / "my.kubeconfig"
    with _up(tmp_path / "data", "--kubeconfig", config) as (process, match):
        assert match[3] == str(config)
        assert match[1] in config.read_text()
        assert config.stat().st_mode & 0o777 == 0o600
        with socket.create_connection(("127.0.0.1", int(match[2])), timeout=5):
            pass
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, "")
        assert "Traceback" not in err


def test_second_server_on_the_same_directory_is_refused(tmp_path):
    with _up(tmp_path / "data") as (process, _):
        done = _kapi("up", "--data-dir", tmp_path / "data", "--bind", "127.0.0.1:0")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("kapi: ")
        assert "Traceback" not in done.stderr
        assert process.poll() is None
