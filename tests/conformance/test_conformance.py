"""The official conformance suite judges our server and our client, strictly.

Strictly: a scenario has passed when it has at least one SUCCESS, and neither a FAILURE nor a WARNING, and when the
client under test has exited with status 0. ``tests/interop/install.sh`` installs the suite.
"""

import collections
import contextlib
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOME = Path(os.environ.get("MCPLITE_INTEROP") or ROOT / ".interop") / "conformance"
SUITE = HOME / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
pytestmark = [pytest.mark.interop, pytest.mark.timeout(300),
              pytest.mark.skipif(not (HOME / "installed").is_file(),
                                 reason=f"{HOME} is not there; tests/interop/install.sh makes it")]
SECONDS = 240

#: What each side has to pass. The suite's list of what it scores is checked against it.
SERVER = {
    "2025-11-25": {
        "scored": """server-initialize logging-set-level ping completion-complete tools-list tools-call-simple-text
            tools-call-image tools-call-audio tools-call-embedded-resource tools-call-mixed-content tools-call-with-logging
            tools-call-error tools-call-with-progress tools-call-sampling tools-call-elicitation
            elicitation-sep1034-defaults server-sse-multiple-streams elicitation-sep1330-enums resources-list
            resources-read-text resources-read-binary resources-templates-read resources-subscribe
            resources-unsubscribe prompts-list prompts-get-simple prompts-get-with-args prompts-get-embedded-resource
            prompts-get-with-image dns-rebinding-protection""".split(),
        "unscored": ["server-session-lifecycle", "json-schema-2020-12", "server-sse-polling"],
    },
    "2026-07-28": {
        "scored": """server-stateless completion-complete tools-list tools-call-simple-text tools-call-image tools-call-audio
            tools-call-embedded-resource tools-call-mixed-content tools-call-error tools-call-with-progress
            server-sse-multiple-streams resources-list resources-read-text resources-read-binary resources-templates-read
            sep-2164-resource-not-found prompts-list prompts-get-simple prompts-get-with-args
            prompts-get-embedded-resource prompts-get-with-image dns-rebinding-protection caching
            input-required-result-basic-elicitation input-required-result-basic-sampling
            input-required-result-basic-list-roots input-required-result-request-state
            input-required-result-multiple-input-requests input-required-result-multi-round
            input-required-result-missing-input-response input-required-result-non-tool-request
            input-required-result-result-type input-required-result-unsupported-methods
            input-required-result-tampered-state input-required-result-capability-check
            input-required-result-ignore-extra-params input-required-result-validate-input""".split(),
        "unscored": """json-schema-2020-12 http-header-validation http-custom-header-server-validation tasks-lifecycle
            tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal tasks-mrtr-input
            tasks-request-headers tasks-dispatch-and-envelope tasks-required-task-error tasks-mrtr-composition""".split(),
        # The suite skips all of its checks.
        "left_out": ["tasks-status-notifications"],
    },
}
_CODE_FLOWS = """metadata-default metadata-var1 metadata-var2 metadata-var3 basic-cimd scope-from-www-authenticate
    scope-from-scopes-supported scope-omitted-when-undefined scope-step-up scope-retry-limit token-endpoint-auth-basic
    token-endpoint-auth-post token-endpoint-auth-none pre-registration""".split()
_LATE_FLOWS = """resource-mismatch offline-access-scope offline-access-not-supported authorization-server-migration
    iss-supported iss-not-advertised iss-supported-missing iss-wrong-issuer iss-unexpected iss-normalized
    metadata-issuer-mismatch""".split()
_EXTENSIONS = """client-credentials-jwt client-credentials-basic enterprise-managed-authorization dpop dpop-nonce
    wif-jwt-bearer""".split()
CLIENT = {
    "2025-11-25": {
        "scored": ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry",
                   *(f"auth/{name}" for name in _CODE_FLOWS)],
        "unscored": ["json-schema-2020-12-preservation", *(f"auth/{name}" for name in _EXTENSIONS)],
    },
    "2026-07-28": {
        "scored": ["tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers",
                   "http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref",
                   *(f"auth/{name}" for name in _CODE_FLOWS + _LATE_FLOWS)],
        "unscored": ["json-schema-2020-12-preservation", *(f"auth/{name}" for name in _EXTENSIONS)],
    },
}
#: Of the authorization of early 2025, which no set of requirements has.
EARLY = ["auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"]


