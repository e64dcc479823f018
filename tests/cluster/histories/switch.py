"""``python -m cluster.histories.switch SEED NAME=ADDRESS=DESCRIPTOR...`` is a network switch.

Each host is a network namespace, whose packets come and go by a TUN device with this open file. A
line of input is a JSON list of links that are not sound, each [from, to, "cut" or seconds of delay,
± seconds, share of packets lost]; it replaces those before. The program answers with a line, and
ends with its input. A kernel without netem can so delay packets, too.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import selectors
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

PACKET_BYTES_MAX = 65_536
PACKETS_OF_TURN = 64


@dataclass(frozen=True)
class Link:
    """What happens to packets from one host to another one."""

    is_cut: bool = False
    delay_s: float = 0.0
    jitter_s: float = 0.0
    lost: float = 0.0


SOUND = Link()


class Switch:
    """Passes packets on between the devices of hosts. One thread uses it, until input ends."""

    def __init__(self, hosts: dict[str, tuple[bytes, int]], seed: int) -> None:
        """``hosts``: name to address and descriptor."""
        self._names = {address: name for name, (address, _) in hosts.items()}
        self._devices = {name: device for name, (_, device) in hosts.items()}
        self._links: dict[tuple[str, str], Link] = {}
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, int, bytes]] = []  # when, number, device, packet
        self._input = b""

    def run(self) -> None:
        """Runs until its input ends."""
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            for device in self._devices.values():
                os.set_blocking(device, False)
                selector.register(device, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(self._until_next()):
                    if key.fd != 0:
                        self._receive(key.fd)
                    elif not self._obey():
                        return
                self._deliver()

    def _until_next(self) -> float | None:
        return max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None

    def _obey(self) -> bool:
        """Reads input, and returns whether there may be more."""
        given = os.read(0, PACKET_BYTES_MAX)
        self._input += given
        *lines, self._input = self._input.split(b"\n")
        for line in lines:
            self._links = {
                (source, target): Link(is_cut=True) if delay == "cut" else Link(False, delay, *more)
                for source, target, delay, *more in json.loads(line)
            }
            print("done", flush=True)
        return bool(given)

    def _receive(self, device: int) -> None:
        """Takes packets of a device, and decides on each."""
        for _ in range(PACKETS_OF_TURN):
            try:
                packet = os.read(device, PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            if packet[0] >> 4 != 4:
                continue  # only IPv4 is used
            source, target = self._names.get(packet[12:16]), self._names.get(packet[16:20])
            if source is None or target is None:
                continue
            link = self._links.get((source, target), SOUND)
            if link.is_cut or self._random.random() < link.lost:
                continue
            if link.delay_s == 0:
                self._send(self._devices[target], packet)
                continue
            delay = link.delay_s + self._random.uniform(-link.jitter_s, link.jitter_s)
            due = time.monotonic() + delay
            item = (due, next(self._numbers), self._devices[target], packet)
            heapq.heappush(self._waiting, item)

    def _deliver(self) -> None:
        """Sends the packets that have waited for long enough."""
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, device, packet = heapq.heappop(self._waiting)
            self._send(device, packet)

    def _send(self, device: int, packet: bytes) -> None:
        with suppress(OSError):  # a full queue loses packets, as in any network
            os.write(device, packet)


def main() -> None:
    seed, *given = sys.argv[1:]
    hosts = {}
    for one in given:
        name, address, device = one.split("=")
        hosts[name] = (socket.inet_aton(address), int(device))
    Switch(hosts, int(seed)).run()


if __name__ == "__main__":
    main()
