"""Topic trees as they occur in the field, with the templates that they were made from.

Each tree follows the documents of its convention; names and sizes are our own. In a template ``+``
stands for a level with many words; every other level is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from workloads import fleet, metrics, plant
from workloads.rows import SEED, Random

Pairs = Iterable[tuple[str, str]]  # template, topic

ROOMS = ("kitchen", "bedroom", "bathroom", "hall", "garage", "office", "attic", "garden")
THINGS = ("lamp", "plug", "thermostat", "motion", "door", "blind", "siren", "leak")
PLACES = ("packaging", "assembly", "paint", "warehouse", "utilities")
MACHINES = ("press", "oven", "mixer", "filler", "labeler", "palletizer", "conveyor")


@dataclass(frozen=True)
class Tree:
    """Topics in the order in which devices report, and the template of each."""

    name: str
    topics: list[str]
    template_of: dict[str, str]

    @property
    def templates(self) -> list[str]:
        return sorted(set(self.template_of.values()))

    def shuffled(self, seed: int = SEED) -> list[str]:
        """Returns the topics in random order."""
        keys = Random(seed, self.name).integers(1 << 60, len(self.topics))
        return [topic for _, topic in sorted(zip(keys, self.topics, strict=True))]


def sparkplug() -> Iterator[tuple[str, str]]:
    for host in ("scada1", "scada2"):
        yield "spBv1.0/STATE/+", f"spBv1.0/STATE/{host}"
    for group, node in product(PLACES, range(12)):
        name = f"{MACHINES[node % 7]}-gateway-{PLACES.index(group) * 12 + node:02}"
        for kind in ("NBIRTH", "NDEATH", "NDATA", "NCMD"):
            yield f"spBv1.0/+/{kind}/+", f"spBv1.0/{group}/{kind}/{name}"
        for device, kind in product(range(20), ("DBIRTH", "DDEATH", "DDATA", "DCMD")):
            yield (
                f"spBv1.0/+/{kind}/+/+",
                f"spBv1.0/{group}/{kind}/{name}/{MACHINES[device % 7]}{device:02}",
            )


def homie() -> Iterator[tuple[str, str]]:
    device_facts = ("$homie", "$name", "$state", "$nodes", "$extensions")
    for number in range(300):
        device = f"homie/{ROOMS[number % 8]}-{THINGS[number // 8 % 8]}-{number:03}"
        for fact in device_facts:
            yield f"homie/+/{fact}", f"{device}/{fact}"
        for node in ("main", "battery", *(("relay",) if number % 2 else ("sensor",))):
            for fact in ("$name", "$type", "$properties"):
                yield f"homie/+/+/{fact}", f"{device}/{node}/{fact}"
            for value in ("level", "power", "temperature")[: 1 + number % 3]:
                yield "homie/+/+/+", f"{device}/{node}/{value}"
                for fact in ("$name", "$datatype", "$unit", "set"):
                    yield f"homie/+/+/+/{fact}", f"{device}/{node}/{value}/{fact}"


def zigbee2mqtt() -> Iterator[tuple[str, str]]:
    for fixed in ("state", "info", "devices", "groups", "logging", "event", "extensions"):
        yield f"zigbee2mqtt/bridge/{fixed}", f"zigbee2mqtt/bridge/{fixed}"
    for way, what in product(("request", "response"), ("permit_join", "restart", "health_check")):
        yield f"zigbee2mqtt/bridge/{way}/{what}", f"zigbee2mqtt/bridge/{way}/{what}"
    for way, what in product(("request", "response"), ("remove", "rename", "options")):
        text = f"zigbee2mqtt/bridge/{way}/device/{what}"
        yield text, text
    for number in range(800):
        device = (
            f"0x00158d{number * 7919 % 0xFFFFFF:06x}{number:04x}"
            if number % 3
            else f"{ROOMS[number % 8]}_{THINGS[number // 8 % 8]}_{number}"
        )
        yield "zigbee2mqtt/+", f"zigbee2mqtt/{device}"
        for what in ("set", "get", "availability"):
            yield f"zigbee2mqtt/+/{what}", f"zigbee2mqtt/{device}/{what}"


def tasmota() -> Iterator[tuple[str, str]]:
    kinds = {
        "cmnd": ("POWER", "Backlog", "Status", "TelePeriod"),
        "stat": ("RESULT", "STATUS", "POWER", "LOGGING"),
        "tele": ("LWT", "STATE", "SENSOR", "INFO1", "UPTIME"),
    }
    for number in range(1_500):
        mac = f"{number * 104_729 % 0xFFFFFF:06X}"
        for kind, words in kinds.items():
            for word in words:
                yield f"{kind}/+/{word}", f"{kind}/tasmota_{mac}/{word}"
        for word in ("config", "sensors"):
            yield f"tasmota/discovery/+/{word}", f"tasmota/discovery/24A160{mac}/{word}"


def homeassistant() -> Iterator[tuple[str, str]]:
    yield "homeassistant/status", "homeassistant/status"
    parts = ("light", "switch", "sensor", "binary_sensor", "climate", "cover", "fan", "lock")
    for number in range(2_000):
        part = parts[number % 8]
        thing = f"{ROOMS[number // 8 % 8]}_{THINGS[number // 64 % 8]}_{number}"
        for word in ("config", "state", "set", "availability"):
            yield f"homeassistant/+/+/{word}", f"homeassistant/{part}/{thing}/{word}"
        if part == "sensor":
            for measure in ("temperature", "humidity", "voltage"):
                yield (
                    "homeassistant/sensor/+/+/config",
                    f"homeassistant/sensor/{thing}/{measure}/config",
                )


def isa95() -> Iterator[tuple[str, str]]:
    """The levels are enterprise, site, area, line, cell and machine, then the machine's tags."""
    tags = [
        *(f"status/{word}" for word in ("state", "mode", "speed", "alarm")),
        *(f"oee/{word}" for word in ("availability", "performance", "quality")),
        *(f"energy/{word}" for word in ("power", "voltage", "current", "total")),
        *(f"process/{word}" for word in ("temperature", "pressure", "flow", "level", "torque")),
        *(f"maintenance/{word}/due" for word in ("oil", "belt", "filter")),
        "serial",
        "model",
    ]
    for site, area, line, cell in product(("berlin", "lyon", "osaka"), PLACES, range(4), range(5)):
        for machine in range(3):
            name = f"{MACHINES[(line + cell + machine) % 7]}{machine}"
            for tag in tags:
                yield (
                    f"acme/+/+/+/+/+/{tag}",
                    f"acme/{site}/{area}/line{line}/cell{cell}/{name}/{tag}",
                )


