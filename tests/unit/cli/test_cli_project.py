"""`kapi init`, `create api`, `add controller` and `edit`: what is written, what is left alone, and what is refused."""

import ast

import pytest

from kapi.base.failpoint import FailpointError, armed
from kapi.cli.main import run
from kapi.codec import yaml
from kapi.scaffold.project import BadName, new_kind, read_project

SEEDS = (
    "init --domain=example.com --repo=github.com/example/vpc-operator",
    "create api --group network --version v1 --kind Vpc --resource=true --controller=true",
    "add controller --api-version=network.example.com/v1 --kind=Vpc",
)
INIT, CREATE_API, ADD_CONTROLLER = SEEDS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    return tmp_path


def kapi(line):
    return run(line.split())


def tree(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_command_lines_of_operator_sdk_make_a_project(folder, capsys):
    assert [kapi(line) for line in SEEDS] == [0, 0, 0]
    files = tree(folder)
    project = yaml.decode(files["PROJECT"].encode())
    assert (project["name"], project["package"], project["domain"]) == ("vpc-operator", "vpc_operator", "example.com")
    assert '@resource(\n    "network.example.com/v1",' in files["vpc_operator/api/vpc_v1.py"]
    crd = yaml.decode(files["config/crd/bases/network.example.com_vpcs.yaml"].encode())
    assert crd["metadata"]["name"] == "vpcs.network.example.com"
    assert "vpcs/status" in files["config/rbac/role.yaml"]
    assert set(project["files"]) == set(files) - {"PROJECT"}
    assert "Next: edit vpc_operator/api/vpc_v1.py" in capsys.readouterr().out


def test_a_command_that_is_run_again_changes_nothing(folder, capsys):
    for line in SEEDS:
        kapi(line)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    capsys.readouterr()
    for line in SEEDS:
        assert kapi(line) == 0
        assert capsys.readouterr().out == "Everything is there already.\n"
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before


def test_files_of_the_user_are_left_alone_and_missing_ones_are_written_again(folder, capsys):
    kapi(INIT)
    kapi(CREATE_API)
    types, controller = folder / "vpc_operator/api/vpc_v1.py", folder / "vpc_operator/controllers/vpc_controller.py"
    edited = types.read_text().replace("size", "length")
    types.write_text(edited)
    text = controller.read_text()
    controller.unlink()
    capsys.readouterr()
    assert kapi(CREATE_API) == 0
    assert types.read_text() == edited
    assert controller.read_text() == text
    assert "vpc_operator/api/vpc_v1.py: edited, left as it is" in capsys.readouterr().out


def test_nothing_is_overwritten_without_force(folder, capsys):
    (folder / "Makefile").write_text("all:\n")
    assert kapi(INIT) == 1
    assert "--force overwrites them:\n  Makefile\n" in capsys.readouterr().err
    assert tree(folder) == {"Makefile": "all:\n"}
    assert kapi(f"{INIT} --force") == 0
    assert "manifests:" in (folder / "Makefile").read_text()


def test_a_generated_file_that_was_edited_is_a_conflict(folder, capsys):
    kapi(INIT)
    generated = folder / "vpc_operator/generated.py"
    generated.write_text(generated.read_text() + "# mine\n")
    before = tree(folder)
    assert kapi(CREATE_API) == 1
    assert "  vpc_operator/generated.py\n" in capsys.readouterr().err
    assert tree(folder) == before
    assert kapi(f"{CREATE_API} --force") == 0
    assert "vpc_controller" in generated.read_text()


@pytest.mark.parametrize("moves", [1, 2, 7, 20, 30])
def test_an_interrupted_init_can_be_run_again(folder, moves, tmp_path_factory, monkeypatch):
    with armed("scaffold.before_move", f"raise@{moves}"), pytest.raises(FailpointError):
        kapi(INIT)
    assert not (folder / "PROJECT").exists()
    assert kapi(INIT) == 0
    again = tree(folder)
    monkeypatch.chdir(tmp_path_factory.mktemp("other"))
    kapi(INIT)
    assert tree(folder.__class__.cwd()) == again


def test_what_a_killed_command_has_left_is_removed(folder):
    kapi(INIT)
    (folder / ".kapi-staging").mkdir()
    (folder / ".kapi-staging" / "0").write_text("half of a file")
    assert kapi(CREATE_API) == 0
    assert not (folder / ".kapi-staging").exists()


@pytest.mark.parametrize("moves", [1, 4, 8, 11, 12])
def test_an_interrupted_create_can_be_run_again(folder, moves, tmp_path_factory, monkeypatch):
    kapi(INIT)
    with armed("scaffold.before_move", f"raise@{moves}"), pytest.raises(FailpointError):
        kapi(CREATE_API)
    assert kapi(CREATE_API) == 0
    again = tree(folder)
    monkeypatch.chdir(tmp_path_factory.mktemp("other"))
    kapi(INIT)
    kapi(CREATE_API)
    assert tree(folder.__class__.cwd()) == again


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("init --domain=example --repo=a/b", "--domain example: expected at least two parts"),
        ("init --domain=Example.com --repo=a/b", "--domain Example.com: a lowercase RFC 1123 subdomain"),
        ("init --domain=example.com --repo=github.com/example/json", "a package json would hide one of that name"),
        ("init --domain=example.com --name=Vpc_Operator", "--name Vpc_Operator: a DNS-1035 label"),
        ("init --domain=example.com --name=a --image=???", "--image ???: expected"),
        ("init --domain=example.com", "without --name, the directory's name test_"),
        ("init", "the following arguments are required: --domain"),
    ],
)
def test_bad_names_of_a_project_are_refused(folder, capsys, line, message):
    try:
        status = kapi(line)
    except SystemExit as error:  # a missing option, told by argparse
        status = error.code
    assert status == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert tree(folder) == {}


