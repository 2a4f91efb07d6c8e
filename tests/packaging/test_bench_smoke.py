"""The benchmark measures every row, and does not count wrong."""

import asyncio
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import checkout, compare, definitions, etcd, growth, kube_apiserver, libraries, processes, report, scale
from bench.client import Address, Asker, LoadError, connect
from bench.fanout import Delivery, WatchConnection
from bench.figures import median, quantile, times_better
from bench.objects import STAMP, config_map, pod, request, stamp, typical_pod
from bench.settings import quick
from bench.table import KAPI, Row
from bench.validation import EXAMPLES, measure_validation
from kapi.base.version import described
from kapi.schema.customschema import CustomSchema

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = [
    "ready.fresh",
    "ready.loaded",
    "memory.empty",
    "memory.some",
    "memory.many",
    "memory.object",
    "create.1",
    "create.16",
    "create.64",
    "create.pods",
    "create.quota",
    "create.policies",
    "create.webhooks",
    "get.1",
    "get.16",
    "get.64",
    "update.1",
    "update.16",
    "update.64",
    "patch.1",
    "patch.16",
    "patch.64",
    "list.whole",
    "list.paged",
    "watch.one",
    "event.one",
    "watch.some",
    "event.some",
    "watch.many",
    "event.many",
    "custom.first",
    "custom.get",
    "custom.list",
    "custom.create.1",
    "custom.create.16",
    "custom.create.small",
    "custom.install",
    "custom.memory",
    "custom.discovery",
    "custom.openapi.v3",
    "custom.openapi.group",
    "custom.openapi.v2",
    "custom.first.many",
    "custom.memory.used",
    "custom.validate.typical",
    "custom.validate.large",
    "rbac.get",
    "audit.get",
    "rbac.create",
    "audit.create",
    "aggregation.get",
    "aggregation.list",
    "client.import",
    "client.sync.some",
    "client.object",
    "client.start",
    "client.reconcile",
    "client.drain",
    "client.late",
    "client.sync.many",
    "client.memory",
    "collect.owned",
    "testing.ready",
    "testing.import",
    "testing.fork",
    "testing.forks",
    "testing.restore",
    "apply.new",
    "apply.field",
    "apply.same",
]


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_quick_run_measures_every_row(tmp_path):
    written = tmp_path / "bench.json"
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "bench", "--quick", "--seconds", "0.1"),
            *("--without", "kube-apiserver,uvicorn,clients", "--json", written, "--dir", tmp_path / "data"),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), kube_apiserver.VARIABLE: ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert finished.returncode == 0, finished.stderr
    result = json.loads(written.read_text())
    assert [row["id"] for row in result["rows"]] == ROWS
    assert all(row["kapi"]["value"] > 0 for row in result["rows"])
    compared = ["create.1", "create.16", "create.64", "rbac.get", "audit.get", "rbac.create", "audit.create"]
    compared += ["aggregation.get", "aggregation.list", "testing.ready", "testing.fork"]
    assert [row["id"] for row in result["rows"] if row["ratios"]] == compared
    assert all(f"| {row['title']} " in finished.stdout for row in result["rows"])
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_comparison_finds_the_tree_whose_gets_take_longer(tmp_path):
    slower, written = tmp_path / "slower", tmp_path / "compared.json"
    for part in ("src", "generate"):
        shutil.copytree(ROOT / part, slower / part, ignore=shutil.ignore_patterns("__pycache__"))
    handler = slower / "src" / "kapi" / "server" / "handlers" / "read.py"
    before, found, after = handler.read_text().partition("    info = context.info\n")
    assert found
    handler.write_text(f"{before}    sum(range(100_000))\n{found}{after}")
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "bench", "--quick", "--rounds", "6", "--rows", "start,get,pod,custom,watch"),
            *("--compare", slower, "--json", written, "--dir", tmp_path / "data"),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert finished.returncode == 0, finished.stderr
    rows = {row["id"]: row for row in json.loads(written.read_text())["rows"]}
    assert list(rows) == ["start.processor", "start.elapsed", "start.memory", "get", "pod", "custom", "watch"]
    assert all(row["theirs"] > 0 and row["ours"] > 0 for row in rows.values())
    assert rows["get"]["ratio"] > 2, finished.stdout
    [shown] = [line for line in finished.stdout.splitlines() if line.startswith("| get ")]
    assert shown.endswith("| better              |")
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_quick_run_measures_how_every_cost_grows(tmp_path):
    written = tmp_path / "growth.json"
    finished = subprocess.run(
        [sys.executable, "-m", "bench", "--scale", "--quick", "--json", written, "--dir", tmp_path / "data"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert finished.returncode == 0, finished.stderr
    tables = json.loads(written.read_text())
    assert {section: len(rows) for section, rows in tables.items()} == {
        "objects": 10,
        "definitions": 4,
        "connections": 4,
        "watchers": 1,
        "nodes": 1,
        "values": 3,
    }
    # What a few hundred objects add to a start or to memory is less than what these vary by.
    requests = [
        row for rows in tables.values() for row in rows if row["item"] not in {"a stored object", "a definition"}
    ]
    assert all(cost > 0 for row in requests if row["unit"] == "µs" for cost in row["costs"].values())
    assert all(row["title"] in finished.stdout for rows in tables.values() for row in rows)
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(
    ("costs", "is_linear", "shown"),
    [
        ({10_000: 1e-6, 300_000: 1.9e-6}, True, "1.90"),
        ({10_000: 1e-6, 100_000: 3e-6, 300_000: 5.5e-6}, False, "**5.50**, more than 2"),
        ({10_000: 1e-6, 300_000: 0.5e-6}, True, "0.50"),
        ({100: 0.0, 300: 1e-6, 1000: 3e-6}, False, "**3.00**, more than 2"),
    ],
    ids=["logarithm", "square root", "fixed part", "too little to measure"],
)
def test_an_item_that_costs_more_than_twice_as_much_is_reported(costs, is_linear, shown):
    row = growth.Growth("list", "a stored object", costs=costs)
    assert row.is_linear is is_linear
    assert growth.table("Stored objects", [row]).splitlines()[-1].endswith(f"| {shown} |")


def test_a_row_that_grows_too_fast_fails_the_run(monkeypatch, capsys):
    rows = [growth.Growth("list", "a stored object", costs={1: 1e-6, 10: 3e-6})]
    monkeypatch.setitem(scale.SECTIONS, "objects", ("Stored objects", lambda _: rows))
    options = SimpleNamespace(rows=["objects"], json=None, markdown=None)
    measured = SimpleNamespace(close=lambda: None)
    assert scale.run(options, measured) == 1
    assert "grows faster than its input: objects: list" in capsys.readouterr().err
    assert scale.run(options, measured, is_bound=False) == 0


def test_a_commit_is_unpacked_once_with_its_generated_files(tmp_path):
    repository = tmp_path / "repository"
    for path, text in (("src/kapi/__init__.py", ""), ("generate/__main__.py", "open('src/kapi/made.py', 'w')")):
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", repository]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "first"]):
        subprocess.run([*git, *command], check=True)
    found = checkout.find("HEAD", repository)
    folder = pathlib.Path(found.location())
    assert folder.is_relative_to(repository / ".peers" / "compare")
    assert (folder / "made.py").is_file()
    (folder / "made.py").unlink()
    assert checkout.find("HEAD", repository) == found
    assert not (folder / "made.py").exists()
    with pytest.raises(checkout.NoSuchTree):
        checkout.find("no-such-branch", repository)


def test_the_version_of_a_python_names_the_form_of_its_kapi_and_another_program_is_refused(tmp_path):
    number = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    assert checkout.version(sys.executable) == f"{number}, Kapi {described()}"
    for python, why in (
        (tmp_path / "missing", "No such file or directory"),
        (shutil.which("false"), "it ended with 1"),
    ):
        with pytest.raises(checkout.NoSuchTree, match=why):
            checkout.version(str(python))


def test_sources_of_commits_are_kept_for_the_last_few_only(tmp_path):
    for number in range(checkout.KEPT + 2):
        (tmp_path / f"{number}").mkdir()
        os.utime(tmp_path / f"{number}", (number, number))
    checkout._forget(tmp_path)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["3", "4", "5"]


@given(st.lists(st.floats(0.5, 2), min_size=1, max_size=60))
def test_the_interval_of_the_median_contains_it_and_leaves_out_as_little_as_it_says(values):
    low, high = compare.interval(values)
    assert low <= statistics.median(values) <= high
    below = sorted(values).index(low)
    outside = 2 * sum(math.comb(len(values), number) for number in range(below + 1)) / 2 ** len(values)
    assert below == 0 or outside <= 0.05


def test_the_interval_of_ten_values_is_from_the_second_to_the_ninth():
    assert compare.interval(range(1, 11)) == (2, 9)
    assert compare.interval([1.0, 2.0, 3.0]) == (1.0, 3.0)


def test_processor_time_includes_threads_and_processes_that_have_ended():
    spin = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"
    program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {spin!r}])\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        used = processes.processor_seconds(process.pid)
        assert processes.family(process.pid) == [process.pid]
        process.communicate("")
    assert 0.2 <= used < 5