def transit() -> Iterator[tuple[str, str]]:
    """Every second topic of fleet. Its modes of transport are few, so each has its own template."""
    for number in range(0, fleet.TOPICS, 2):
        topic = fleet.topic(number)
        levels = topic.split("/")
        fixed = (0, 1, 2, 4, 5, 6, 7, 9, 12, 14, 16)
        yield "/".join(w if i in fixed else "+" for i, w in enumerate(levels)), topic


def serials_first() -> Iterator[tuple[str, str]]:
    """The device's serial number is the first level."""
    leaves = ("telemetry/temperature", "telemetry/humidity", "telemetry/battery", "event/alarm",
              "event/reset", "command/reboot", "command/config", "state", "version")  # fmt: skip
    for number in range(5_000):
        for leaf in leaves:
            yield f"+/{leaf}", f"SN{number * 7919 % 1_000_000:06}/{leaf}"


def servers() -> Iterator[tuple[str, str]]:
    for number in range(metrics.TOPICS):
        yield "metrics/+/cpu/socket/+/core/+", metrics.topic(number)


def factory() -> Iterator[tuple[str, str]]:
    """At most 100 topics for each of the 300 patterns of plant; some make the same template."""
    random = Random(SEED, "factory")
    for pattern in plant.templates(Random(SEED, "plant")):
        template = "/".join("+" if "{}" in level else level for level in pattern.split("/"))
        for _ in range(100):
            yield template, pattern.format(*random.integers(12, plant.LEVELS_MAX))


MAKERS: dict[str, Callable[[], Pairs]] = {
    "sparkplug": sparkplug,
    "homie": homie,
    "zigbee2mqtt": zigbee2mqtt,
    "tasmota": tasmota,
    "homeassistant": homeassistant,
    "isa95": isa95,
    "transit": transit,
    "serials_first": serials_first,
    "servers": servers,
    "factory": factory,
}


def make(name: str) -> Tree:
    """Returns the tree of that name. Raises KeyError if there is none."""
    template_of = {topic: template for template, topic in MAKERS[name]()}
    return Tree(name, list(template_of), template_of)
