"""``python -m benchmarks``: run the workloads and print the table.

    --quick         a few calls of each, to see that everything works
    --only NAME     one workload; may be repeated
    --json          JSON in place of the table
    --check         exit status 1 when a requirement is missed
    --official PY   a Python with the official SDK 2; by default the one that tests/interop/install.sh
                    put into MCPLITE_INTEROP, and without one that column is left out
"""

import argparse
import compileall
import sys
import time
from typing import List

from . import table
from .peers import ROOT, find_peers
from .slices import Measurement
from .workloads import FULL, QUICK, WORKLOADS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="mcplite beside a floor and the official SDK")
    parser.add_argument("--quick", action="store_true", help="a few calls of each, to see that everything works")
    parser.add_argument("--only", action="append", choices=list(WORKLOADS), help="one workload; may be repeated")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    parser.add_argument("--check", action="store_true", help="exit status 1 when a requirement is missed")
    parser.add_argument("--official", metavar="PYTHON", help="a Python that has the official SDK 2")
    options = parser.parse_args()
    # An installed package, such as the official SDK here, comes with compiled files; so do we.
    compileall.compile_dir(str(ROOT / "mcplite"), quiet=2)
    peers = find_peers(options.official)
    if "mcp" not in peers:
        print("without the official SDK: tests/interop/install.sh installs it", file=sys.stderr)
    rows: List[Measurement] = []
    for name in options.only or WORKLOADS:
        begun = time.perf_counter()
        rows += WORKLOADS[name](peers, QUICK if options.quick else FULL)
        print(f"{name}: {time.perf_counter() - begun:.1f} s", file=sys.stderr)
    print((table.as_json if options.json else table.as_table)(rows, peers))
    return 1 if options.check and table.missed(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
