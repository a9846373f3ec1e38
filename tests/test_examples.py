"""Every example runs, as a child process over real pipes; the services it needs run in this file."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

import mcplite
from mcplite import revisions
from mcplite.types import CreateMessageResult, TextContent
from tests.support import connecting
from tests.support.processes import serving

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SECONDS = 60


def connect(name, **options):
    """Return a client that starts the example *name*."""
    environment = {"PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return connecting.connect([sys.executable, str(EXAMPLES / name)], env=environment, **options)


def run(name, *arguments, **options):
    """Run an example to its end and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **options.pop("env", {})}
    ran = subprocess.run([sys.executable, str(EXAMPLES / name), *arguments], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=environment, timeout=SECONDS, **options)
    assert ran.returncode == 0, ran.stderr.decode("utf-8", "replace")
    return ran.stdout.decode("utf-8")


@pytest.fixture
def service():
    """An HTTP service on this machine; ``service.answers`` maps paths to JSON values or to functions of the body."""

    class Canned(BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = server.answers.get(self.path)
            value = found(json.loads(body)) if callable(found) else found
            data = json.dumps(value).encode()
            self.send_response(200 if value is not None else 503)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer

        def log_message(self, format, *arguments):
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Canned)
    server.answers = {}
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(SECONDS)
    server.server_close()


def test_api(service):
    parameter = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    key = {"type": "apiKey", "in": "query", "name": "key"}
    service.answers["/openapi.json"] = {
        "openapi": "3.1.0", "info": {"title": "Pets"}, "components": {"securitySchemes": {"key": key}},
        "paths": {"/pets/{id}": {"get": {"operationId": "getPet", "parameters": [parameter], "security": [{"key": []}]},
                                 "delete": {"operationId": "removePet"}}}}
    service.answers["/pets/7?key=secret"] = {"name": "Rex"}
    url = f"http://127.0.0.1:{service.server_port}"
    with connect("api.py", env={"API_DOCUMENT": f"{url}/openapi.json", "API_KEY": "secret"}) as client:
        assert [tool.name for tool in client.list_tools()] == ["getPet"]
        assert client.call_tool("getPet", {"id": 7}).structured_content == {"name": "Rex"}
        assert client.read_resource(f"{url}/pets/7").contents[0].text == '{"name": "Rex"}'


def test_each_example_is_short_and_has_a_test():
    tests = Path(__file__).read_text("utf-8")
    for path in sorted(EXAMPLES.glob("*.py")):
        assert path.read_text("utf-8").count("\n") < 60, path.name
        assert f'"{path.name}"' in tests, path.name


