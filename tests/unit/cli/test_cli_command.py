"""Command lines: the spellings that kubectl accepts, help, versions, and errors in one line."""

import subprocess
import sys

import pytest

import kapi
from kapi.base.version import described
from kapi.cli.command import Parser, add_flag, at_least

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


@pytest.mark.parametrize(
    "spelling", [("-o", "name"), ("-o=name",), ("-oname",), ("--output", "name"), ("--output=name",)]
)
def test_every_spelling_of_an_option_means_the_same(run, spelling):
    run("create", "-f", "-", stdin=MAP)
    assert run("get", *spelling, "cm", "a") == "configmap/a\n"
    assert run("get", "cm", *spelling, "a") == "configmap/a\n"


def test_options_of_the_connection_may_come_before_the_command(run):
    run("create", "-f", "-", stdin=MAP)
    assert run("-n", run.namespace, "get", "cm", "-o=name", namespace=False) == "configmap/a\n"
    assert run(f"--namespace={run.namespace}", "get", "cm", "-o=name", namespace=False) == "configmap/a\n"
    # The one that is nearer to the command holds.
    assert run("-n", "default", "get", "cm", "-o=name") == "configmap/a\n"


@pytest.mark.parametrize("spelling", ["--wait=false", "--wait=true", "--wait"])
def test_delete_waits_for_finalizers_unless_wait_is_false(run, spelling):
    run("create", "-f", "-", stdin=MAP.replace("{name: a}", "{name: a, finalizers: [example.com/x]}"))
    error = run.fails("delete", "cm", "a", spelling, "--timeout", "0.1") if spelling != "--wait=false" else None
    if error is None:
        assert run("delete", "cm", "a", spelling) == f'configmap "a" deleted from {run.namespace} namespace\n'
        assert run.code == 0
    else:
        assert "timed out after 0.1 s" in error


@pytest.mark.parametrize(
    ("arguments", "is_on"),
    [([], False), (["--go"], True), (["-g"], True), (["--go=true"], True), (["--go=false"], False)],
)
def test_flags_take_true_and_false(arguments, is_on):
    parser = Parser("prog", "", "")
    add_flag(parser, "--go", "-g", help="go")
    assert parser.parse_args(arguments).go is is_on


def test_a_number_below_the_minimum_is_refused(capsys):
    parser = Parser("prog", "", "")
    parser.add_argument("--seconds", type=at_least(1))
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--seconds", "0.5"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "prog: argument --seconds: 0.5: expected at least 1; see prog --help\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["gett"], 'kapi: unknown command "gett"; see kapi --help'),
        (["generate", "x"], 'kapi generate: unknown command "x"; see kapi generate --help'),
        (["get", "--frob"], "kapi get: unrecognized arguments: --frob; see kapi get --help"),
        (["get", "--out", "name"], "kapi get: unrecognized arguments: --out"),
        (["-n", "x", "up"], "kapi: up does not connect to a server and takes no --namespace before it"),
        (["--as", "x", "generate", "crds"], "kapi: generate does not connect to a server and takes no --as before it"),
        (["delete", "--wait=maybe"], "kapi delete: argument --wait: expected true or false, not 'maybe'"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_status_2(run_kapi, arguments, error):
    out, err, code = run_kapi(*arguments)
    assert (out, code) == ("", 2)
    assert err.startswith(error)
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_lists_the_commands(run_kapi, arguments):
    out, err, code = run_kapi(*arguments)
    assert (err, code) == ("", 0)
    assert out.startswith("usage: kapi ")
    for name in ("up", "demo", "get", "apply", "delete", "generate", "version"):
        assert f"\n  {name} " in out


def test_help_of_a_command_describes_every_option(run_kapi):
    out, _, code = run_kapi("delete", "-h")
    assert code == 0
    assert out.startswith("usage: kapi delete TYPE[/NAME] [NAME...] [OPTION...]\n")
    assert "--wait " in out
    assert "--wait=" not in out
    assert "--namespace" in out


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_the_version_is_printed(run_kapi, arguments):
    assert run_kapi(*arguments) == (f"{described()}\n", "", 0)
    assert described().startswith(f"{kapi.__version__} (")


def test_the_module_is_the_command():
    finished = subprocess.run([sys.executable, "-m", "kapi", "version"], capture_output=True, text=True, check=True)
    assert finished.stdout == f"{described()}\n"
