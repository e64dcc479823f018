"""Tests of TLS of a served database, and of errors of connections that cannot be made."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from cli_runs import error_of, output_of
from served import Certificates, Process, make_certificates, serving

import topicdb
from topicdb.remote import addresses


class Issued(NamedTuple):
    """PEM files of a certificate and its key."""

    certificate: Path
    key: Path


def issue(authority: trustme.CA, directory: Path, *names: str) -> Issued:
    """Issues a certificate for names or e-mail addresses, and writes it to ``directory``."""
    directory.mkdir()
    issued = authority.issue_cert(*names)
    made = Issued(directory / "certificate.pem", directory / "key.pem")
    made.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(made.key))
    return made


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "tls")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db") as database:
        database.append([("a", 1, b"x")])
        yield database


@pytest.fixture
def taken() -> Iterator[int]:
    """A port with a listener that says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


# Listening


@pytest.mark.parametrize("option", ["--listen", "--metrics"])
def test_a_port_that_is_taken_is_named_before_anything_is_made(
    tmp_path: Path, taken: int, option: str
) -> None:
    path = tmp_path / "new.db"
    arguments = [option, f"127.0.0.1:{taken}"]
    if option == "--metrics":
        arguments += ["--listen", "127.0.0.1:0"]
    told = error_of("serve", path, *arguments)
    assert told.endswith(
        f"cannot listen at 127.0.0.1:{taken}: another program listens there: end it, or choose "
        "another port"
    )
    assert not path.exists()


def test_a_port_of_another_server_is_taken(tmp_path: Path) -> None:
    with Process(tmp_path / "db") as server:
        address = server.url.removeprefix("grpc://")
        told = error_of("serve", tmp_path / "other", "--listen", address)
        assert f"{address}: another program listens there" in told
        with topicdb.open(tmp_path / "third") as other:
            port = int(address.rpartition(":")[2])
            with pytest.raises(topicdb.StorageError, match=rf"127\.0\.0\.1:{port}: another"):
                topicdb.serve(other, port=port)
    with Process(tmp_path / "db", "--listen", address):
        pass  # soon after a server has ended, another one can listen there


def test_addresses_that_nobody_can_listen_at(tmp_path: Path) -> None:
    nowhere = error_of("serve", tmp_path / "db", "--listen", "192.0.2.1:0", "--insecure")
    assert "cannot listen at 192.0.2.1:0" in nowhere and not (tmp_path / "db").exists()
    with pytest.raises(topicdb.StorageError, match=r"nosuch\.invalid:1: the name"):
        addresses.check_address("nosuch.invalid", 1)


def test_certificates_that_are_none(tmp_path: Path, certificates: Certificates) -> None:
    other = make_certificates(tmp_path / "other")
    serve = ("serve", tmp_path / "db", "--listen", "127.0.0.1:0")
    swapped = error_of(*serve, "--tls-cert", certificates.key, "--tls-key", certificates.key)
    assert "tls_certificate" in swapped and "key.pem" in swapped
    unlike = error_of(*serve, "--tls-cert", certificates.certificate, "--tls-key", other.key)
    assert "mismatch" in unlike
    assert "tls_client_ca" in error_of(*serve, "--tls-client-ca", certificates.root)
    pair = ("--tls-cert", certificates.certificate, "--tls-key", certificates.key)
    assert "tls_client_ca" in error_of(*serve, *pair, "--tls-client-ca", certificates.key)
    assert "none.pem" in error_of(*serve, *pair, "--tls-client-ca", tmp_path / "none.pem")
    for source in (b"", b"hello", certificates.key):
        with pytest.raises(ValueError, match="tls_root_certs"):
            topicdb.connect("grpc+tls://localhost:1", tls_root_certs=source)
    with pytest.raises(ValueError, match="give both"):
        topicdb.connect("grpc+tls://localhost:1", tls_key=certificates.key)
    commented = "# für München\n".encode() + certificates.root.read_bytes()
    assert addresses.read_authorities(commented, "x") == commented
    assert "--memory" in error_of(*serve, "--memory", "much")


# Connecting


def refused(url: str, **options: Any) -> str:
    with pytest.raises(topicdb.UnavailableError) as caught:
        topicdb.connect(url, **options)
    text = str(caught.value)
    assert text.startswith(f"{url}: "), text
    return text