def test_a_row_that_cannot_be_measured_fails_the_run(tmp_path):
    (tmp_path / "etcd").write_text("#!/bin/sh\necho no disk >&2\nexit 3\n")
    (tmp_path / "kube-apiserver").write_text("#!/bin/sh\nexit 3\n")
    for program in kube_apiserver.PROGRAMS:
        (tmp_path / program).chmod(0o755)
    finished = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--rows", "memory", "--dir", tmp_path / "data"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), kube_apiserver.VARIABLE: str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert finished.returncode == 1, finished.stderr
    assert (
        "**memory.empty could not be measured on kube-apiserver + etcd:** etcd ended with 3: no disk" in finished.stdout
    )
    assert "| memory, empty | " in finished.stdout


def test_the_kube_apiserver_binaries_are_found_by_environment_variable(tmp_path, monkeypatch):
    monkeypatch.delenv(kube_apiserver.VARIABLE, raising=False)
    assert kube_apiserver.find() == (None, "KUBEBUILDER_ASSETS is not set")
    monkeypatch.setenv(kube_apiserver.VARIABLE, str(tmp_path))
    assert kube_apiserver.find() == (None, "KUBEBUILDER_ASSETS names a folder without etcd and kube-apiserver")


def test_kube_apiserver_runs_with_durable_etcd_and_rbac(tmp_path):
    etcd = kube_apiserver.etcd_command(tmp_path / "etcd", tmp_path / "data", 2379)
    assert not any("unsafe" in flag for flag in etcd)
    pairs = kube_apiserver.certificates(tmp_path / "pki")
    flags = kube_apiserver.apiserver_command(tmp_path / "kube-apiserver", tmp_path, pairs, 2379, 6443)
    assert "--authorization-mode=Node,RBAC" in flags
    assert "--etcd-servers=http://127.0.0.1:2379" in flags
    files = [flag.partition("=")[2] for flag in flags if flag.partition("=")[0].endswith("-file")]
    assert len(files) == 5
    assert all(pathlib.Path(file).is_file() for file in files)


