"""``python -m benchmarks``: run the workloads and print the table.

    --quick         a few calls of each, to see that everything works
    --only NAME     one workload; may be repeated
    --json          JSON in place of the table
    --check         exit status 1 when a requirement is missed
    --against REV   another column: an older commit of mcplite, which takes turns with this one
    --official PY   a Python with the official SDK 2; by default the one that tests/interop/install.sh
                    put into MCPLITE_INTEROP, as it does fastmcp; without one that column is left out
    --write         what docs/performance.rst shows; write its tables. Takes ten minutes, in which the machine should have
                    nothing else to do
"""

import argparse
import compileall
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List

from . import page, table
from .apis import API_WORKLOADS
from .hosts import HOST_WORKLOADS
from .peers import Failed, Peer, check_out, find_peers
from .shared import SHARED_WORKLOADS
from .slices import Measurement
from .stateless import STATELESS_WORKLOADS
from .web import WEB_WORKLOADS
from .workloads import FULL, QUICK, STDIO_WORKLOADS

#: What the second floor is measured by.
CALLS = {"add", "newest", "http-add", "http-newest"}
OVER_HTTP = {**WEB_WORKLOADS, **STATELESS_WORKLOADS, **SHARED_WORKLOADS, **HOST_WORKLOADS, **API_WORKLOADS}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="mcplite beside a floor and the official SDK")
    parser.add_argument("--quick", action="store_true", help="a few calls of each, to see that everything works")
    parser.add_argument("--only", action="append", choices=[*STDIO_WORKLOADS, *OVER_HTTP], help="one workload; may be repeated")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    parser.add_argument("--check", action="store_true", help="exit status 1 when a requirement is missed")
    parser.add_argument("--against", metavar="REV", help="another column: an older commit of mcplite, which takes turns"
                        " with this one; what git calls it, such as main or v0.1.0")
    parser.add_argument("--write", action="store_true", help=f"measure what {page.PAGE.name} shows, and write its tables")
    parser.add_argument("--official", metavar="PYTHON", help="a Python that has the official SDK 2")
    options = parser.parse_args()
    if options.write and (options.quick or options.only):
        parser.error("--write needs all that the page shows, in full")
    with tempfile.TemporaryDirectory() as folder:
        peers = find_peers(options.official)
        if options.write:
            peers.pop("fastmcp", None)  # the page does not show it
        if "mcp" not in peers:
            print("without the official SDK: tests/interop/install.sh installs it", file=sys.stderr)
        if options.against is not None:
            try:
                peers = {**peers, "before": check_out(options.against, Path(folder))}
            except Failed as error:
                parser.error(f"--against {options.against}: {error}")
        return measure(options, peers)


def measure(options: argparse.Namespace, peers: Dict[str, Peer]) -> int:
    """Run the workloads and print what they gave; return the exit status."""
    # The official SDK is installed with compiled files, so mcplite is compiled too.
    for root in {peer.root for peer in peers.values()}:
        compileall.compile_dir(str(root / "mcplite"), quiet=2)
    counts = QUICK if options.quick else FULL
    rows: List[Measurement] = []
    for name in options.only or (page.WORKLOADS if options.write else None) or [*STDIO_WORKLOADS, *OVER_HTTP]:
        begun = time.perf_counter()
        measured = {key: peer for key, peer in peers.items()
                    if (name in OVER_HTTP or peer.stdio) and (name in CALLS or not peer.calls_only)}
        rows += {**STDIO_WORKLOADS, **OVER_HTTP}[name](measured, counts)
        print(f"{name}: {time.perf_counter() - begun:.1f} s", file=sys.stderr)
    print((table.as_json if options.json else table.as_table)(rows, peers))
    if options.write:
        page.PAGE.write_text(page.page(rows, peers), "utf-8")
    return 1 if options.check and table.missed(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
