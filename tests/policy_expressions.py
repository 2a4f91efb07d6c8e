"""The rules, expressions and mutations that the random policies of `policy_programs` are made of."""

CONFIG_MAP, DEPLOYMENT, AUTOSCALER, WIDGET = "configmaps", "deployments", "horizontalpodautoscalers", "widgets"

RULES = {
    CONFIG_MAP: {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]},
    DEPLOYMENT: {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]},
    AUTOSCALER: {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v1"],
        "resources": ["horizontalpodautoscalers"],
    },
    WIDGET: {"apiGroups": ["policies.example.com"], "apiVersions": ["v1beta1"], "resources": ["widgets"]},
}

VARIABLES = {
    "meta": "object.metadata",
    "count": "has(object.data) ? object.data.size() : 0",
    "labels": "has(object.metadata.labels) ? object.metadata.labels : {}",
    "twice": "variables.count * 2",
    "broken": "object.nothing.here",
    "nothing": "null",
    "list": "['a', 'b'].map(x, x + 'c')",
    "user": "request.userInfo.username",
    "allowed": "authorizer.requestResource.check('delete').allowed()",
    "params": "params",
}

GENERAL = [
    "true",
    "false",
    "has(object.metadata.labels)",
    "object.metadata.?labels[?'tier'].orValue('none') != 'bad'",
    "object.metadata.labels.tier == 'front'",
    "object.metadata.name != 'bad'",
    "!has(request.name) || request.name == object.metadata.name",
    "request.operation in ['CREATE', 'UPDATE']",
    "request.operation == 'UPDATE' || oldObject == null",
    "oldObject == null || oldObject.metadata.name == object.metadata.name",
    "oldObject.metadata.name == object.metadata.name",
    "object == oldObject",
    "request.userInfo.username == 'alice'",
    "'system:masters' in request.userInfo.groups",
    "request.userInfo.extra.size() == 0",
    "has(request.userInfo.uid)",
    "request.namespace == namespaceObject.metadata.name",
    "namespaceObject.metadata.labels['team'] == 'red'",
    "namespaceObject.metadata.labels['nope'] == 'red'",
    "has(namespaceObject.metadata.annotations)",
    "namespaceObject.status.phase == 'Active' && namespaceObject.spec.finalizers == ['kubernetes']",
    "request.kind.version == 'v1'",
    "request.resource.version == request.requestResource.version",
    "request.requestKind.kind == request.kind.kind",
    "has(request.subResource)",
    "request.options.kind == 'CreateOptions' || request.options.kind == 'UpdateOptions'",
    "has(request.options.fieldManager)",
    "request.dryRun",
    "authorizer.requestResource.check('delete').allowed()",
    "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
    "authorizer.group('apps').resource('deployments').subresource('scale').check('update').allowed()",
    "authorizer.path('/policy').check('get').allowed()",
    "authorizer.path('/metrics').check('get').allowed()",
    "authorizer.serviceAccount('default', 'robot').group('').resource('pods').check('list').allowed()",
    "authorizer.serviceAccount('default', 'Robot').group('').resource('pods').check('list').allowed()",
    "authorizer.group('').resource('').check('get').allowed()",
    "authorizer.group('').resource('pods').labelSelector('a in (b)').check('list').errored()",
    "object.metadata.annotations.all(k, k.startsWith('a'))",
    "object.metadata.?annotations.orValue({}).all(k, v, k.size() + v.size() < 20)",
    "url('https://a.b/' + object.metadata.name).getHost() == 'a.b'",
    "quantity('1Gi').isGreaterThan(quantity('5')) && object.kind != ''",
    "object.metadata.name.matches('^[a-z]+$')",
    "dyn(object.metadata.name) == 1",
    "int(object.metadata.name) == 1",
    "has(object.metadata.uid)",
    "has(object.metadata.managedFields)",
    "has(object.metadata.creationTimestamp)",
    "has(object.status)",
    "[1, 2, 3].map(x, x * 1000000).sum() > 0 && object.metadata.namespace == request.namespace",
]