def test_rows_on_etcd_are_of_one_server_and_of_two_where_there_is_an_etcd(tmp_path, monkeypatch):
    monkeypatch.setenv(kube_apiserver.VARIABLE, str(tmp_path))
    assert etcd.GROUP.rows(quick()) == []
    for program in kube_apiserver.PROGRAMS:
        (tmp_path / program).touch(0o755)
    rows = [row.id for row in etcd.GROUP.rows(quick())]
    kinds = ["create.16", "get.16", "list", "watch"]
    assert [row for row in rows if ".two." in row] == [f"etcd.two.{kind}" for kind in kinds]
    assert {f"etcd.{kind}" for kind in kinds} < set(rows)


def test_connections_take_turns_between_the_servers_of_a_control_plane():
    async def scenario():
        made = []

        async def listen(number):
            def accept(reader, writer):
                made.append(number)
                writer.close()

            return await asyncio.start_server(accept, "127.0.0.1", 0)

        servers = [await listen(number) for number in range(2)]
        first, second = (server.sockets[0].getsockname()[1] for server in servers)
        address = Address("127.0.0.1", first, "", other_ports=[second])
        for _ in range(4):
            connection = await connect(address, None, Asker)
            await asyncio.wait([connection.ended, connection._answer])
            assert connection.ended.exception()
            assert connection._answer.exception()
        for server in servers:
            server.close()
        return made

    assert sorted(asyncio.run(scenario())) == [0, 0, 1, 1]


def test_objects_have_the_requested_size():
    assert 1400 < len(config_map("seed-000001")) < 1700
    assert json.loads(config_map("a", stamp()))["metadata"]["name"] == "a"
    assert 1_300 < len(typical_pod("b")) < 1_600
    assert json.loads(pod("b"))["spec"]["containers"][1]["name"] == "sidecar"


