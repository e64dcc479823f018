"""One turn of a client's loop, in processes with any number of open files.

paho-mqtt's own loop waits with ``select``, which takes no file number from 1,024 on.
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
    """A socket, of what kind so ever."""

    def fileno(self) -> int: ...


def wait_for(sock: HasNumber, to_write: bool, timeout_s: float) -> tuple[bool, bool]:
    """Whether it may be read, and written, within so many seconds.

    OSError, ValueError: it is closed.
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
    """As ``Client.loop``.

    ConnectionError: the broker has sent what paho-mqtt fails to read.
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
    """As ``Client.loop_read``.

    ConnectionError: the broker has sent what paho-mqtt fails to read. What it raises then depends
    on where its reading ends: struct.error, IndexError, KeyError, MQTTException, …
    """
    try:
        return client.loop_read()
    except OSError:
        raise
    except Exception as error:
        raise ConnectionError(
            f"the broker has sent a packet that cannot be read: {type(error).__name__}: {error}"
        ) from error