@pytest.mark.parametrize(
    ("options", "message", "status"),
    [
        ("--group network --version 1 --kind Vpc", "--version 1: expected v1", 2),
        ("--group network --version v1 --kind vpc", "--kind vpc: expected letters and digits in CamelCase", 2),
        ("--group network --version v1 --kind None", "--kind None: the name is taken in the Python code", 2),
        ("--group Network --version v1 --kind Vpc", "--group Network: ", 2),
        ("--group network.example.com --version v1 --kind Vpc", "leave it out", 2),
        ("--group network --version v1 --kind Vpc --plural Vpcs", "--plural Vpcs: ", 2),
        ("--group other --version v1 --kind Site", "would share its files", 1),
        ("--group web --version v1 --kind Page --plural sites", "has the plural sites already", 1),
        ("--group web --version v2 --kind Site --namespaced=false", "versions of a kind share both", 1),
        (
            "--group web --version v9 --kind Site --resource=false",
            "has no Site of web.example.com/v9; its kinds: Site",
            1,
        ),
        ("--group web --version v1 --kind Site --resource=false --controller=false", "nothing to write", 1),
    ],
)
def test_kinds_that_cannot_be_are_refused(folder, capsys, options, message, status):
    kapi(INIT)
    kapi("create api --group web --version v1 --kind Site")
    before = tree(folder)
    capsys.readouterr()
    assert kapi(f"create api {options}") == status
    assert message in capsys.readouterr().err
    assert tree(folder) == before


def test_a_kind_hides_no_name_that_its_modules_use(folder):
    kind = "--group zoo --version v1 --kind Zebra"
    for line in (
        INIT,
        f"create api {kind}",
        "create api --group zoo --version v2 --kind Zebra",
        f"create webhook {kind} --defaulting --validation --conversion",
    ):
        assert kapi(line) == 0
    used, beside = set(), set()
    for path in folder.rglob("*.py"):
        if "Zebra" in path.read_text():
            names = set(_bound(ast.parse(path.read_text())))
            used |= names
            beside |= names if "zebra" in names else set()
    project = read_project(folder)

    def named(name):
        return new_kind(project, group="zoo", version="v1", kind=name, plural="", namespaced=True)

    classes = {name for name in used if name[0].isupper() and name.isalnum() and not name.isupper()}
    assert len(classes - {"Zebra"}) > 10
    for name in sorted(classes):
        if "Zebra" not in name:
            with pytest.raises(BadName, match="is taken"):
                named(name)
    # Names with an underscore cannot be those of a kind in lower case.
    plain = {name for name in beside if name.isalpha() and name.islower() and name.title() not in classes}
    assert [name for name in plain - {"zebra", "obj"} if named(name.title()).variable == name] == []


def _bound(tree):
    """The names that a module binds: imports, classes, functions, arguments, variables."""
    for node in ast.walk(tree):
        match node:
            case ast.alias():
                yield (node.asname or node.name).partition(".")[0]
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id


def test_a_folder_without_a_project_is_refused(folder, capsys):
    assert kapi(CREATE_API) == 1
    assert "begin with kapi init" in capsys.readouterr().err
    assert tree(folder) == {}


def test_another_project_and_a_newer_layout_are_refused(folder, capsys):
    kapi(INIT)
    assert kapi("init --domain=example.org --name=other") == 1
    assert "this is the project vpc-operator of example.com already" in capsys.readouterr().err
    project = folder / "PROJECT"
    project.write_text(project.read_text().replace('layout: "1"', 'layout: "2"'))
    assert kapi(CREATE_API) == 1
    assert "is kapi too old?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layout: [", "PROJECT: yaml: "),
        ('layout: "1"\nname: 7\n', "PROJECT: Expected `str`, got `int` - at `$.name`"),
        ("- layout\n", "PROJECT: layout None is not known"),
    ],
)
def test_a_project_file_that_cannot_be_read_is_told(folder, capsys, text, message):
    (folder / "PROJECT").write_text(text)
    assert kapi(CREATE_API) == 1
    assert message in capsys.readouterr().err


