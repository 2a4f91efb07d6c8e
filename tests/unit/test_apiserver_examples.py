"""The example API servers do what their pages say."""

import asyncio
import contextlib
import importlib.util
import pathlib
import re
import signal
import sqlite3
import sys

import pytest
import yaml

from apiserver_books import MERGE, serving, watching
from kapi.api.errors import BadRequest, Invalid, MethodNotAllowed, NotFound
from kapi.client import ClientConfig, RESTClient

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
BOOKS = "/apis/db.example.com/v1/books"
METRICS = "/apis/metrics.k8s.io/v1beta1"
SAMPLES = "/apis/samples.example.com/v1/samples"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def load(path):
    """The module of an example. Its classes stay registered, so each is loaded once."""
    name = path.rpartition("/")[2].removesuffix(".py")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def run(main):
    async def bounded():
        async with asyncio.timeout(60):
            await main()

    asyncio.run(bounded())


# -- the clock --------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_clock():
    source = (EXAMPLES / "clock_api.py").read_text().split('"""\n', 1)[1].strip()
    assert f"```python\n{source}\n```" in (ROOT / "docs/how-to/api-server.md").read_text()


def test_the_clock_tells_the_time():
    module = load("clock_api.py")

    async def main():
        async with serving(module.Clocks(module.Clock)) as client:
            table = await client.request("GET", "/apis/time.example.com/v1/clocks", accept=TABLE)
            assert [row["cells"][:2] for row in table["rows"]] == [["delhi", 5.5], ["tokyo", 9], ["utc", 0]]
            with pytest.raises(NotFound):
                await client.request("GET", "/apis/time.example.com/v1/clocks/nowhere")

    run(main)


# -- the database -----------------------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "library.db"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE books (isbn TEXT PRIMARY KEY, title TEXT NOT NULL, year INTEGER, "
            "copies INTEGER NOT NULL DEFAULT 1 CHECK (copies >= 0), lent BOOLEAN)"
        )
        connection.execute("INSERT INTO books VALUES ('9780131103627', 'The C Programming Language', 1988, 2, 1)")
        connection.execute("INSERT INTO books VALUES ('Not a name', 'Left out', 1900, 1, 0)")
        connection.execute("CREATE TABLE pairs (a TEXT, b TEXT, PRIMARY KEY (a, b))")
    return path


def execute(path, sql):
    """Run a statement as another program does."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql).fetchall()


def tables_of(path):
    module = load("sqlite-api/sqlite_api.py")
    return [module.Rows(path, table) for table in module.tables(path)]


def test_rows_are_read_written_and_validated_by_the_database(database):
    async def main():
        async with serving(*tables_of(database)) as client:
            (book,) = (await client.request("GET", BOOKS))["items"]
            assert book["spec"] == {"title": "The C Programming Language", "year": 1988, "copies": 2, "lent": True}
            new = yaml.safe_load((EXAMPLES / "sqlite-api/book.yaml").read_text())
            created = await client.request("POST", BOOKS, body=new)
            assert created["spec"]["copies"] == 3
            path = f"{BOOKS}/9781098131821"
            with pytest.raises(Invalid, match="CHECK constraint failed: copies >= 0"):
                await client.request("PATCH", path, body={"spec": {"copies": -1}}, content_type=MERGE)
            with pytest.raises(Invalid, match="must be of type integer"):
                await client.request("PATCH", path, body={"spec": {"copies": "many"}}, content_type=MERGE)
            await client.request("PATCH", path, body={"spec": {"copies": 4, "year": None}}, content_type=MERGE)
            stored = execute(database, "SELECT year, copies FROM books WHERE isbn = '9781098131821'")
            assert stored == [(None, 4)]
            found = await client.request("GET", BOOKS, query={"fieldSelector": "spec.year=1988"})
            assert [one["metadata"]["name"] for one in found["items"]] == ["9780131103627"]
            await client.request("DELETE", path)
            assert execute(database, "SELECT isbn FROM books WHERE year IS NULL") == []

    run(main)


def test_what_another_program_writes_is_seen_by_a_watch(database, monkeypatch):
    (rows,) = tables_of(database)
    monkeypatch.setattr(type(rows), "poll_seconds", 0.01)

    async def main():
        async with serving(rows) as client, watching(client, BOOKS) as following:
            assert (await following())[:2] == ("ADDED", "9780131103627")
            execute(database, "UPDATE books SET copies = 9 WHERE year = 1988")
            kind, _, book = await following()
            assert (kind, book["spec"]["copies"]) == ("MODIFIED", 9)
            execute(database, "DELETE FROM books WHERE year = 1988")
            assert (await following())[:2] == ("DELETED", "9780131103627")

    run(main)


def test_the_program_serves_until_it_is_told_to_stop(database):
    async def main():
        program = EXAMPLES / "sqlite-api/sqlite_api.py"
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(program), str(database), "--port", "0", stderr=asyncio.subprocess.PIPE
        )
        try:
            said = b""
            while (found := re.search(rb"url=(http://127\.0\.0\.1:\d+) ", said)) is None:
                line = await process.stderr.readline()
                assert line, said
                said += line
            assert b"standalone: no TLS, no authentication" in said
            async with RESTClient(ClientConfig(found[1].decode())) as client:
                assert len((await client.request("GET", BOOKS))["items"]) == 1
        finally:
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0

    run(main)


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_metrics_are_computed_from_the_samples():
    module = load("metrics-api/metrics_api.py")

    async def main():
        async with serving(*module.resources()) as client:
            assert (await client.request("GET", f"{METRICS}/pods"))["items"] == []
            for sample in yaml.safe_load_all((EXAMPLES / "metrics-api/samples.yaml").read_text()):
                await client.request("POST", SAMPLES, body=sample)
            query = {"labelSelector": "app=web"}
            (pod,) = (await client.request("GET", f"{METRICS}/namespaces/default/pods", query=query))["items"]
            assert pod["kind"] == "PodMetrics"
            assert pod["containers"][0] == {"name": "nginx", "usage": {"cpu": "200m", "memory": "64Mi"}}
            node = await client.request("GET", f"{METRICS}/nodes/worker")
            assert (node["usage"], node["window"]) == ({"cpu": "1500m", "memory": "2Gi"}, "30s")
            resources = (await client.request("GET", METRICS))["resources"]
            assert {one["name"]: one["verbs"] for one in resources} == {
                "pods": ["get", "list"],
                "nodes": ["get", "list"],
            }

    run(main)


def test_samples_are_created_and_nothing_else():
    module = load("metrics-api/metrics_api.py")
    sample = {"apiVersion": "samples.example.com/v1", "kind": "Sample", "metadata": {"name": "one"}}

    async def main():
        async with serving(*module.resources()) as client:
            with pytest.raises(MethodNotAllowed):
                await client.request("GET", SAMPLES)
            with pytest.raises(Invalid, match="expected one of node and pod"):
                await client.request("POST", SAMPLES, body={**sample, "spec": {"usage": {"cpu": "1"}}})
            with pytest.raises(BadRequest, match="needs the name of the pod and its containers"):
                await client.request("POST", SAMPLES, body={**sample, "spec": {"pod": "web"}})

    run(main)


def test_an_old_sample_does_not_count(monkeypatch):
    module = load("metrics-api/metrics_api.py")
    latest = module.Latest()
    latest.add(module.NodeMetrics(metadata=module.ObjectMeta(name="worker"), usage={"cpu": "1"}))
    assert latest.find("", "worker") is not None
    monkeypatch.setattr(module, "FRESH_SECONDS", 0.0)
    assert latest.find("", "worker") is None
