"""What a publisher asks of its queue: options and checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

from topicdb import _core
from topicdb.arguments.wrong_types import wrong_type
from topicdb.forward.options import Options, Seconds, finite_seconds, seconds
from topicdb.publisher.messages import Outgoing
from topicdb.queue.queue import Queue

Durability: TypeAlias = Literal["disk", "os", "memory"]
Overflow: TypeAlias = Literal["raise", "block", "drop_oldest"]

_BY_DURABILITY: dict[str, dict[str, Any]] = {  # options of the queue
    "disk": {"mode": "disk", "durability": "disk"},
    "os": {"mode": "disk", "durability": "os"},
    "memory": {"mode": "offload", "durability": "none"},
}
_OVERFLOW = {"raise": "reject", "block": "block", "drop_oldest": "drop_oldest"}
_ACKNOWLEDGED_AFTER_S = 0.02  # acknowledgements are written to the files after this time


def queue_options(
    path: Path | None,
    durability: str,
    max_bytes: int,
    overflow: str,
    block_timeout: Seconds | None,
) -> dict[str, Any]:
    """Returns the options of the queues, checked."""
    if durability not in _BY_DURABILITY:
        raise ValueError(
            f"durability: expected one of {sorted(_BY_DURABILITY)}, got {durability!r}"
        )
    if path is None and durability != "memory":
        raise ValueError("path: None keeps messages in memory only; say so: durability='memory'")
    if overflow not in _OVERFLOW:
        raise ValueError(f"overflow: expected one of {sorted(_OVERFLOW)}, got {overflow!r}")
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int):
        raise wrong_type("max_bytes", "int", max_bytes)
    if max_bytes < 1:
        raise ValueError(f"max_bytes: expected at least 1, got {max_bytes}")
    options = {
        **_BY_DURABILITY[durability],
        "max_total_bytes": max_bytes,
        "overflow": _OVERFLOW[overflow],
        "block_timeout": seconds(block_timeout, "block_timeout"),
        "flush_interval": _ACKNOWLEDGED_AFTER_S,
    }
    if path is None:
        options["mode"] = "memory"
    return options


def checked_callback(name: str, given: Any) -> Any:
    """Returns a callback that a user gave. Raises TypeError if it cannot be called."""
    if given is not None and not callable(given):
        raise wrong_type(name, "a function or None", given)
    return given


def check_pauses(retry_min: Seconds, retry_max: Seconds) -> None:
    """Raises ValueError or TypeError for pauses that the forwarder would refuse."""
    Options(
        batch_count=1,
        batch_bytes=1,
        in_flight_max=1,
        retry_min=finite_seconds(retry_min, "retry_min"),
        retry_max=finite_seconds(retry_max, "retry_max"),
        retry_jitter=1.0,
        confirm_timeout=None,
        stop_timeout=0.0,
        poison="stop",
        on_error=None,
    )


def check_paho() -> None:
    """Raises ImportError if there is no paho-mqtt."""
    try:
        import paho.mqtt.client  # noqa: F401
    except ImportError as error:
        raise ImportError("topicdb.Publisher needs paho-mqtt: pip install topicdb[mqtt]") from error


def check_items(queue: Queue) -> None:
    """Raises SchemaError if the queue is not one of a publisher."""
    item = queue.peek(raw=True)
    if item is None:
        return
    try:
        Outgoing.decode(item)
    except ValueError:
        raise _core.SchemaError(
            f"queue {queue.path} has items that are no messages of a publisher; give the publisher "
            "a directory of its own"
        ) from None