def test_an_unknown_kind_of_add_controller_is_refused(folder, capsys):
    kapi(INIT)
    assert kapi(ADD_CONTROLLER) == 1
    assert "PROJECT has no Vpc of network.example.com/v1; its kinds: none yet" in capsys.readouterr().err
    assert kapi("add controller --api-version=network/v1 --kind=Vpc") == 2
    assert "expected GROUP.example.com/VERSION" in capsys.readouterr().err


def test_a_controller_can_be_added_later(folder):
    kapi(INIT)
    kapi("create api --group network --version v1 --kind Vpc --controller=false")
    assert (
        "COMPONENTS: tuple[Callable[[Manager], None], ...] = ()" in (folder / "vpc_operator/generated.py").read_text()
    )
    assert kapi(ADD_CONTROLLER) == 0
    assert "vpc_controller.VpcReconciler.setup" in (folder / "vpc_operator/generated.py").read_text()


def test_a_second_version_is_served_and_not_stored(folder):
    kapi(INIT)
    kapi(CREATE_API)
    assert kapi("create api --group network --version v2 --kind Vpc") == 0
    crd = yaml.decode((folder / "config/crd/bases/network.example.com_vpcs.yaml").read_bytes())
    assert [(one["name"], one["storage"]) for one in crd["spec"]["versions"]] == [("v2", False), ("v1", True)]


def test_webhooks_are_added_one_after_the_other(folder, capsys):
    for line in (INIT, CREATE_API, "create api --group network --version v2 --kind Vpc"):
        kapi(line)
    kind = "--group network --version v1 --kind Vpc"
    assert kapi(f"create webhook {kind} --defaulting") == 0
    webhooks = folder / "vpc_operator/webhooks"
    assert {path.name for path in webhooks.iterdir()} == {"__init__.py", "server.py", "vpc_defaulting.py"}
    edited = (webhooks / "vpc_defaulting.py").read_text() + "# mine\n"
    (webhooks / "vpc_defaulting.py").write_text(edited)
    assert kapi(f"create webhook {kind} --validation=true --conversion") == 0
    assert (webhooks / "vpc_defaulting.py").read_text() == edited
    generated = (folder / "vpc_operator/generated.py").read_text()
    for module in ("vpc_defaulting", "vpc_validation", "vpc_conversion"):
        assert f"{module}.register" in generated
    conversion = yaml.decode((folder / "config/crd/bases/network.example.com_vpcs.yaml").read_bytes())["spec"][
        "conversion"
    ]
    assert conversion["webhook"]["clientConfig"]["service"]["path"] == "/convert-vpc"
    assert "../webhook" in (folder / "config/default/kustomization.yaml").read_text()
    names = [
        rule["resourceNames"]
        for rule in yaml.decode_all((folder / "config/rbac/role.yaml").read_bytes())[0]["rules"]
        if "get" in rule["verbs"]
    ]
    assert names == [["vpcs.network.example.com"]]


@pytest.mark.parametrize(
    ("options", "message", "status"),
    [
        ("--version v1 --kind Site --defaulting", "PROJECT has no Site of network.example.com/v1; its kinds: Vpc", 1),
        ("--version v1 --kind Vpc", "which webhook?", 2),
        ("--version v1 --kind Vpc --conversion", "here v1 of v1; kapi create api adds versions", 1),
    ],
)
def test_webhooks_that_cannot_be_are_refused(folder, capsys, options, message, status):
    kapi(INIT)
    kapi(CREATE_API)
    before = tree(folder)
    assert kapi(f"create webhook --group network {options}") == status
    assert message in capsys.readouterr().err
    assert tree(folder) == before


def test_webhooks_belong_to_one_version(folder, capsys):
    for line in (INIT, CREATE_API, "create api --group network --version v2 --kind Vpc"):
        kapi(line)
    assert kapi("create webhook --group network --version v1 --kind Vpc --defaulting") == 0
    assert kapi("create webhook --group network --version v2 --kind Vpc --validation") == 1
    assert "Vpc of network.example.com/v1 has the webhooks" in capsys.readouterr().err


def test_an_operator_of_some_namespaces_keeps_its_rights_in_the_cluster_apart(folder):
    for line in (INIT, CREATE_API, "create webhook --group network --version v1 --kind Vpc --defaulting"):
        kapi(line)
    assert kapi("edit --namespaces=a") == 0
    documents = yaml.decode_all((folder / "config/rbac/role.yaml").read_bytes())
    assert [(one["kind"], one["metadata"]["name"]) for one in documents] == [
        ("ClusterRole", "vpc-operator"),
        ("RoleBinding", "vpc-operator"),
        ("ClusterRole", "vpc-operator-cluster"),
        ("ClusterRoleBinding", "vpc-operator-cluster"),
    ]
    assert {rule["apiGroups"][0] for rule in documents[2]["rules"]} == {"admissionregistration.k8s.io"}