#: Of the extension for skills, which no set has either.
SKILLS = {
    "server": ["sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"],
    "client": ["sep-2640-client-no-prefetch",
               *(f"sep-2640-client-verify-{name}" for name in ("digest", "size", "frontmatter"))],
}


def suite(*arguments):
    """Run the suite; return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    # A group of its own: at a time limit the suite signals a shell only, not what the shell has started.
    process = subprocess.Popen([processes.recent_node(HOME.parent), str(SUITE), *arguments], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, encoding="utf-8", env=environment, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return output


def verdicts(folder, prefix=""):
    """Return the checks of each scenario that has left results below a folder."""
    found = collections.defaultdict(list)
    for path in folder.rglob("checks.json"):
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", str(path.parent.relative_to(folder)))
        found[name[len(prefix):] if name.startswith(prefix) else name] += json.loads(path.read_text("utf-8"))
    return found


def faults(checks):
    """Return what keeps a scenario from having passed."""
    wrong = [f"{check['status']} {check['id']}: {check.get('errorMessage') or check['description']}"
             for check in checks if check["status"] in ("FAILURE", "WARNING")]
    if not any(check["status"] == "SUCCESS" for check in checks):
        wrong.append("not one SUCCESS")
    return wrong


#: What bridges do not pass on: that the server behind them ends the stream of a call for its client to come back.
NOT_BRIDGED = frozenset({"server-sse-polling"})


@contextlib.contextmanager
def serving(*command):
    """Run a server as a process of its own; gives the port that it names."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                               env=environment)
    try:
        # What it writes later is read by nothing, and fits into the pipe.
        yield re.search(r":(\d+)/mcp", process.stdout.readline()).group(1)
        process.terminate()
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module", params=["direct", "bridged"])
def served(request):
    """Our server; or two bridges before it, from HTTP to stdio and from stdio to HTTP, which are to change no result."""
    with serving(str(HERE / "server.py"), "--port", "0") as port:
        if request.param == "direct":
            yield port
            return
        inner = shlex.join([sys.executable, "-m", "mcplite", "bridge", f"http://127.0.0.1:{port}/mcp"])
        with serving("-m", "mcplite", "bridge", inner, "--http", "0") as bridged:
            yield bridged


@pytest.fixture(scope="module", params=sorted(SERVER))
def server_leg(request, served, tmp_path_factory):
    """All of the suite's scenarios of one revision against our server: revision, checks by scenario, output."""
    folder = tmp_path_factory.mktemp("server")
    output = suite("server", "--url", f"http://localhost:{served}/mcp", "--requirements", request.param, "-o", str(folder))
    return request.param, verdicts(folder, "server-"), output


def test_the_server_passes_every_scenario(server_leg, request):
    revision, found, output = server_leg
    wanted = SERVER[revision]["scored"] + SERVER[revision]["unscored"]
    if request.node.callspec.params["served"] == "bridged":
        wanted = [name for name in wanted if name not in NOT_BRIDGED]
    wrong = {name: faults(found[name]) for name in wanted if faults(found[name])}
    assert not wrong, f"{wrong}\n{output[-4000:]}"


def test_every_server_scenario_of_the_suite_is_listed(server_leg):
    revision, _, output = server_leg
    summary = output.partition("=== SUMMARY ===")[2]
    ran = set(re.findall(r"^[✓✗] ([\w-]+):", summary, re.MULTILINE))
    unscored = set(re.findall(r"^  [✓✗] ([\w-]+) \(", summary, re.MULTILINE))
    assert ran - unscored == set(SERVER[revision]["scored"])
    assert unscored == {*SERVER[revision]["unscored"], *SERVER[revision].get("left_out", ())}


def client_command():
    # "exec", so that the shell is replaced and a signal of the suite reaches the client.
    return f"exec {sys.executable} {HERE / 'client.py'}"


