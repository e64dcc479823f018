"""A real S3 server on a free port, for the tests that are marked ``s3`` and for a benchmark.

``make test-s3`` sets the variables of the environment. Without them, these tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokers import accepts, free_port
from support import wait_until

SERVER = os.environ.get("TOPICDB_S3_SERVER", "")
JARS = os.environ.get("TOPICDB_S3_JARS", "")
BUCKET = "plant"
KEY, SECRET = "topicdb-tests", "no-secret-at-all"
is_here = bool(SERVER and JARS)


class S3Server:
    """A server whose buckets are folders of ``root``. A fixture of the session owns it."""

    def __init__(self, root: Path, port: int) -> None:
        self.root = root
        self.endpoint = f"http://127.0.0.1:{port}"

    def url(self, folder: str) -> str:
        """Returns the URL of a folder for uploads."""
        given = f"endpoint_override={self.endpoint}&region=us-east-1"
        return f"s3://{KEY}:{SECRET}@{BUCKET}/{folder}?{given}"

    def settings(self) -> dict[str, str]:
        """Returns the settings with which Spark reads there."""
        hadoop = {
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "access.key": KEY,
            "secret.key": SECRET,
            "path.style.access": "true",
            "attempts.maximum": "2",
            "retry.limit": "2",
            "retry.interval": "10ms",
        }
        jars = ",".join(str(path) for path in sorted(Path(JARS).glob("*.jar")))
        return {
            "spark.jars": jars,
            **{f"spark.hadoop.fs.s3a.{name}": value for name, value in hadoop.items()},
        }


@contextmanager
def s3_server(root: Path) -> Iterator[S3Server]:
    """Runs a server for the length of the block. REQUIRES: ``is_here``"""
    (root / BUCKET).mkdir(parents=True)
    port = free_port()
    command = [SERVER, "--host", "127.0.0.1", "--port", str(port)]
    keys = ["--access-key", KEY, "--secret-key", SECRET]
    log = root.with_suffix(".log")
    with (
        log.open("wb") as output,
        subprocess.Popen([*command, *keys, str(root)], stdout=output, stderr=output) as process,
    ):
        try:
            wait_until(lambda: accepts(port) or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            yield S3Server(root, port)
        finally:
            process.kill()