def test_a_client_process_that_exits_reports_its_output(tmp_path):
    program = tmp_path / "client.py"
    program.write_text("import sys\nprint('{\"what\": \"ready\"}', flush=True)\nsys.exit('no server')\n")
    library = libraries.Library("broken", (pathlib.Path(sys.executable), program))
    with libraries.Following(library, tmp_path / "kubeconfig", tmp_path / "log", [1, 2, 3]) as client:
        assert client.expect("ready") == {"what": "ready"}
        with pytest.raises(LoadError, match="ended: no server"):
            client.expect("synced")


def test_clients_that_cannot_be_installed_are_skipped_with_a_reason(tmp_path):
    python = tmp_path / libraries.VENV / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    python.chmod(0o755)
    usable, left_out = libraries.others(tmp_path)
    assert usable == []
    assert left_out == dict.fromkeys(libraries.OTHERS, "cannot be installed: no network")


def test_a_go_program_is_skipped_without_go(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert libraries.controller_runtime(tmp_path) == (None, "there is no Go here to build it with")
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    go.chmod(0o755)
    assert libraries.controller_runtime(tmp_path) == (None, "cannot be built: no network")


def test_imports_are_timed_in_the_virtual_environment_of_the_library():
    assert libraries.importing(libraries.Library("quick", (pathlib.Path(sys.executable),), "json")) > 0
    with pytest.raises(subprocess.CalledProcessError):
        libraries.importing(libraries.Library("broken", (pathlib.Path(sys.executable),), "no_such_module"))


def test_small_custom_resource_definitions_have_twenty_fields_and_accept_their_objects():
    definition = json.loads(definitions.small_definition("run", 12))
    assert definition["metadata"]["name"] == "stores12.run-1.bench.example.com"
    props = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert 18 <= _leaves(props) <= 24
    obj = json.loads(definitions.small_object("run", 12, "first"))
    assert (obj["apiVersion"], obj["kind"]) == ("run-1.bench.example.com/v1", "Store12")
    schema = CustomSchema(lambda: props, preserve_unknown=False)
    assert schema.coerce(obj) == []
    schema.default(obj)
    assert schema.validate(obj) == []
    assert obj["spec"]["users"][1]["role"] == "reader"


def _leaves(props):
    below = [*props.get("properties", {}).values(), *([props["items"]] if "items" in props else [])]
    return sum(map(_leaves, below)) if below else 1


def test_large_custom_objects_are_renamed_examples():
    obj = json.loads(definitions.large_object("another"))
    assert obj == definitions.example_object("large") | {"metadata": obj["metadata"]}
    assert obj["metadata"]["name"] == "another"
    assert definitions.large_collection() == "/apis/bench.example.com/v1/namespaces/bench/landscapes"


@pytest.mark.parametrize("sort", EXAMPLES)
def test_an_example_is_valid_in_process(sort):
    figure = measure_validation(sort, 0.0)()
    assert figure["value"] > 0


def test_validating_an_object_that_is_refused_is_a_failure(monkeypatch):
    monkeypatch.setattr("bench.validation.example_object", lambda *_: {"spec": {"unheard": 1}})
    with pytest.raises(LoadError, match="not accepted"):
        measure_validation("typical", 0.0)()


def test_a_requester_returns_the_response_body():
    asyncio.run(_ask())


async def _ask():
    asker = Asker()
    sent = []
    asker.connection_made(type("Transport", (), {"write": sent.append, "close": lambda _: None})())
    for status, data in ((404, b"no"), (201, b"yes")):
        asking = asyncio.ensure_future(asker.ask(b"ask"))
        await asyncio.sleep(0)
        asker.data_received(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(data), data))
        assert await asking == (status, data)
    demanding = asyncio.ensure_future(asker.demand(b"ask"))
    await asyncio.sleep(0)
    asker.data_received(b"HTTP/1.1 409 X\r\nContent-Length: 5\r\n\r\nthere")
    with pytest.raises(LoadError, match="answered 409: there"):
        await demanding
    asking = asyncio.ensure_future(asker.ask(b"ask"))
    await asyncio.sleep(0)
    asker.connection_lost(None)
    with pytest.raises(LoadError, match="closed the connection"):
        await asking
    assert sent == [b"ask"] * 4
    asker.ended.exception()


