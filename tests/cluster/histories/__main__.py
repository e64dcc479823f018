"""``python -m cluster.histories`` lets things fail in clusters, and checks what clients saw."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from cluster.histories.campaign import Plan, run
from cluster.histories.network import INSIDE, Loopback, Namespaces, Network, become, what_lacks
from cluster.histories.processes import NAMES


def main() -> int:
    """Runs the command; returns 0 if no run has found a fault."""
    parser = argparse.ArgumentParser(prog="python -m cluster.histories", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first run (%(default)s)")
    parser.add_argument("--seeds", type=int, default=1, help="how many runs (%(default)s)")
    parser.add_argument("--operations", type=int, default=3000, help="of a run (%(default)s)")
    parser.add_argument("--faults", default="", help="kinds, with commas; all if none is given")
    parser.add_argument("--faults-max", type=int, help="of a run; no limit if it is not given")
    parser.add_argument("--no-namespaces", action="store_true", help="let no links fail")
    parser.add_argument("--checker", type=Path, help="the program of tests/cluster/checker")
    parser.add_argument("--keep", type=Path, help="where histories and sites of failures go")
    options = parser.parse_args()
    lacks = "this was asked for" if options.no_namespaces else what_lacks()
    if lacks is None and INSIDE not in os.environ:
        become([sys.executable, "-m", "cluster.histories", *sys.argv[1:]])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # sites end with this process
    if lacks is not None:
        print(f"no network namespaces ({lacks}): no link fails", flush=True)
    if options.checker is None:
        print("no checker: there are only the checks in Python", flush=True)
    faults = [one for one in options.faults.split(",") if one]
    failed = []
    for seed in range(options.seed, options.seed + options.seeds):
        plan = Plan(seed, options.operations, faults, options.faults_max, options.checker)
        if not _run(plan, options.keep, has_links=lacks is None):
            failed.append(seed)
    if failed:
        print(f"failed: seeds {failed}")
    return 1 if failed else 0


def _run(plan: Plan, keep: Path | None, *, has_links: bool) -> bool:
    """Runs a seed, tells what it has found, and returns whether that is no fault."""
    directory = Path(tempfile.mkdtemp(prefix="topicdb-histories-"))
    network: Network
    network = Namespaces(NAMES, directory, plan.seed) if has_links else Loopback(NAMES)
    is_good = False
    try:
        report = run(plan, directory, network)
        is_good = not report.broken
        print("\n".join(report.lines(plan.seed)), flush=True)
    finally:
        network.close()
        if not is_good and keep is not None:
            shutil.copytree(
                directory, keep / f"seed-{plan.seed}", symlinks=True, dirs_exist_ok=True
            )
        shutil.rmtree(directory)
    return is_good


if __name__ == "__main__":
    sys.exit(main())
