"""Sites in the typed stub of the C++ extension; at runtime these names are in ``_core``.

They are missing there if ``_core.REPLICATION_LACKS`` says why.
"""

from typing import final

from topicdb._core import Database, OpenOptions
from topicdb.replicas import ReplicaState

@final
class Site:
    @staticmethod
    def start(
        path: str,
        name: str,
        sites: dict[str, str],  # name to host:port
        listen: str,
        clients: str,
        tls: tuple[str, str, str],  # files of authority, certificate and key; empty: none
        election_timeout_us: int,
        commit_timeout_us: int,
    ) -> Site: ...
    def open_database(self, options: OpenOptions, timeout_us: int) -> Database: ...
    def set_address(self, name: str, address: str) -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def replica(self) -> int: ...
    def cluster(self) -> bytes: ...  # its id; empty before it is founded
    def sites(self) -> list[tuple[str, int, str, str]]: ...  # name, replica, peers, clients
    # Shard, state, replica that leads, term, the entries committed, applied, first and last, and
    # why it has failed.
    def replicas(
        self,
    ) -> list[tuple[int, ReplicaState, int, int, int, int, int, int, str]]: ...
    def close(self) -> None: ...
