"""Pods at random for tests of the Pod Security Standards: each breaks some rules, keeps others, and is valid."""

import random

LEVELS = ("privileged", "baseline", "restricted")
VERSIONS = (
    "latest", "v1.0", "v1.7", "v1.8", "v1.18", "v1.19", "v1.21", "v1.22", "v1.23", "v1.24", "v1.25", "v1.26", "v1.27",
    "v1.28", "v1.29", "v1.30", "v1.31", "v1.32", "v1.33", "v1.34", "v1.35", "v1.36", "v1.99",
)  # fmt: skip
"""The versions at which a check has changed, and those before."""

_VOLUMES = (
    {"configMap": {"name": "m"}},
    {"csi": {"driver": "d"}},
    {"downwardAPI": {}},
    {"emptyDir": {}},
    {"persistentVolumeClaim": {"claimName": "c"}},
    {"projected": {"sources": []}},
    {"secret": {"secretName": "s"}},
    {"hostPath": {"path": "/a"}},
    {"nfs": {"server": "s", "path": "/p"}},
    {"iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:a", "lun": 0}},
    {"gcePersistentDisk": {"pdName": "a"}},
    {"awsElasticBlockStore": {"volumeID": "v"}},
    {"fc": {"targetWWNs": ["a"], "lun": 1}},
    {"cephfs": {"monitors": ["m"]}},
    {"rbd": {"monitors": ["m"], "image": "i"}},
    {"flexVolume": {"driver": "a/b"}},
    {"azureFile": {"secretName": "s", "shareName": "n"}},
    {"azureDisk": {"diskName": "n", "diskURI": "https://blob/a", "kind": "Dedicated"}},
    {"vsphereVolume": {"volumePath": "v"}},
    {"portworxVolume": {"volumeID": "v"}},
    {"photonPersistentDisk": {"pdID": "v"}},
    {"quobyte": {"registry": "h:1", "volume": "v"}},
    {"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}}},
    {"storageos": {"volumeName": "v"}},
    {"glusterfs": {"endpoints": "e", "path": "p"}},
    {"cinder": {"volumeID": "v"}},
    {"flocker": {"datasetName": "d"}},
    {"gitRepo": {"repository": "r"}},
)
_CAPABILITIES = ("CHOWN", "NET_BIND_SERVICE", "NET_RAW", "SYS_ADMIN", "ALL", "KILL", "CAP_X")
_SYSCTLS = (
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem", "net.core.somaxconn", "kernel.msgmax",
)  # fmt: skip
_SELINUX = ("container_t", "container_init_t", "container_engine_t", "spc_t", "x_t")
_ANNOTATED = ("runtime/default", "docker/default", "localhost/p", "unconfined")
_PROFILES = ({"type": "RuntimeDefault"}, {"type": "Unconfined"}, {"type": "Localhost", "localhostProfile": "p"})


class _Random(random.Random):
    def maybe(self, chance, value):
        """The value with a chance, None otherwise."""
        return value if self.random() < chance else None

    def some(self, values, most=3):
        return self.sample(values, self.randint(1, min(most, len(values))))


def _set(**fields):
    return {key: value for key, value in fields.items() if value is not None}


def _shared_context(rand):
    """The fields that the security contexts of Pods and containers share."""
    selinux = _set(
        type=rand.maybe(0.7, rand.choice(_SELINUX)), user=rand.maybe(0.2, "u"), role=rand.maybe(0.2, "r"), level="s0"
    )
    return _set(
        runAsNonRoot=rand.maybe(0.5, rand.random() < 0.8),
        runAsUser=rand.maybe(0.3, rand.choice((0, 1, 1000))),
        seccompProfile=rand.maybe(0.5, rand.choice(_PROFILES)),
        appArmorProfile=rand.maybe(0.2, rand.choice(_PROFILES)),
        seLinuxOptions=rand.maybe(0.2, selinux),
    )


def _capabilities(rand):
    drop = rand.choice(([], ["ALL"], ["ALL"], ["NET_RAW"], ["all"]))
    return _set(drop=drop or None, add=rand.maybe(0.4, rand.some(_CAPABILITIES)))