BY_KIND = {
    CONFIG_MAP: [
        "has(object.data) && object.data.size() < 3",
        "object.data.all(k, object.data[k] != 'secret')",
        "object.data.k == 'v'",
        "object.?data.k.orValue('') == 'v'",
        "has(object.immutable)",
    ],
    DEPLOYMENT: [
        "object.spec.replicas <= 3",
        "object.spec.template.spec.containers.all(c, c.image.contains(':'))",
        "object.spec.template.spec.containers[0].resources.limits.cpu == '1'",
        "has(object.spec.strategy.rollingUpdate) && object.spec.strategy.rollingUpdate.maxSurge == '25%'",
        "has(object.spec.template.metadata.creationTimestamp)",
        "object.spec.template.spec.containers.map(c, c.name) == ['main']",
        "object.spec.selector.matchLabels == object.spec.template.metadata.labels",
    ],
    AUTOSCALER: [
        "object.spec.maxReplicas <= 5",
        "object.spec.targetCPUUtilizationPercentage == 80",
        "has(object.spec.metrics)",
        "object.apiVersion == 'autoscaling/v1'",
        "object.apiVersion == 'autoscaling/v2'",
    ],
    WIDGET: [
        "object.spec.size <= 3",
        "object.apiVersion == 'policies.example.com/v1beta1'",
        "object.spec.mode in ['a', 'b']",
        "object.spec.ports.exists(p, p.name == 'http' && p.port == 80)",
        "object.spec.?ports.orValue([]).size() < 2",
    ],
}
WITH_VARIABLES = [
    "variables.count < 2",
    "variables.twice < 5",
    "variables.broken == 1",
    "variables.broken == 1 || true",
    "variables.nothing == null",
    "variables.list == ['ac', 'bc']",
    "variables.labels.size() < 2",
    "variables.user == 'alice'",
    "variables.allowed",
    "variables.meta.name == request.name",
    "has(variables.meta.labels)",
    "variables.count + variables.twice + variables.count < 10",
]
WITH_PARAMS = [
    "params.data.mode != 'strict'",
    "params != null && params.data.mode == 'strict'",
    "params.kind == 'ConfigMap' && params.apiVersion == 'v1'",
    "params == null",
    "!has(params.data.deny) || object.metadata.name != params.data.deny",
    "params.metadata.namespace == request.namespace",
    "params.spec.size > 1",
    "params.metadata.labels.size() > 0",
]
MESSAGES = [
    "'name is ' + object.metadata.name",
    "'user ' + request.userInfo.username + ' does ' + request.operation",
    "'%s'.format([object.metadata.?labels.orValue({})])",
    "'labels: ' + object.metadata.labels.tier",
    "'a\\nb'",
    "'   '",
    "object.metadata.name + ' of ' + request.kind.kind + ' in ' + namespaceObject.metadata.name",
    "'%s'.format([object.?spec.orValue('no spec')])",
    "'%s'.format([object.?data.orValue({})])",
    "'%s'.format([request.options.kind]) + request.resource.version + request.kind.version",
    "string(object.metadata.?generation.orValue(-1))",
    "'%s'.format([namespaceObject.metadata.labels])",
]
PARAM_MESSAGES = ["'mode is ' + params.data.mode", "'param ' + params.metadata.name"]
CONDITIONS = [
    "true",
    "request.userInfo.username == 'alice'",
    "object.metadata.name != 'skip'",
    "has(object.metadata.labels) && has(object.metadata.labels.tier)",
    "object.metadata.labels.tier == 'front'",
    "namespaceObject == null",
    "namespaceObject.metadata.name == 'x'",
    "authorizer.requestResource.check('delete').allowed()",
    "request.operation != 'UPDATE'",
    "request.resource.version == 'v1'",
]
ANNOTATIONS = ["'n=' + object.metadata.name", "null", "string(object.metadata.labels.tier)", "''", "request.operation"]


LABELS = "has(object.metadata.labels)"
SIDECAR = "Object.spec.template.spec.containers{name: 'side', image: 's:1'}"
POD_SPEC = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{%s}}}}"

