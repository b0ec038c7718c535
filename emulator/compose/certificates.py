"""Makes X.509 certificates of the local authority. Knows no file; imported only when one has to be made."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_DAYS = 3650
_SERVER_DAYS = 397  # the longest that browsers accept
_BACKDATED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyedCertificate:
    """PEM bytes of a certificate and its private key."""

    certificate: bytes
    key: bytes
    not_after: datetime


def make_authority(now: datetime) -> KeyedCertificate:
    """A new authority that can vouch for loopback names and addresses only, should anybody trust it widely."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "takohost local authority")])
    not_after = now + timedelta(days=_AUTHORITY_DAYS)
    builder = (
        _builder(name, name, key.public_key(), now, not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_authority=True), critical=True)
        .add_extension(x509.NameConstraints(_loopback_subtrees(), None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return KeyedCertificate(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key), not_after)


def issue_server(ca_pem: bytes, ca_key_pem: bytes, names: Sequence[str], now: datetime) -> KeyedCertificate:
    """A server certificate for DNS names and addresses. Raises `ValueError`, `TypeError` for a damaged authority."""
    authority = x509.load_pem_x509_certificate(ca_pem)
    ca_key = serialization.load_pem_private_key(ca_key_pem, password=None)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey) or ca_key.public_key() != authority.public_key():
        raise ValueError("the authority's key does not belong to its certificate")
    if authority.not_valid_after_utc <= now:
        raise ValueError("the authority has expired")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "takohost")])
    not_after = min(now + timedelta(days=_SERVER_DAYS), authority.not_valid_after_utc)
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        _builder(subject, authority.subject, key.public_key(), now, not_after)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issuer_id, critical=False)
    )
    return KeyedCertificate(_pem(builder.sign(ca_key, hashes.SHA256())), _key_pem(key), not_after)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(not_after)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _loopback_subtrees() -> list[x509.GeneralName]:
    return [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_network("127.0.0.0/8")),
        x509.IPAddress(ipaddress.ip_network("::1/128")),
    ]


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
