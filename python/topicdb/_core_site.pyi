"""Sites in the typed stub of the C++ extension; at runtime these names are in ``_core``.

The class is missing there if ``_core.REPLICATION_LACKS`` says why.
"""

from typing import final

from topicdb._core import Database, Error, OpenOptions, UnavailableError
from topicdb.replicas import ReplicaOutcome, ReplicaState, SiteState

class StaleError(UnavailableError, TimeoutError):
    """This site has not come to the commit that a read asks for in time."""

class ClusterError(Error, ValueError):
    """The sites cannot change like this, or this site is none of them any more."""

@final
class Site:
    @staticmethod
    def start(
        path: str,
        name: str,
        sites: dict[str, str],  # name to host:port
        converts: bool,
        join: list[str],
        address: str,
        listen: str,
        clients: str,
        tls: tuple[str, str, str],  # files of authority, certificate and key; empty: none
        heals: bool,
        election_timeout_us: int,
        commit_timeout_us: int,
        join_timeout_us: int,
    ) -> Site: ...
    # The name of the site, and those of all sites of its cluster.
    @staticmethod
    def load(path: str) -> tuple[str, list[str]]: ...
    @staticmethod
    def forget_others(path: str, tls: tuple[str, str, str]) -> None: ...
    def open_database(self, options: OpenOptions, timeout_us: int) -> Database: ...
    def await_shards(self, timeout_us: int) -> None: ...
    def set_address(self, name: str, address: str) -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def replica(self) -> int: ...
    def cluster(self) -> bytes: ...  # its id; empty before it is founded
    # Name, replica, peers, clients and state.
    def sites(self) -> list[tuple[str, int, str, str, SiteState]]: ...
    # Shard, state, replica that leads, term, the entries committed, applied, first and last, and
    # why it has failed or is being healed.
    def replicas(
        self,
    ) -> list[tuple[int, ReplicaState, int, int, int, int, int, int, str]]: ...
    @property
    def format(self) -> int: ...  # that is in force
    @property
    def newest_format(self) -> int: ...  # with which this site can work
    @property
    def left(self) -> str: ...  # why the site is no member any more; empty while it is
    def leave(self, name: str, timeout_us: int) -> None: ...
    def forget(self, name: str, timeout_us: int) -> None: ...
    def step_down(self, name: str) -> None: ...
    def balance(self) -> int: ...
    def upgrade(self, timeout_us: int) -> int: ...
    # Shard, site, outcome, parts that differ, and why.
    def verify(self, timeout_us: int) -> list[tuple[int, str, ReplicaOutcome, list[str], str]]: ...
    def heal(self, name: str, shard: int) -> None: ...
    def close(self) -> None: ...
