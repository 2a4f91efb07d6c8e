"""AuthenticationConfiguration: every mistake is refused with file, line and field, in the words of kube-apiserver."""

import pytest

from certificates import new_authority
from kapi.server.authn.authenticationconfig import read_authentication_config
from kapi.server.configfile import ConfigFileError

VALID = """
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: https://issuer.example
    discoveryURL: https://elsewhere.example/discovery
    audiences: [kapi, other]
    audienceMatchPolicy: MatchAny
  claimValidationRules:
  - claim: hd
    requiredValue: example.com
  - expression: claims.exp - claims.nbf <= 86400.0
    message: too long
  claimMappings:
    username:
      expression: "claims.email_verified ? claims.email : ''"
    groups:
      claim: groups
      prefix: ""
    uid:
      claim: sub
    extra:
    - key: example.com/tenant
      valueExpression: claims.tenant
  userValidationRules:
  - expression: "!user.username.startsWith('system:')"
anonymous:
  enabled: true
  conditions:
  - path: /livez
"""


def read(tmp_path, text):
    path = tmp_path / "authentication.yaml"
    path.write_text(text)
    return read_authentication_config(path, ["https://kubernetes.default.svc"])


def test_valid_configuration_is_read(tmp_path):
    config = read(tmp_path, VALID)
    assert [entry["issuer"]["url"] for entry in config.issuers] == ["https://issuer.example"]
    assert config.anonymous == {"enabled": True, "conditions": [{"path": "/livez"}]}
    older = VALID.replace("k8s.io/v1\n", "k8s.io/v1beta1\n")
    assert read(tmp_path, older) == config


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("url: https://issuer.example\n    ", "", 5, "jwt[0].issuer.url: Required value"),
        ("https://issuer.example", "http://issuer.example", 6, "URL scheme must be https"),
        ("https://issuer.example", "https://a:b@issuer.example", 6, "must not contain a username or password"),
        ("https://issuer.example", "https://issuer.example?a=b", 6, "must not contain a query"),
        ("https://issuer.example", "https://issuer.example#a", 6, "must not contain a fragment"),
        ("https://issuer.example", "https://kubernetes.default.svc", 6, "must not overlap with disallowed issuers"),
        (
            "https://elsewhere.example/discovery",
            "https://issuer.example/",
            7,
            "discoveryURL must be different from URL",
        ),
        ("[kapi, other]", "[]", 8, "at least one jwt[0].issuer.audiences is required"),
        ("[kapi, other]", "[kapi, kapi]", 8, 'jwt[0].issuer.audiences[1]: Duplicate value: "kapi"'),
        ("audienceMatchPolicy: MatchAny", "audienceMatchPolicy: ''", 9, "must be MatchAny for multiple audiences"),
        (
            "audiences: [kapi, other]\n    audienceMatchPolicy: MatchAny",
            "audiences: [a]\n    audienceMatchPolicy: All",
            9,
            "must be empty or MatchAny",
        ),
        (
            "audienceMatchPolicy: MatchAny",
            "audienceMatchPolicy: MatchAny\n    certificateAuthority: x",
            10,
            '"<omitted>"',
        ),
        (
            "audienceMatchPolicy: MatchAny",
            "audienceMatchPolicy: MatchAny\n    egressSelectorType: cluster",
            10,
            "egress",
        ),
        ("- claim: hd", "- claim: hd\n    expression: 'true'", 11, "claim and expression can't both be set"),
        ("claim: hd\n    requiredValue: example.com", "message: m", 11, "claim or expression is required"),
        ("requiredValue: example.com", "message: m", 12, "may not be specified when claim is set"),
        ("message: too long", "requiredValue: x", 14, "may not be specified when expression is set"),
        ("expression: claims.exp - claims.nbf <= 86400.0", "expression: claims.exp -", 13, "compilation failed: ERROR"),
        ("expression: claims.exp - claims.nbf <= 86400.0", "expression: claims.exp", 13, "must evaluate to bool"),
        (
            "expression: claims.exp - claims.nbf <= 86400.0",
            "expression: user.x == 1",
            13,
            "undeclared reference to 'user'",
        ),
        ("claims.email_verified ? claims.email : ''", "claims.email", 17, "claims.email_verified must be used in"),
        (
            'expression: "claims.email_verified',
            'prefix: p\n      expression: "claims.email_verified',
            17,
            "may not be specified when expression is set",
        ),
        ('      prefix: ""\n', "", 18, "prefix is required when claim is set"),
        ("claim: sub", "claim: sub\n      expression: claims.sub", 21, "claim and expression can't both be set"),
        ("example.com/tenant", "tenant", 24, "jwt[0].claimMappings.extra[0].key"),
        ("example.com/tenant", "example.com/Tenant", 24, "must be lowercase"),
        ("example.com/tenant", "a.k8s.io/tenant", 24, "reserved for Kubernetes use"),
        ("valueExpression: claims.tenant", "valueExpression: ''", 25, "Required value"),
        ("!user.username.startsWith('system:')", "user.nope == ''", 27, "undefined field 'nope'"),
        ("enabled: true", "enabled: false", 30, "enabled should be set to true when conditions are defined"),
        ("enabled: true", "enabled: 'yes'", 29, "anonymous.enabled: must be a boolean"),
        ("claimMappings:", "claimMapping:", 15, "unknown field"),
        ("kind: AuthenticationConfiguration", "kind: Other", 3, "Unsupported value"),
    ],
)
def test_mistake_is_refused_with_its_line(tmp_path, old, new, line, reason):
    assert old in VALID
    with pytest.raises(ConfigFileError) as caught:
        read(tmp_path, VALID.replace(old, new, 1))
    text = str(caught.value)
    assert reason in text
    assert any(one.startswith(f"{tmp_path}/authentication.yaml:{line}: ") for one in text.splitlines()), text


def test_certificate_authority_is_read(tmp_path):
    pem = new_authority().pem.decode().replace("\n", "\n      ")
    given = VALID.replace("audiences:", f"certificateAuthority: |\n      {pem}\n    audiences:", 1)
    assert "BEGIN CERTIFICATE" in read(tmp_path, given).issuers[0]["issuer"]["certificateAuthority"]


def test_issuers_are_distinct_and_not_too_many(tmp_path):
    entry = VALID[VALID.index("- issuer") : VALID.index("anonymous")]
    with pytest.raises(ConfigFileError, match=r'jwt\[1\]\.issuer\.url: Duplicate value: "https://issuer\.example"'):
        read(tmp_path, VALID.replace(entry, entry * 2))
    with pytest.raises(ConfigFileError, match="must have at most 64 items"):
        read(tmp_path, VALID.replace(entry, entry * 65))