@pytest.fixture(scope="module", params=sorted(CLIENT))
def client_leg(request, tmp_path_factory):
    """All of the suite's scenarios of one revision for our client, at once: revision, checks by scenario, output."""
    folder = tmp_path_factory.mktemp("client")
    # They start at once, so that each has to wait for the others: more time than the suite's 30 seconds.
    output = suite("client", "--command", client_command(), "--requirements", request.param, "-o", str(folder),
                   "--timeout", "120000")
    return request.param, verdicts(folder), output


def test_the_client_passes_every_scenario(client_leg):
    revision, found, output = client_leg
    wanted = CLIENT[revision]["scored"] + CLIENT[revision]["unscored"]
    wrong = {name: faults(found[name]) for name in wanted if faults(found[name])}
    assert not wrong, f"{wrong}\n{output[-4000:]}"
    assert "0 failed, 0 warnings" in output, output[-4000:]
    # The suite says so, but does not count it.
    assert "exited with code" not in output and "timed out" not in output, output[-4000:]


def test_every_client_scenario_of_the_suite_is_listed(client_leg):
    revision, found, output = client_leg
    assert set(found) == {*CLIENT[revision]["scored"], *CLIENT[revision]["unscored"]}
    ran = re.search(r"Not scored for [\d-]+: (\d+) scenario\(s\) run, (\d+) failing", output)
    assert ran and ran.groups() == (str(len(CLIENT[revision]["unscored"])), "0"), output[-4000:]


@pytest.mark.parametrize("scenario", EARLY)
def test_the_client_passes_the_scenarios_of_early_2025(scenario, tmp_path):
    output = suite("client", "--command", client_command(), "--scenario", scenario, "--spec-version", "2025-03-26", "--force",
                   "-o", str(tmp_path))
    found = verdicts(tmp_path)
    assert list(found) == [scenario], output
    wrong = faults(found[scenario])
    assert not wrong and "OVERALL: PASSED" in output, f"{wrong}\n{output[-4000:]}"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("scenario", SKILLS["server"])
def test_the_server_passes_the_scenarios_of_skills(scenario, revision, served, tmp_path):
    output = suite("server", "--url", f"http://localhost:{served}/mcp", "--scenario", scenario, "--spec-version", revision,
                   "--force", "-o", str(tmp_path))
    found = verdicts(tmp_path, "server-")
    assert list(found) == [scenario], output
    wrong = faults(found[scenario])
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("scenario", SKILLS["client"])
def test_the_client_passes_the_scenarios_of_skills(scenario, revision, tmp_path):
    output = suite("client", "--command", client_command(), "--scenario", scenario, "--spec-version", revision, "--force",
                   "-o", str(tmp_path))
    found = verdicts(tmp_path)
    assert list(found) == [scenario], output
    wrong = faults(found[scenario])
    assert wrong == [], "\n".join(wrong)


def test_there_is_a_program_for_each_scenario():
    spec = importlib.util.spec_from_file_location("conformance_client", HERE / "client.py")
    client = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(client)
    assert set(client.SCENARIOS) == {*EARLY, *SKILLS["client"],
                                     *(name for sets in CLIENT.values() for names in sets.values() for name in names)}


# --- an authorization server ----------------------------------------------------------------------------------------


def test_a_server_that_issues_its_own_tokens(tmp_path):
    from tests.support.issuers import Person, RawClient, serving as serving_issuer

    port = processes.free_port()
    with serving_issuer() as issuer:
        client = RawClient(issuer, redirect_uris=[f"http://127.0.0.1:{port}/callback"])
        process = subprocess.Popen(
            [processes.recent_node(HOME.parent), str(SUITE), "authorization", "--url", issuer.url, "--client-id",
             client.id, "--resource", issuer.endpoint, "--port", str(port), "--output-dir", str(tmp_path)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", start_new_session=True)
        said = []
        try:
            for line in process.stdout:
                said.append(line)
                if "Callback server started" in line:
                    Person()(re.search(r"http://127\.0\.0\.1:\d+/authorize\?\S+", "".join(said))[0])
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    found = verdicts(tmp_path)
    assert found and {name: faults(checks) for name, checks in found.items() if faults(checks)} == {}, "".join(said)
    assert "Total: 3 passed, 0 failed" in "".join(said)