@pytest.mark.parametrize(
    ("row", "value", "expected"),
    [
        (Row("a", "t", "µs", limit=100e-6), 85e-6, ["85 µs", "≤ 100 µs"]),
        (Row("a", "t", "KiB", 2.0, limit=150 * 1024), 18_000, ["18 KiB", f"≥ 2{report.TIMES}, ≤ 150 KiB"]),
        (Row("a", "t", "ms", 20.0), 2.02, ["2,020 ms", f"≥ 20{report.TIMES}"]),
        (Row("a", "t", "ms"), 0.1234, ["123 ms", report.NOTHING]),
    ],
    ids=lambda value: value.unit if isinstance(value, Row) else "",
)
def test_figures_and_budgets_have_the_unit_of_their_row(row, value, expected):
    figures = {KAPI: [{"value": value}], "kube-apiserver + etcd": [{"value": value}]}
    bench = SimpleNamespace(figures={"a": figures}, failures={})
    [cells] = report._lines(report.rows_of(bench, [row])[0], cores=2)
    assert [cells[1], cells[-1]] == expected


def test_each_comparison_has_a_row_that_shows_its_budget():
    row = Row("a", "t", "s", 2.0, against="second", more_budgets=(("third", 0.5),))
    figures = {KAPI: [{"value": 1.0}], "first": [{"value": 3.0}], "second": [{"value": 4.0}], "third": [{"value": 0.8}]}
    bench = SimpleNamespace(figures={"a": figures}, failures={})
    lines = report._lines(report.rows_of(bench, [row])[0], cores=2)
    assert [(cells[0], cells[3], cells[6], cells[-1]) for cells in lines] == [
        ("t", "first", f"3.0{report.TIMES}", report.NOTHING),
        ("", "second", f"4.0{report.TIMES}", f"≥ 2{report.TIMES}"),
        ("", "third", f"0.80{report.TIMES}", f"≥ 0.5{report.TIMES}"),
    ]


def test_the_processor_time_of_servers_is_compared_for_each_request():
    # Half as many requests with a quarter of the processor time.
    figures = {KAPI: [{"value": 100.0, "server_cpu": 0.25}], "other": [{"value": 200.0, "server_cpu": 1.0}]}
    bench = SimpleNamespace(figures={"a": figures}, failures={})
    [cells] = report._lines(report.rows_of(bench, [Row("a", "t", "/s")])[0], cores=2)
    assert cells[report.HEADINGS.index("Ratio")] == f"0.50{report.TIMES}"
    assert cells[report.HEADINGS.index("of processor time")] == f"2.0{report.TIMES}"


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_is_a_sample_with_its_share_at_or_below(samples, share):
    value = quantile(samples, share)
    assert value in samples
    assert sum(sample <= value for sample in samples) >= share * len(samples)


def test_ratios_above_one_are_wins_in_either_direction():
    assert times_better(200, 100, more_is_better=True) == 2
    assert times_better(100, 200, more_is_better=False) == 2
    assert times_better(1, 0, more_is_better=True) is None


def test_medians_are_taken_of_samples_every_round_has():
    assert median([{"value": 1, "p50": 3}, {"value": 5, "p50": 4}, {"value": 2}]) == {"value": 2}


@given(st.lists(st.integers(1, 4), max_size=6), st.integers(1, 700))
def test_events_are_counted_once_for_any_split_of_the_bytes(chunks, size):
    asyncio.run(_count(chunks, size))


async def _count(chunks, size):
    event = b'{"type":"MODIFIED","object":%b}\n' % config_map("a", stamp())
    sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for events in chunks:
        sent += b"%x\r\n%b\r\n" % (events * len(event), event * events)
    delivery = Delivery(1)
    delivery.latencies = []
    watcher = WatchConnection(delivery)
    for at in range(0, len(sent), size):
        watcher.data_received(sent[at : at + size])
    assert delivery.delivered == len(delivery.latencies) == sum(chunks)
    assert all(seconds >= 0 for seconds in delivery.latencies)


def test_requests_carry_a_content_length():
    head, _, body = request("POST", "/x", b'{"a":1}').partition(b"\r\n\r\n")
    assert b"Content-Length: 7" in head.split(b"\r\n")
    assert STAMP not in body
