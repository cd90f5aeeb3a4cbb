"""Debian's LDAP server for a test, with the attributes of Active Directory that answers need."""

import base64
import contextlib
import datetime as dt
import ipaddress
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.waiting import wait_until

BASE = "dc=example,dc=org"
ACCOUNT = "cn=crawlctl,dc=example,dc=org"
PASSWORD = "a pass phrase of the account"
_SCHEMAS = ("core", "cosine", "nis", "inetorgperson")
_CONFIGURATION = """
{includes}
modulepath /usr/lib/ldap
moduleload back_mdb
attributetype ( 1.2.840.113556.1.4.221 NAME 'sAMAccountName' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
attributetype ( 1.2.840.113556.1.4.146 NAME 'objectSid' SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 SINGLE-VALUE )
attributetype ( 1.2.840.113556.1.4.1301 NAME 'tokenGroups' SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
attributetype ( 1.2.840.113556.1.4.8 NAME 'userAccountControl' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
objectclass ( 1.2.840.113556.1.5.9 NAME 'user' SUP top AUXILIARY
  MAY ( sAMAccountName $ objectSid $ tokenGroups $ userAccountControl ) )
pidfile {directory}/slapd.pid
TLSCertificateFile {directory}/cert.pem
TLSCertificateKeyFile {directory}/key.pem
database mdb
maxsize 16777216
suffix "{base}"
rootdn "{account}"
rootpw "{password}"
directory {directory}/data
"""


@dataclass(frozen=True)
class Slapd:
    """A running server. `certificate` is the PEM text of its own certificate."""

    url: str
    tls_url: str
    certificate: str
    process: "subprocess.Popen[bytes]"

    def configuration(self, **facts):
        """Return the configuration of a connection to it."""
        return {"servers": [self.url], "bind_dn": ACCOUNT, "password": PASSWORD, "base": BASE, **facts}


def sid(*parts):
    """Return the bytes of the security identifier `S-1-5-…`."""
    return bytes((1, len(parts))) + (5).to_bytes(6, "big") + struct.pack(f"<{len(parts)}I", *parts)


def in_base64(value):
    return base64.b64encode(value).decode()


@contextlib.contextmanager
def slapd(directory: Path, entries: str) -> Iterator[Slapd]:
    """Run a server with these entries, as LDIF, below the base."""
    (directory / "data").mkdir(parents=True)
    certificate = _write_certificate(directory)
    configuration = directory / "slapd.conf"
    includes = "\n".join(f"include /etc/ldap/schema/{name}.schema" for name in _SCHEMAS)
    configuration.write_text(
        _CONFIGURATION.format(includes=includes, directory=directory, base=BASE, account=ACCOUNT, password=PASSWORD)
    )
    content = directory / "content.ldif"
    top = f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n\n"
    content.write_text(top + entries)
    subprocess.run([_program("slapadd"), "-f", configuration, "-l", content], check=True, capture_output=True)
    plain, tls = _free_port(), _free_port()
    url, tls_url = f"ldap://127.0.0.1:{plain}", f"ldaps://127.0.0.1:{tls}"
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [_program("slapd"), "-f", configuration, "-h", f"{url}/ {tls_url}/", "-d", "0"], stdout=log, stderr=log
        )
    try:
        wait_until(lambda: _listens(plain) and _listens(tls))
        yield Slapd(url, tls_url, certificate, process)
    finally:
        process.kill()
        process.wait()


def _program(name):
    found = shutil.which(name, path="/usr/sbin")
    assert found is not None
    return found


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _write_certificate(directory):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM).decode()
    (directory / "cert.pem").write_text(pem)
    (directory / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return pem
