"""Writes envelopes.zip and .json: messages that a bridge has stored, beside plain ones.

    python tests/data/make_golden_envelopes.py tests/data/v1

Run once with the release that writes a format; never again after that. The one that wrote it knew
envelopes in a bridge and in replays only, and stored whatever a program gave to ``append``.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import pack
from topicdb.replay import Envelope

FULL = Envelope(
    b"21.5",
    qos=2,
    retain=True,
    client_id="pump-7",
    payload_format=1,
    message_expiry_s=3_600,
    content_type="text/plain",
    response_topic="re/7",
    correlation_data=b"\x00\xff",
    user_properties=(("unit", "°C"), ("unit", "K")),
    subscription_ids=(1, 300),
)


def values() -> list[tuple[bytes, dict[str, Any] | None]]:
    """Values as they are stored, and the properties that they have; None: they are no envelopes."""
    full = FULL.encode()
    return [
        (b"plain", None),
        (b"", None),
        (full, FULL._asdict()),
        (Envelope(b"").encode(), Envelope(b"")._asdict()),
        (Envelope(full, qos=1).encode(), Envelope(full, qos=1)._asdict()),  # an envelope in another
        (full[:-1] + bytes([full[-1] ^ 1]), None),  # a wrong checksum
        (full[:-1], None),
        (b"\xf5TDE", None),
        (b"\xf5TDE\x01" + b"x" * 40, None),
    ]


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def main(target: Path) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "envelopes.db"
        with topicdb.open(path, shards=2, seal_bytes=2_000) as db:
            for round in range(3):
                stored = values()
                for number, (value, properties) in enumerate(stored):
                    timestamp = 100 * round + number
                    topic = f"site/{number % 4}/{'ab'[number % 2]}"
                    db.append([(topic, timestamp, value)])
                    payload = value if properties is None else properties["payload"]
                    rows.append([topic, timestamp, value, payload, properties])
                if round < 2:
                    db.flush()
                if round == 0:
                    db.rotate()
        pack(path, target / "envelopes.zip")
    found = {"messages": [[plain(item) for item in row] for row in rows]}
    (target / "envelopes.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
