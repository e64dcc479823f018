"""How long the Spark of the tests waits for its own processes on a loaded machine."""

from __future__ import annotations

import os

_PATIENCE_S = 250

PATIENCE = {
    "spark.python.authenticate.socketTimeout": f"{_PATIENCE_S}s",
    "spark.network.timeout": f"{_PATIENCE_S}s",
}
"""For the session. By default Spark gives up after 15 s that a Python process does not answer."""


def be_patient() -> None:
    """Makes the driver's Python wait for its JVM for as long."""
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = str(_PATIENCE_S)