def _container_context(rand, *, own_users):
    is_privileged = rand.random() < 0.15
    context = _set(
        privileged=rand.maybe(0.3, is_privileged),
        allowPrivilegeEscalation=rand.maybe(0.6, is_privileged or rand.random() < 0.2),
        capabilities=rand.maybe(0.7, _capabilities(rand)),
        procMount=rand.maybe(0.2, "Unmasked" if own_users and rand.random() < 0.7 else "Default"),
        **_shared_context(rand),
    )
    if "SYS_ADMIN" in context.get("capabilities", {}).get("add", ()) and "allowPrivilegeEscalation" in context:
        context["allowPrivilegeEscalation"] = True
    if context.get("privileged"):
        context.pop("allowPrivilegeEscalation", None)
    return context


def _handler(rand):
    host = rand.maybe(0.4, rand.choice(("127.0.0.1", "example.com")))
    return rand.choice(
        (
            {"httpGet": _set(host=host, port=80, path="/")},
            {"tcpSocket": _set(host=host, port=80)},
            {"exec": {"command": ["x"]}},
        )
    )


def _container(rand, name, *, own_users, is_init, host_network):
    port = rand.randint(1, 65535)
    container = {"name": name, "image": "i"}
    if rand.random() < 0.85:
        container["securityContext"] = _container_context(rand, own_users=own_users)
    if rand.random() < 0.3 and not host_network:
        container["ports"] = [_set(containerPort=port, hostPort=rand.maybe(0.6, int(name[1:]) + 80))]
    if not is_init and rand.random() < 0.3:
        probe = rand.choice(("livenessProbe", "readinessProbe", "startupProbe"))
        container[probe] = _handler(rand)
    if not is_init and rand.random() < 0.2:
        container["lifecycle"] = {rand.choice(("postStart", "preStop")): _handler(rand)}
    return container


def _annotations(rand, spec):
    """Annotations that stand for profiles where no field does: those of old Pods."""
    annotations = {}
    if rand.random() < 0.2 and "seccompProfile" not in spec.get("securityContext", {}):
        annotations["seccomp.security.alpha.kubernetes.io/pod"] = rand.choice(_ANNOTATED)
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        context = container.get("securityContext", {})
        if rand.random() < 0.2 and "seccompProfile" not in context:
            key = f"container.seccomp.security.alpha.kubernetes.io/{container['name']}"
            annotations[key] = rand.choice(_ANNOTATED)
        if rand.random() < 0.2 and "appArmorProfile" not in context:
            key = f"container.apparmor.security.beta.kubernetes.io/{container['name']}"
            annotations[key] = rand.choice(("runtime/default", "localhost/p", "unconfined"))
    return annotations


def _windows_pod(rand, name):
    is_host_process = rand.random() < 0.5
    options = {"windowsOptions": {"hostProcess": is_host_process}}
    spec = {"os": {"name": "windows"}, "containers": [{"name": "c", "image": "i"}]}
    spec["securityContext"] = options if rand.random() < 0.7 else {}
    if is_host_process and spec["securityContext"]:
        spec["hostNetwork"] = True
    if rand.random() < 0.5:
        spec["containers"][0]["securityContext"] = {"runAsNonRoot": rand.random() < 0.7}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def random_pod(seed):
    """A Pod; the same for the same seed."""
    rand = _Random(seed)
    name = f"p{seed}"
    if rand.random() < 0.06:
        return _windows_pod(rand, name)
    own_users = rand.random() < 0.25
    host_network = rand.random() < 0.1 and not own_users
    share = {field: True for field in ("hostPID", "hostIPC") if not own_users and rand.random() < 0.1}
    counts = {"containers": rand.randint(1, 3), "initContainers": rand.choice((0, 0, 1, 2))}
    names = {sort: [f"{sort[0]}{index}" for index in range(count)] for sort, count in counts.items()}
    containers = {
        sort: [
            _container(rand, one, own_users=own_users, is_init=sort == "initContainers", host_network=host_network)
            for one in several
        ]
        for sort, several in names.items()
        if several
    }
    sysctls = (
        None
        if host_network or share
        else rand.maybe(0.15, [{"name": one, "value": "1"} for one in rand.some(_SYSCTLS)])
    )
    volumes = [{"name": f"v{index}", **rand.choice(_VOLUMES)} for index in range(rand.choice((0, 0, 1, 2, 3)))]
    spec = _set(
        **containers,
        **share,
        hostNetwork=host_network or None,
        hostUsers=False if own_users else rand.maybe(0.1, True),
        securityContext=rand.maybe(0.85, _set(**_shared_context(rand), sysctls=sysctls)),
        volumes=volumes or None,
    )
    annotations = _annotations(rand, spec)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec}