def test_generated_manifests_are_checked_and_written(folder, capsys):
    kapi(INIT)
    kapi(CREATE_API)
    assert kapi("generate manifests --check") == 0
    types = folder / "vpc_operator/api/vpc_v1.py"
    types.write_text(types.read_text().replace("size: Annotated", "length: Annotated"))
    capsys.readouterr()
    assert kapi("generate manifests --check") == 1
    assert "config/crd/bases/network.example.com_vpcs.yaml is not current" in capsys.readouterr().err
    assert kapi("generate crds") == 0
    assert capsys.readouterr().out == "config/crd/bases/network.example.com_vpcs.yaml\n"
    assert kapi("generate manifests --check") == 0
    types.write_text("import nothing_of_that_name\n")
    assert kapi("generate manifests") == 1
    assert "cannot be imported: ModuleNotFoundError" in capsys.readouterr().err


def test_a_role_is_printed_for_any_module(folder, capsys, monkeypatch):
    (folder / "lamp_rights.py").write_text('class Lamps:\n    RIGHTS = [{"configmaps": ["get"]}]\n')
    assert kapi("generate rbac lamp_rights:Lamps.RIGHTS --name lamps") == 0
    role = yaml.decode(capsys.readouterr().out.encode())
    assert (role["kind"], role["metadata"]["name"]) == ("ClusterRole", "lamps")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    assert kapi("generate rbac lamp_rights:Lamps.NONE") == 1
    assert "has no attribute 'NONE'" in capsys.readouterr().err


def test_a_certificate_is_printed_for_the_service_of_the_project(folder, capsys):
    kapi(INIT)
    capsys.readouterr()
    assert kapi("generate certificate") == 0
    secret = yaml.decode(capsys.readouterr().out.encode())
    assert (secret["kind"], secret["type"], secret["metadata"]["name"]) == (
        "Secret",
        "kubernetes.io/tls",
        "vpc-operator-webhook",
    )
    assert set(secret["data"]) == {"ca.crt", "tls.crt", "tls.key"}


def test_edit_changes_the_image_and_the_namespaces(folder, capsys):
    kapi(INIT)
    kapi(CREATE_API)
    assert kapi("edit --image=registry.example.com:5000/vpc:v3 --namespaces=a,b") == 0
    images = yaml.decode((folder / "config/manager/kustomization.yaml").read_bytes())["images"]
    assert images == [{"name": "operator", "newName": "registry.example.com:5000/vpc", "newTag": "v3"}]
    role, *bindings = yaml.decode_all((folder / "config/rbac/role.yaml").read_bytes())
    assert role["kind"] == "ClusterRole"
    assert [(one["kind"], one["metadata"]["namespace"]) for one in bindings] == [
        ("RoleBinding", "a"),
        ("RoleBinding", "b"),
    ]
    assert "a,b" in (folder / "config/default/kustomization.yaml").read_text()
    assert kapi("edit --namespaces=A") == 2
    assert kapi("edit --namespaces=") == 0
    assert "ClusterRoleBinding" in (folder / "config/rbac/role.yaml").read_text()


def test_an_operator_of_some_namespaces_has_no_cluster_scoped_kinds(folder, capsys):
    kapi(INIT)
    kapi("create api --group network --version v1 --kind Vpc --namespaced=false")
    assert kapi("edit --namespaces=a") == 1
    assert "Vpc of network.example.com/v1 belongs to no namespace" in capsys.readouterr().err


def test_an_upgrade_replaces_files_that_were_not_edited(folder, capsys, monkeypatch):
    from kapi.scaffold import template

    kapi(INIT)
    (folder / "README.md").write_text("# Mine\n")
    original = template.render

    def newer(name, values):
        return original(name, values) + ("# newer\n" if name in ("README.md", "Makefile") else "")

    monkeypatch.setattr("kapi.scaffold.layout.render", newer)
    kapi(INIT)
    assert "# newer" not in (folder / "Makefile").read_text()
    capsys.readouterr()
    assert kapi("edit --upgrade") == 0
    assert (folder / "Makefile").read_text().endswith("# newer\n")
    assert (folder / "README.md").read_text() == "# Mine\n"
    assert capsys.readouterr().out == "Makefile\nREADME.md: edited, left as it is\n"


def test_the_kubectl_form_of_create_still_works(folder, capsys):
    with pytest.raises(SystemExit):
        kapi("create --help")
    output = capsys.readouterr().out
    assert "-f FILE... [OPTION...]" in output
    assert "api  " in output