def test_hello_counts_words(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Rivers, lakes and rivers; no lake: RIVERS, lakes!", encoding="utf-8")
    with connect("hello.py") as client:
        result = client.call_tool("top_words", {"path": str(text), "count": 2})
        assert result.structured_content == {"rivers": 3, "lakes": 2}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.slow
def test_report_is_a_task_that_asks(revision):
    asked = []

    def publish(request):
        asked.append(request.message)
        return True

    with connect("report.py", revision=revision, elicitation_handler=publish) as client:
        assert client.call_tool("yearly_report", {"year": 2024}, timeout=SECONDS).text == "2024: 534"
        task = client.start_tool("yearly_report", {"year": 2026})
        messages = [state.status_message for state in task]
        assert task.result(SECONDS).text == "2026: 822" and any("reading month" in (text or "") for text in messages)
        assert asked == ["The sum is 822. Publish it?"]


@pytest.mark.slow
def test_report_is_read_at_another_process(tmp_path):
    variables = {"MCPLITE_BACKEND": f"sqlite:///{tmp_path / 'store.db'}",
                 "MCPLITE_STATE_KEYS": "a key of thirty-two bytes or more!"}
    command = [sys.executable, "-m", "mcplite.server", "report.py", "--http", "PORT"]
    with serving(command, EXAMPLES, **variables) as first, serving(command, EXAMPLES, **variables) as second:
        with mcplite.connect(first + "mcp") as client:
            id = client.start_tool("yearly_report", {"year": 2024}).id
        with mcplite.connect(second + "mcp") as client:
            assert client.task(id).result(SECONDS).text == "2024: 534"


@pytest.mark.slow
def test_hub_offers_two_servers(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("lemon lemon coffee", encoding="utf-8")
    with connect("hub.py") as client:
        assert [tool.name for tool in client.list_tools()] == ["clock_minutes", "text_top_words"]
        assert client.call_tool("clock_minutes", {"hours": 1.5}).data == 90
        assert client.call_tool("text_top_words", {"path": str(text), "count": 1}).data == {"lemon": 2}


@pytest.mark.slow
def test_weather_forecasts_and_alerts(service):
    service.answers = {
        "/points/38.5,-121.5": {"properties": {"forecast": f"{service.url}/forecast"}},
        "/forecast": {"properties": {"periods": [{
            "name": "Tonight", "temperature": 51, "temperatureUnit": "F", "windSpeed": "5 mph",
            "windDirection": "SW", "detailedForecast": "Mostly clear."}]}},
        "/alerts/active/area/CA": {"features": [{"properties": {
            "event": "Flood Watch", "severity": "Severe", "areaDesc": "Coast", "description": "Rain."}}]},
        "/alerts/active/area/NV": {"features": []},
    }
    with connect("weather.py", env={"WEATHER_API": service.url}) as client:
        forecast = client.call_tool("get_forecast", {"latitude": 38.5, "longitude": -121.5})
        assert forecast.text == "Tonight: 51 °F, wind 5 mph SW. Mostly clear."
        assert client.call_tool("get_alerts", {"state": "CA"}).text == "Flood Watch (Severe), Coast\nRain."
        assert client.call_tool("get_alerts", {"state": "NV"}).text == "No active alerts for NV."
        assert client.call_tool("get_alerts", {"state": "California"}).is_error
        down = client.call_tool("get_forecast", {"latitude": 0, "longitude": 0})
        assert down.is_error and down.text.startswith("The weather service did not answer: 503")


@pytest.mark.slow
def test_chat_lets_a_model_use_tools(service, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("lemon lemon coffee", encoding="utf-8")
    seen = []

    def model(body):
        seen.append(body)
        last = body["messages"][-1]["content"]
        if isinstance(last, str) and last == "Hello":
            return {"content": [{"type": "text", "text": "Hello yourself."}]}
        if isinstance(last, str):
            return {"content": [{"type": "text", "text": "Let me look."}, {
                "type": "tool_use", "id": "t1", "name": "top_words", "input": {"path": str(text), "count": 1}}]}
        return {"content": [{"type": "text", "text": f"It says {last[0]['content'][0]['text']}"}]}

    service.answers = {"/v1/messages": model}
    output = run("chat.py", sys.executable, str(EXAMPLES / "hello.py"), cwd=str(ROOT),
                 input=b"Hello\nWhat is it about?\ny\nAnd now?\nn\n", env={"CHAT_API": f"{service.url}/v1/messages"})
    assert "Hello yourself." in output
    assert 'It says {"lemon":2}' in output.replace('": ', '":')
    assert "The user did not allow this call." in output
    assert seen[0]["tools"][0]["name"] == "top_words"
    assert seen[0]["tools"][0]["input_schema"]["required"] == ["path"]


@pytest.mark.slow
def test_chat_keeps_images(service, tmp_path):
    seen = []

    def model(body):
        seen.append(body["messages"][-1]["content"])
        if len(seen) == 1:
            return {"content": [{"type": "tool_use", "id": "t1", "name": "chart", "input": {}}]}
        return {"content": [{"type": "text", "text": "A fine chart."}]}

    program = tmp_path / "charts.py"
    program.write_text("import mcplite\nmcp = mcplite.Server('charts')\n@mcp.tool()\ndef chart() -> mcplite.Image:\n"
                       "    return mcplite.Image(bytes.fromhex('89504e470d0a1a0a'), 'image/png')\nmcp.run()\n", "utf-8")
    service.answers = {"/v1/messages": model}
    output = run("chat.py", sys.executable, str(program), input=b"Draw\ny\n", env={"CHAT_API": f"{service.url}/v1/messages"})
    assert "A fine chart." in output
    assert seen[1] == [{"type": "tool_result", "tool_use_id": "t1", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]}]


def test_notes_are_read_written_and_watched():
    updated, changed = [], threading.Event()

    def note_updated(uri):
        updated.append(uri)
        changed.set()

    with connect("notes.py", on_resource_updated=note_updated) as client:
        assert client.read_resource("note://shopping").text == "milk, bread"
        client.subscribe_resource("note://shopping")
        client.call_tool("write_note", {"title": "shopping", "text": "milk"}).raise_for_error()
        assert changed.wait(SECONDS) and updated == ["note://shopping"]
        assert client.read_resource("note://shopping").text == "milk"
        client.unsubscribe_resource("note://shopping")
        client.call_tool("write_note", {"title": "travel", "text": "passport"}).raise_for_error()
        assert json.loads(client.read_resource("note://all").text) == ["shopping", "travel"]
        assert client.complete(resource="note://{title}", argument="title", value="t").values == ["travel"]
        assert "passport" in client.get_prompt("summarize", {"title": "travel"}).messages[0].content.text
        with pytest.raises(mcplite.errors.ResourceNotFound):
            client.read_resource("note://nothing")


def test_book_asks_the_user_and_the_model():
    asked = []

    def user(request):
        asked.append(request.message)
        if "free" in request.message:
            return {"name": "Ada", "window": True}
        return {"ok": True}

    def model(request):
        return CreateMessageResult(role="assistant", content=[TextContent(text="Do come.")], model="canned")

    with connect("book.py", elicitation_handler=user, sampling_handler=model) as client:
        assert client.call_tool("write_invitation").is_error
        booked = client.call_tool("book_table", {"guests": 4})
        assert booked.text == "Booked: 4 guests, Ada, at the window."
        assert client.call_tool("write_invitation").text == "Do come."
        assert client.call_tool("cancel_all").text == "Cancelled."
    assert asked == ["A table for 4 is free. Book it?", "Cancel every booking?"]


@pytest.mark.slow
def test_book_accepts_a_refusal():
    with connect("book.py", elicitation_handler=lambda request: False) as client:
        assert client.call_tool("book_table", {"guests": 2}).text == "Nothing was booked."
    with connect("book.py") as client:
        assert client.call_tool("book_table", {"guests": 2}).is_error


def test_pool_makes_a_hundred_calls(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"word{number}" for number in range(200)), encoding="utf-8")
    assert run("pool.py", str(text)) == "100 answers, the longest with 100 words\ncancelled: changed my mind\n"


def test_embedded_is_its_own_client():
    lines = run("embedded.py").splitlines()
    assert lines[0] == "['unpaid', 'ship']"
    assert lines[1] == "{'result': [{'id': 2, 'item': 'coffee', 'paid': False}]}"
    assert lines[2:] == ["shipped tea", "shipped coffee", "2 shipped; unpaid() is still a plain function: []"]


def test_a_page_and_tools_share_a_guest_book():
    assert (EXAMPLES / "web.py").exists()
    command = [sys.executable, "-m", "waitress", "--threads=16", "--listen=127.0.0.1:PORT", "web:app"]
    with serving(command, EXAMPLES) as url, mcplite.connect(url + "mcp") as client:
        assert client.call_tool("sign", {"name": "Ada", "text": "<b>lovely</b>"}).structured_content == {"result": 1}
        assert requests.get(url).text == "<p>Ada: &lt;b&gt;lovely&lt;/b&gt;</p>"
        assert client.call_tool("read").structured_content == {"Ada": "<b>lovely</b>"}


@pytest.mark.parametrize("name, module, page, calls", [
    ("flask_site.py", "flask_site:app", "tea", [
        ("add_note", {"text": "tea"}, "see http://127.0.0.1:"), ("delete_notes", {}, "1 deleted")]),
    ("django_site.py", "django_site:application", "1 users", [
        ("add_user", {"name": "ada"}, "ada is number 1"), ("count_users", {}, "1")])])
@pytest.mark.slow
def test_the_tools_of_a_site_know_what_its_pages_know(name, module, page, calls, tmp_path):
    command = [sys.executable, "-m", "waitress", "--listen=127.0.0.1:PORT", "--threads=8", module]
    with serving(command, tmp_path, PYTHONPATH=os.pathsep.join([str(ROOT), str(EXAMPLES)])) as url:
        with mcplite.connect(url + "mcp", timeout=SECONDS, elicitation_handler=lambda request: True) as client:
            for number, (tool, arguments, text) in enumerate(calls):
                assert client.call_tool(tool, arguments).raise_for_error().text.startswith(text)
                assert number or requests.get(url).text == page


@pytest.mark.slow
def test_the_django_site_serves_on_stdio(tmp_path):
    program = [sys.executable, str(EXAMPLES / "django_site.py"), "mcp"]
    with mcplite.connect(program, env={"PYTHONPATH": str(ROOT)}, cwd=str(tmp_path), timeout=SECONDS) as client:
        assert client.call_tool("count_users").text == "0"


@pytest.mark.slow
def test_the_flask_site_is_a_program(tmp_path):
    with serving([sys.executable, str(EXAMPLES / "flask_site.py"), "PORT"], tmp_path) as url:
        with mcplite.connect(url + "mcp", timeout=SECONDS) as client:
            assert client.call_tool("add_note", {"text": "tea"}).text == f"see {url}"


def test_protected_allows_by_the_scopes_of_the_token():
    assert run("protected.py").splitlines() == [
        "{'milk': 'two bottles'}", "ann added bread", "{'milk': 'two bottles', 'bread': 'a loaf'}",
        "refused: insufficient_scope", "refused: invalid token"]


def test_protected_is_served_with_tokens_of_the_environment():
    command = [sys.executable, "-m", "mcplite.server", "protected.py", "--http=PORT"]
    with serving(command, EXAMPLES, ANN_TOKEN="a-token-for-ann-alone", BOB_TOKEN="a-token-for-bob-alone") as url:
        with mcplite.connect(url + "mcp", auth="a-token-for-bob-alone") as client:
            assert client.call_tool("read_notes").structured_content == {"milk": "two bottles"}
        with pytest.raises(mcplite.errors.AuthError, match="401"):
            mcplite.connect(url + "mcp", auth="a-token-of-nobodys").open()


def test_issuer_logs_its_user_in(tmp_path):
    pytest.importorskip("authlib")
    from tests.support.issuers import Person

    person, store = Person("demo"), mcplite.auth.MemoryStore()
    command = [sys.executable, "issuer.py", "--port", "PORT", "--backend", f"sqlite:///{tmp_path / 'logins.db'}"]
    with serving(command, EXAMPLES) as url:
        assert requests.post(url + "mcp", json={}, timeout=SECONDS).status_code == 401
        auth = mcplite.OAuth(ask=mcplite.auth.Browser(open=person), store=store)
        with mcplite.connect(url + "mcp", auth=auth, timeout=SECONDS) as client:
            assert client.call_tool("hello").text == "Hello Demo User!"
            consents = len(person.pages)
            assert client.call_tool("secret").text == "The secret of demo is 42."
            assert len(person.pages) > consents


# --- one tool for all revisions -----------------------------------------------------------------------

ASKING = [revision.name for revision in revisions.REVISIONS
          if "elicitation/create" in revision.server_requests | revision.input_requests]
WISH = {"day": "2026-09-01", "seats": 2}


@pytest.fixture(params=["stdio", "http", "fleet"])
def trip(request):
    """Serve the example; give its name and a function that connects. In a fleet its handlers run again with each answer."""
    if request.param == "stdio":
        yield request.param, lambda **options: connect("trip.py", **options)
        return
    keys = {"TRIP_KEYS": "a-key-of-at-least-sixteen-bytes"} if request.param == "fleet" else {}
    command = [sys.executable, "-m", "mcplite.server", "trip.py", "--http=PORT", "--legacy-sse"]
    with serving(command, EXAMPLES, **keys) as url:
        oldest = revisions.REVISIONS[0].name
        yield request.param, lambda revision, **options: connecting.connect(
            url + ("sse" if revision == oldest else "mcp"), revision=revision, **options)


def answers(sure):
    """Return a user who answers both questions, and the list of what they were asked."""
    asked = []

    def user(request):
        asked.append(request.message)
        return WISH if len(asked) == 1 else {"ok": sure}

    return user, asked


@pytest.mark.parametrize("revision", [revision.name for revision in revisions.REVISIONS])
@pytest.mark.slow
def test_trip_asks_twice_and_holds_once_or_names_the_missing_capability(trip, revision):
    name, connect_to = trip
    user, asked = answers(sure=True)
    with connect_to(revision=revision, elicitation_handler=user) as client:
        result = client.call_tool("plan_trip", {"city": "Rome"})
        counted = json.loads(client.call_tool("trips").text)
    # A fleet can ask only clients whose requests carry the answers so far.
    if revision in ASKING and (name != "fleet" or revisions.find_revision(revision).modern):
        assert result.text == "Booked number 1: Rome on 2026-09-01 for 2."
        assert asked == ["When do you want to go to Rome?", "Rome on 2026-09-01 for 2 is held as number 1. Book it?"]
        assert counted == {"held": ["Rome on 2026-09-01 for 2"], "booked": ["Rome on 2026-09-01 for 2"]}
    else:
        assert result.is_error and "needs elicitation" in result.text and revision in result.text
        assert asked == [] and counted == {"held": [], "booked": []}


@pytest.mark.slow
def test_trip_accepts_a_refusal_of_either_question(trip):
    connect_to = trip[1]
    newest = revisions.NEWEST.name
    user, asked = answers(sure=False)
    with connect_to(revision=newest, elicitation_handler=user) as client:
        assert client.call_tool("plan_trip", {"city": "Rome"}).text == "Number 1 is not booked."
        assert len(asked) == 2
        assert client.call_tool("trips").structured_content == {"held": ["Rome on 2026-09-01 for 2"], "booked": []}
    with connect_to(revision=newest, elicitation_handler=lambda request: False) as client:
        assert client.call_tool("plan_trip", {"city": "Oslo"}).text == "No trip was planned."
        assert "Oslo" not in client.call_tool("trips").text
    with connect_to(revision=newest) as client:
        assert "needs elicitation" in client.call_tool("plan_trip", {"city": "Oslo"}).text
