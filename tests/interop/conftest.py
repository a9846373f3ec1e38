"""Where the other implementations are, and how their tests start what they need.

``install.sh`` puts them into the folder MCPLITE_INTEROP, by default ``.interop`` of this checkout. What is
not there is skipped; a test run that must not skip anything installs them first, as ``.ci/run`` does.
"""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


class Installed:
    """The installed implementations; asking for one that is not there skips the test."""

    home = Path(os.environ.get("MCPLITE_INTEROP") or ROOT / ".interop")

    def python(self, environment):
        """Return the Python of an environment: "mcp1", "mcp2" or "servers"."""
        return self._need(environment, "bin/python" if os.name == "posix" else "Scripts/python.exe")

    def node(self, package):
        """Return the command of a server in JavaScript."""
        if shutil.which("node") is None:
            pytest.skip("node is not installed")
        return ["node", self._need("node", f"node_modules/@modelcontextprotocol/{package}/dist/index.js")]

    def _need(self, environment, path):
        # The stamp is written when all of it is there.
        if not (self.home / environment / "installed").is_file():
            pytest.skip(f"{self.home / environment} is not there; tests/interop/install.sh makes it")
        return str(self.home / environment / path)


@pytest.fixture(scope="session")
def installed():
    return Installed()
