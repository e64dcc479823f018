"""Where the sites of a run are: all on the loopback address, or each in a network of its own."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NoReturn, Protocol

from brokers import free_port

import topicdb

CLIENTS = "clients"  # the host at which clients are
PORT, PEERS_PORT = 8815, 8825
INSIDE = "TOPICDB_HISTORIES_INSIDE"  # set in the environment of a program in its own namespace
Broken = list[list[Any]]
"""Links that are not sound, as ``switch.py`` takes them."""
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_TOOLS = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


class Network(Protocol):
    """Where sites are, and how they and their clients find each other. Close it."""

    has_links: bool
    """Whether ``set_links`` can break links."""

    def command(self, site: str) -> list[str]:
        """Returns what begins a command that is to run at a site."""

    def arguments(
        self, site: str, *, founds: Collection[str] = (), joins: Collection[str] = ()
    ) -> list[str]:
        """Returns the arguments of ``topicdb serve`` that depend on the network.

        ``founds``: the sites that found the cluster with this one; or ``joins``: those that this
        one may ask to join.
        """

    def url(self, site: str) -> str:
        """Returns where clients find a site."""

    def connect(self, urls: Iterable[str]) -> topicdb.Database:
        """Opens the database at sites."""

    def set_links(self, broken: Broken) -> None:
        """Breaks these links, and mends all others."""

    def close(self) -> None:
        """Ends what runs for it."""


class Loopback:
    """All sites at the loopback address: no link between them can break."""

    has_links = False

    def __init__(self, sites: Iterable[str]) -> None:
        self._peers = {site: f"127.0.0.1:{free_port()}" for site in sites}
        self._listen = {site: f"127.0.0.1:{free_port()}" for site in self._peers}

    def command(self, site: str) -> list[str]:
        return []

    def arguments(
        self, site: str, *, founds: Collection[str] = (), joins: Collection[str] = ()
    ) -> list[str]:
        return [*_peers(self._peers, site, founds, joins), "--listen", self._listen[site]]

    def url(self, site: str) -> str:
        return f"grpc://{self._listen[site]}"

    def connect(self, urls: Iterable[str]) -> topicdb.Database:
        return topicdb.connect(list(urls))

    def set_links(self, broken: Broken) -> None:
        raise NotImplementedError("links of the loopback address do not break")

    def close(self) -> None:
        pass


class Namespaces:
    """Each site in a network namespace of its own, and a switch between them and the clients.

    Sites talk by TLS, as they have to beyond one machine. All ends with this process.
    """

    has_links = True

    def __init__(self, sites: Iterable[str], directory: Path, seed: int) -> None:
        """``directory`` is for certificates. The process must be in a namespace of its own."""
        hosts = [*sites, CLIENTS]
        self._addresses = {host: f"10.77.0.{n}" for n, host in enumerate(hosts, start=1)}
        self._certificates = _make_certificates(directory, self._addresses.values())
        self._holders = {host: _hold() for host in hosts if host != CLIENTS}
        devices = {host: self._add_device(host) for host in hosts}
        names = [f"{host}={self._addresses[host]}={devices[host]}" for host in hosts]
        self._switch = subprocess.Popen(
            [sys.executable, "-m", "cluster.histories.switch", str(seed), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=tuple(devices.values()),
        )
        for device in devices.values():
            os.close(device)
        self.set_links([])

    def _add_device(self, host: str) -> int:
        """Makes the TUN device of a host, and returns the open file for its packets."""
        device = os.open("/dev/net/tun", os.O_RDWR)
        name = f"tun-{host}"
        fcntl.ioctl(
            device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI)
        )
        if host != CLIENTS:
            _ip("link", "set", name, "netns", str(self._holders[host].pid))
        inside = self.command(host)
        _ip("address", "add", f"{self._addresses[host]}/24", "dev", name, inside=inside)
        _ip("link", "set", name, "up", inside=inside)
        _ip("link", "set", "lo", "up", inside=inside)
        return device

    def command(self, site: str) -> list[str]:
        if site == CLIENTS:
            return []
        return ["nsenter", f"--net=/proc/{self._holders[site].pid}/ns/net", "--"]

    def arguments(
        self, site: str, *, founds: Collection[str] = (), joins: Collection[str] = ()
    ) -> list[str]:
        peers = {one: f"{self._addresses[one]}:{PEERS_PORT}" for one in self._holders}
        root, certificate, key = self._certificates
        given = _peers(peers, site, founds, joins)
        given += ["--listen", f"{self._addresses[site]}:{PORT}"]
        given += ["--tls-cert", str(certificate), "--tls-key", str(key), "--peers-ca", str(root)]
        return [*given, "--insecure"]  # without tokens

    def url(self, site: str) -> str:
        return f"grpc+tls://{self._addresses[site]}:{PORT}"

    def connect(self, urls: Iterable[str]) -> topicdb.Database:
        return topicdb.connect(list(urls), tls_root_certs=self._certificates[0])

    def set_links(self, broken: Broken) -> None:
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        print(json.dumps(broken), file=self._switch.stdin, flush=True)
        if self._switch.stdout.readline() != "done\n":
            raise RuntimeError("the switch between the namespaces has ended")

    def close(self) -> None:
        for process in (self._switch, *self._holders.values()):
            process.communicate()  # its input ends, and so does it


def what_lacks() -> str | None:
    """Returns why this user cannot have network namespaces here, or None."""
    for tool in ("ip", "nsenter", "unshare"):
        if shutil.which(tool, path=_TOOLS["PATH"]) is None:
            return f"there is no command {tool}"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "this user may not open /dev/net/tun"
    try:
        import trustme  # noqa: F401
    except ModuleNotFoundError:
        return "the package trustme is missing"
    tried = subprocess.run([*_unshare(), "true"], check=False, capture_output=True, text=True)
    return tried.stderr.strip() or "unshare failed" if tried.returncode != 0 else None


def become(arguments: list[str]) -> NoReturn:
    """Replaces this process by a program in a network namespace of its own."""
    environment = {name: value for name, value in _TOOLS.items() if not name.endswith("_proxy")}
    environment[INSIDE] = "1"
    os.execvpe("unshare", [*_unshare(), *arguments], environment)


def _unshare() -> list[str]:
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *own, "--net", "--"]


def _hold() -> subprocess.Popen[str]:
    """Starts a process that does nothing in a network namespace of its own, until input ends."""
    holder = subprocess.Popen(
        ["unshare", "--net", "--", "sh", "-c", "echo; exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


def _ip(*arguments: str, inside: Iterable[str] = ()) -> None:
    subprocess.run([*inside, "ip", *arguments], check=True, env=_TOOLS)


def _make_certificates(directory: Path, addresses: Iterable[str]) -> tuple[Path, Path, Path]:
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert(*addresses)
    root, certificate, key = (directory / f"{name}.pem" for name in ("root", "site", "key"))
    authority.cert_pem.write_to_path(str(root))
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(key))
    return root, certificate, key


def _peers(
    addresses: dict[str, str], site: str, founds: Collection[str], joins: Collection[str]
) -> list[str]:
    if not joins:
        return ["--sites", ",".join(f"{one}={addresses[one]}" for one in founds)]
    others = ",".join(addresses[one] for one in joins if one != site)
    return ["--join", others, "--address", addresses[site]]
