"""One turn of a client's loop, also in processes with many open files.

The loop of paho-mqtt waits with ``select``, which takes no file number above 1,023.
"""

from __future__ import annotations

import select
import ssl
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import MQTTErrorCode

_READABLE = select.POLLIN | select.POLLPRI | select.POLLHUP | select.POLLERR


class HasNumber(Protocol):
    """A socket of any kind."""

    def fileno(self) -> int: ...


def wait_for(sock: HasNumber, to_write: bool, timeout_s: float) -> tuple[bool, bool]:
    """Returns whether the socket can be read, and whether it can be written, within ``timeout_s``.

    Raises OSError or ValueError if it is closed.
    """
    number = sock.fileno()
    if number < 0:
        raise ValueError("the socket is closed")
    poller = select.poll()
    poller.register(number, select.POLLIN | (select.POLLOUT if to_write else 0))
    events = 0
    for _, found in poller.poll(timeout_s * 1_000):
        events |= found
    if events & select.POLLNVAL:
        raise ValueError("the socket is closed")
    return bool(events & _READABLE), bool(events & select.POLLOUT)


def turn(client: Client, timeout_s: float) -> MQTTErrorCode:
    """Runs one turn, as ``Client.loop`` does.

    Raises ConnectionError if the broker has sent what paho-mqtt fails to read.
    """
    from paho.mqtt.enums import MQTTErrorCode

    sock = client.socket()
    if sock is None:
        return MQTTErrorCode.MQTT_ERR_CONN_LOST
    pending = isinstance(sock, ssl.SSLSocket) and sock.pending() > 0
    try:
        readable, writable = wait_for(sock, client.want_write(), 0 if pending else timeout_s)
    except (OSError, ValueError):
        return MQTTErrorCode.MQTT_ERR_CONN_LOST
    code = MQTTErrorCode.MQTT_ERR_SUCCESS
    if readable or pending:
        code = read(client)
    if writable and code == MQTTErrorCode.MQTT_ERR_SUCCESS and client.socket() is not None:
        code = client.loop_write()
    if code != MQTTErrorCode.MQTT_ERR_SUCCESS or client.socket() is None:
        return code
    return client.loop_misc()


def read(client: Client) -> MQTTErrorCode:
    """Reads packets, as ``Client.loop_read`` does.

    Raises ConnectionError if the broker has sent what paho-mqtt fails to read. paho-mqtt itself
    raises different errors then: struct.error, IndexError, KeyError, MQTTException, …
    """
    try:
        return client.loop_read()
    except OSError:
        raise
    except Exception as error:
        raise ConnectionError(
            f"the broker has sent a packet that cannot be read: {type(error).__name__}: {error}"
        ) from error