JSON_PATCHES = [
    (
        f"{LABELS} ? [JSONPatch{{op: 'add', path: '/metadata/labels/added', value: 'x'}}]"
        " : [JSONPatch{op: 'add', path: '/metadata/labels', value: {'added': 'x'}}]"
    ),
    "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: 'y'}]",
    "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a.b/c'), value: 'y'}]",
    "[JSONPatch{op: 'remove', path: '/metadata/labels/tier'}]",
    (
        "[JSONPatch{op: 'test', path: '/metadata/name', value: 'one'},"
        " JSONPatch{op: 'add', path: '/metadata/annotations', value: {'t': '1'}}]"
    ),
    "[JSONPatch{op: 'replace', path: '/metadata/annotations/a', value: request.userInfo.username}]",
    "[JSONPatch{op: 'copy', from: '/metadata/name', path: '/metadata/annotations/n'}]",
    "[JSONPatch{op: 'move', from: '/metadata/annotations/a', path: '/metadata/annotations/b'}]",
    "[JSONPatch{op: 'frob', path: '/x'}]",
    "[JSONPatch{op: 'add', path: '/nothing', value: 1}]",
    "[JSONPatch{op: 'add', path: '/metadata/labels', value: 5}]",
    "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': object.kind}}]",
    "[JSONPatch{op: 'add', path: '/metadata/labels', value: Object.metadata.labels{count: string(variables.count)}}]",
    "[JSONPatch{op: 'add', path: '/metadata/labels', value: Object.metadata{a: Object.wrong{b: 'c'}}}]",
    "[JSONPatch{op: 'add', path: '/metadata/labels', value: object.metadata.nothing}]",
    "[JSONPatch{op: 'test', path: '/metadata/annotations/none', value: 'y'}]",
]
JSON_PATCHES_BY_KIND = {
    CONFIG_MAP: [
        "[JSONPatch{op: 'add', path: '/data', value: {'k': 'patched'}}]",
        "[JSONPatch{op: 'add', path: '/data/new', value: object.metadata.name}]",
        "[JSONPatch{op: 'remove', path: '/data/k'}]",
        "[JSONPatch{op: 'add', path: '/immutable', value: false}]",
    ],
    DEPLOYMENT: [
        "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 2}]",
        "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 2.0}]",
        "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 'two'}]",
        "[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas + 1}]",
        "[JSONPatch{op: 'add', path: '/spec/template/spec/containers/-', value: " + SIDECAR + "}]",
        "[JSONPatch{op: 'add', path: '/spec/template/spec/containers/7', value: " + SIDECAR + "}]",
        "[JSONPatch{op: 'remove', path: '/spec/template/spec/containers/0/image'}]",
        "[JSONPatch{op: 'add', path: '/spec/template/spec/nodeSelector', value: {'disk': 'ssd'}}]",
    ],
    AUTOSCALER: [
        "[JSONPatch{op: 'replace', path: '/spec/maxReplicas', value: 4}]",
        "[JSONPatch{op: 'add', path: '/spec/minReplicas', value: 2}]",
    ],
    WIDGET: [
        "[JSONPatch{op: 'add', path: '/spec/size', value: 1}]",
        "[JSONPatch{op: 'remove', path: '/spec/size'}]",
        "[JSONPatch{op: 'add', path: '/spec/tags', value: ['x', string(object.metadata.name)]}]",
        "[JSONPatch{op: 'add', path: '/spec/size', value: 'large'}]",
    ],
}
APPLIED = [
    "Object{metadata: Object.metadata{labels: {'applied': 'yes'}}}",
    "Object{metadata: Object.metadata{annotations: {'who': request.userInfo.username}}}",
    "Object{metadata: Object.metadata{labels: {'n': string(variables.count), 'tier': 'applied'}}}",
    f"Object{{metadata: Object.metadata{{?labels: {LABELS} ? optional.of({{'x': 'y'}}) : optional.none()}}}}",
    "Object{metadata: Object.metadata{labels: {'n': object.nothing}}}",
    "Object{nothing: 1}",
    "Object{metadata: Object.metadata{labels: {'n': 1}}}",
    "Object{metadata: Object.spec{labels: {'n': 'a'}}}",
    "Object{metadata: Object.metadata{finalizers: ['example.com/x']}}",
    "Object{metadata: Object.metadata{labels: Object.metadata.labels{x: 'z'}}}",
    "Object{}",
    (
        "authorizer.requestResource.check('delete').allowed()"
        " ? Object{metadata: Object.metadata{labels: {'may': 'delete'}}} : Object{}"
    ),
]
APPLIED_BY_KIND = {
    CONFIG_MAP: ["Object{data: {'applied': 'yes'}}", "Object{data: Object.data{applied: object.metadata.name}}"],
    DEPLOYMENT: [
        "Object{spec: Object.spec{replicas: 2}}",
        "Object{spec: Object.spec{replicas: object.spec.replicas * 2}}",
        "Object{spec: Object.spec{replicas: 'two'}}",
        "Object{spec: Object.status{replicas: 2}}",
        "Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'app': 'web'}}}}",
        POD_SPEC % ("containers: [" + SIDECAR + "]"),
        POD_SPEC % "containers: [Object.spec.template.spec.containers{name: 'main', image: 'replaced:2'}]",
        POD_SPEC % "containers: [Object.spec.template.spec.containers{image: 'no-name'}]",
        POD_SPEC % "containers: [Object.spec.template.spec.containers{name: 'main', args: ['a']}]",
        POD_SPEC % "nodeSelector: {'a': 'b'}",
        POD_SPEC % "hostNetwork: true, dnsPolicy: 'Default'",
        POD_SPEC
        % (
            "containers: object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, "
            "imagePullPolicy: 'Never'})"
        ),
    ],
    AUTOSCALER: ["Object{spec: Object.spec{maxReplicas: 4}}", "Object{spec: Object.spec{minReplicas: 2}}"],
    WIDGET: [
        "Object{spec: Object.spec{size: 1}}",
        "Object{spec: Object.spec{ports: [Object.spec.ports{name: 'http', port: 8080}]}}",
        "Object{spec: Object.spec{ports: [Object.spec.ports{name: 'https', port: 443}]}}",
        "Object{spec: Object.spec{tags: ['x']}}",
        "Object{spec: Object.spec{unknown: 'x'}}",
        "Object{spec: Object.spec{mode: variables.user}}",
    ],
}
APPLIED_PARAMS = [
    "Object{metadata: Object.metadata{labels: {'mode': string(params.data.mode)}}}",
    "Object{metadata: Object.metadata{labels: {'kind': string(params.kind)}}}",
    "Object{metadata: Object.metadata{labels: {'param': params == null ? 'none' : string(params.metadata.name)}}}",
]