def test_why_there_is_no_connection_is_told(
    tmp_path: Path, database: topicdb.Database, certificates: Certificates
) -> None:
    other = make_certificates(tmp_path / "other")
    pair = {"tls_certificate": certificates.certificate, "tls_key": certificates.key}
    with serving(database, **pair) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        with topicdb.connect(url, tls_root_certs=certificates.root) as db:
            assert db.scan("a").count() == 1
        for roots in (other.root, None):
            assert "tls_root_certs" in refused(url, tls_root_certs=roots)
        assert "it may want TLS (grpc+tls://)" in refused(url.replace("+tls", ""))
    with serving(database) as server:
        url = server.url.replace("grpc:", "grpc+tls:")
        assert "speaks no TLS" in refused(url, tls_root_certs=certificates.root)
        port = server.port
    assert "nobody listens there" in refused(f"grpc://127.0.0.1:{port}")
    assert "the name nosuch.invalid is not known" in refused("grpc://nosuch.invalid:1")


def test_a_certificate_of_another_name(tmp_path: Path, database: topicdb.Database) -> None:
    authority = trustme.CA()
    issued = issue(authority, tmp_path / "server", "plant.example")
    roots = authority.cert_pem.bytes()
    with serving(database, tls_certificate=issued.certificate, tls_key=issued.key) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        told = refused(url, tls_root_certs=roots)
        assert "not for localhost" in told and "tls_certificate_name" in told
        with topicdb.connect(url, tls_root_certs=roots, tls_certificate_name="plant.example") as db:
            assert db.scan("a").count() == 1


def test_a_program_that_says_nothing(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicdb.remote.client.connection.CONNECT_TIMEOUT_S", 1.0)
    assert "there was no answer in time" in refused(f"grpc://127.0.0.1:{taken}")


# Certificates of clients


def test_only_clients_with_a_certificate_are_let_in(
    tmp_path: Path, certificates: Certificates
) -> None:
    clients, strangers = trustme.CA(), trustme.CA()
    clients.cert_pem.write_to_path(str(tmp_path / "clients.pem"))
    good = issue(clients, tmp_path / "good", "etl@example.org")
    bad = issue(strangers, tmp_path / "bad", "etl@example.org")
    tokens = tmp_path / "tokens.json"
    token = output_of("token", "new", "etl", "--tokens", tokens, "--everything").strip()
    with Process(
        tmp_path / "db",
        *("--tls-cert", certificates.certificate, "--tls-key", certificates.key),
        *("--tls-client-ca", tmp_path / "clients.pem", "--tokens", tokens),
    ) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        options: dict[str, Any] = {"token": token, "tls_root_certs": certificates.root}
        with topicdb.connect(
            url, tls_certificate=good.certificate, tls_key=good.key, **options
        ) as db:
            db.append([("a", 1, b"")])
            assert db.scan("a").count() == 1
        with pytest.raises(topicdb.AccessError, match="a token is needed"):
            topicdb.connect(
                url,
                tls_root_certs=certificates.root,
                tls_certificate=good.certificate,
                tls_key=good.key,
            )
        assert "tls_certificate" in refused(url, **options)
        told = refused(url, tls_certificate=bad.certificate, tls_key=bad.key, **options)
        assert "tls_certificate" in told
        assert server.stop() == (0, ""), "handshakes that fail are not in the log"


@pytest.mark.parametrize(
    ("version", "is_taken"),
    [
        (ssl.TLSVersion.TLSv1, False),
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python warns that old versions are old
def test_versions_of_tls(
    database: topicdb.Database,
    certificates: Certificates,
    version: ssl.TLSVersion,
    is_taken: bool,
) -> None:
    context = ssl.create_default_context(cafile=str(certificates.root))
    context.set_ciphers("ALL:@SECLEVEL=0")  # the server has to refuse it, and not this side
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = version
    pair = {"tls_certificate": certificates.certificate, "tls_key": certificates.key}
    with (
        serving(database, **pair) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain,
    ):
        if is_taken:
            with context.wrap_socket(plain, server_hostname="localhost") as secure:
                assert re.sub(r"\W", "_", secure.version() or "") == version.name
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)) as caught:
                context.wrap_socket(plain, server_hostname="localhost")
            told = str(caught.value).lower()
            assert "alert" in told or "eof" in told, "the server refuses it"
