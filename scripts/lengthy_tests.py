"""Writes tests/python/lengthy_tests.txt: the tests that `make test-fast` leaves out.

``lengthy_tests.py build/logs/pytest.xml`` takes the results of a whole `make test`. A test is
lengthy if one of its cases took more than half a second there. Run it again when `make test-fast`
has become slow; a test that is not listed is run.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SECONDS_MAX = 0.5
LIST = Path(__file__).resolve().parents[1] / "tests/python/lengthy_tests.txt"


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        sys.exit(__doc__)
    lengthy: set[str] = set()
    for case in ElementTree.parse(arguments[0]).getroot().iter("testcase"):
        if float(case.attrib["time"]) > SECONDS_MAX:
            name = case.attrib["name"].partition("[")[0]
            lengthy.add(f"{case.attrib['classname'].removeprefix('tests.python.')}.{name}")
    LIST.write_text("".join(f"{name}\n" for name in sorted(lengthy)))
    print(f"{len(lengthy)} tests are lengthy: {LIST}")


if __name__ == "__main__":
    main(sys.argv[1:])
