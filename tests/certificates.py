"""Certificates that tests issue, valid or not, by authorities of their own."""

import datetime as dt

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kapi.base.tls import KeyPair

DAY = dt.timedelta(days=1)


class Issued:
    """A certificate with its key; `issue` makes others below it."""

    def __init__(self, certificate, key):
        self.certificate = certificate
        self.key = key

    @property
    def pem(self):
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self):
        return self.certificate.public_bytes(Encoding.DER)

    def write(self, folder, name):
        """The certificate and its key as files."""
        files = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
        files.certificate.write_bytes(self.pem)
        files.key.write_bytes(self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return files

    def issue(self, name, groups=(), **details):
        return issue(name, groups, issuer=self, **details)


def issue(
    name,
    groups=(),
    *,
    issuer=None,
    authority=False,
    usages=(ExtendedKeyUsageOID.CLIENT_AUTH,),
    begins=-DAY,
    ends=DAY,
    path_length=None,
    digest=None,
    key=None,
    more=(),
    constraints=True,
    attributes=(),
):
    """A certificate; without an issuer it signs itself."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            *attributes,
            *([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []),
        ]
    )
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
    )
    if constraints:
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=path_length), critical=True)
    if usages and not authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    for extension, critical in more:
        builder = builder.add_extension(extension, critical=critical)
    return Issued(builder.sign(issuer.key if issuer else key, digest or hashes.SHA256()), key)


def new_authority(name="test-ca", **details):
    """A certificate authority that signs itself."""
    return issue(name, authority=True, **details)
