"""What a client sends never becomes a metric's label, so clients cannot fill the server's memory with series.

CVE-2020-8552: random requests made series without end.
"""

import random
import string

from every_route import RESOURCES

from api_client import CM, served

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW", "PROPFIND")


VERBS = {"create", "get", "list", "watch", "update", "patch", "delete", "deletecollection", "connect", "other"}


def series(api):
    return sum(not line.startswith(b"#") for line in api.metrics.render().splitlines())


def nonsense(random_source):
    return "".join(random_source.choices(string.ascii_letters + string.digits + "-._~", k=random_source.randint(1, 40)))


def target(random_source):
    """A path that is served, one that is not, or something in between."""
    word, other = nonsense(random_source), nonsense(random_source)
    return random_source.choice(
        [
            f"/{word}",
            f"/api/v1/{word}",
            f"/api/{word}/pods",
            f"/apis/{word}/v1/things",
            f"/apis/apps/{word}/deployments",
            f"/healthz/{word}",
            f"/openapi/v3/{word}",
            f"/api/v1/namespaces/{word}/configmaps",
            f"{CM}/{word}",
            f"{CM}/{word}/{other}",
            f"{CM}?{word}={other}",
            f"{CM}?fieldManager={word}",
            f"/api/v1/namespaces/{word}/pods/{other}/log",
        ]
    )


def labels_of(line):
    """The labels of one line of the exposition."""
    inside = line.partition("{")[2].partition("}")[0]
    return dict(pair.split("=", 1) for pair in inside.replace('"', "").split(",") if pair)


async def ask(api, random_source, count):
    """Requests of an admin and of a stranger in which everything that can be made up is."""
    for _ in range(count):
        method = random_source.choice([*METHODS, nonsense(random_source).upper()])
        headers = {"user-agent": nonsense(random_source), "x-" + nonsense(random_source).lower(): "y"}
        path = target(random_source)
        await api.request(method, path, b"{}", headers={**headers, "content-type": "application/json"})
        await api.as_peer(method, path, headers=headers)


@served
async def test_cve_2020_8552_random_requests_add_no_series(api):
    random_source = random.Random(2020_8552)
    await ask(api, random_source, 1500)
    known, remembered = series(api), len(api.metrics.requests.series)
    await ask(api, random_source, 3000)
    assert (series(api), len(api.metrics.requests.series)) == (known, remembered)


@served
async def test_cve_2020_8552_metric_labels_are_chosen_by_the_server(api):
    await ask(api, random.Random(1), 500)
    resources = {resource.resource for resource in RESOURCES} | {""}
    subresources = {sub for resource in RESOURCES for sub in resource.subresources} | {""}
    groups = {resource.group for resource in RESOURCES} | {""}
    lines = [line for line in api.metrics.render().decode().splitlines() if line.startswith("apiserver_request_")]
    assert len(lines) > 50
    for labels in map(labels_of, lines):
        assert labels["verb"] in VERBS
        assert labels["resource"] in resources
        assert labels["subresource"] in subresources
        assert labels["group"] in groups
        assert labels["version"] in ("v1", "v2", "")
