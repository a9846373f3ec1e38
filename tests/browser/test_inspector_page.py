"""The inspector's page in a real browser: what a person does there, what a hostile server cannot do, and how the page looks."""

import contextlib
import json
import sys
import threading

import pytest

import mcplite
from mcplite.cli.inspect_command import targets_of
from mcplite.cli.parser import parse
from mcplite.inspector.inspector_server import Inspector
from tests.support import gallery
from tests.support.chromium import CHROMIUM, LIMIT
from tests.support.inspecting import CONTRAST, Page, hostile, many
from tests.support.issuers import Person, serving

pytestmark = [pytest.mark.interop,
              pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; tests/interop/install.sh installs it")]

NEWEST, TASKS, OLDEST = "2026-07-28", "2025-11-25", "2024-11-05"


@pytest.mark.parametrize("revision", [NEWEST, OLDEST])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_server_of_each_transport_and_era_is_used_and_seen(inspect, transport, revision):
    with contextlib.ExitStack() as stack:
        target = [sys.executable, gallery.__file__]
        if transport == "http":
            target = stack.enter_context(mcplite.serve(gallery.server())).url
        page = inspect({"gallery": target, "other": gallery.server()})
        page.expect("Servers")
        page.choose("[aria-label='Revision for gallery']", revision)
        page.click("[data-action='Open gallery']")
        page.expect(f"Revision {revision}")
        page.use("find_paintings")
        page.fill("painter", "brandt")
        page.press_button("Call")
        page.expect("Harbour at dusk")
        assert "Two pears" in page.text and "The blue kitchen" not in page.text
        page.press_button("See its messages")
        page.expect('"find_paintings"')
        assert page.see(".list-row[aria-selected=true] .what") == "tools/call find_paintings"
        if transport == "http":
            page.click(".message-pane .choice label:nth-child(2)")
            page.expect("POST http://127.0.0.1")
        assert page.complaints == [] and page.foreign_requests() == []


def test_a_form_of_every_kind_of_field_becomes_arguments(page):
    page.use("frame")
    page.press_button("Call")
    page.expect("is required")
    page.fill("title", "Two pears")
    page.fill("width", "901")
    page.fill("material", "gilt")
    page.expect("must be at most 900")
    page.evaluate("document.querySelector('.group input').select()")
    page.fill("width", "30.5")
    page.press_button("Add an item")
    page.fill("item 1", "by hand")
    page.choose("[aria-label='kind of depth']", "0")
    page.fill("whole number", "12")
    page.press_button("Call")
    page.expect("Ready in 14 days.")
    page.expect("notes ['by hand']")
    assert "Depth 12" in page.text and "30.5 × 50" in page.text
    assert page.count(".markdown h4") == 1 and page.count(".markdown table") == 1


def test_json_and_form_show_one_value(page):
    page.use("frame")
    page.click(".form-head .choice label:nth-child(2)")
    given = {"title": "", "size": {"width": 3, "colour": None}, "material": "oak", "depth": None,
             "labels": {"a": "b", "__proto__": "c"}, "notes": ["x", "y"], "unknown": [1, {"a": False}]}
    page.evaluate("document.querySelector('textarea.raw').select()")
    page.type("textarea.raw", json.dumps(given))
    page.click(".form-head .choice label:nth-child(1)")
    page.fill("material", "gilt")
    page.click(".form-head .choice label:nth-child(2)")
    assert json.loads(page.evaluate("document.querySelector('textarea.raw').value")) == {**given, "material": "gilt"}
    page.type("textarea.raw", "}")
    page.click(".form-head .choice label:nth-child(1)")
    page.expect("This is not JSON")


def test_a_file_is_sent_as_base64(page, tmp_path):
    (tmp_path / "photograph.bin").write_bytes(bytes(range(256)))
    page.use("scan")
    page.call("DOM.setFileInputFiles", nodeId=page._node("input[type=file]"), files=[str(tmp_path / "photograph.bin")])
    page.expect("photograph.bin, 256 bytes")
    page.press_button("Call")
    page.wait(lambda: "256 bytes" in page.see(".result-body"), "the result")


def test_results_are_shown_as_people_read_them(page):
    page.use("draw")
    page.press_button("Call")
    page.wait(lambda: page.evaluate("document.querySelector('figure img')?.naturalWidth") == 320, "the picture")
    page.press_button("catalogue")
    page.expect("gallery://catalogue")
    page.press_button("Read")
    page.wait(lambda: page.count(".markdown li strong") == 4, "the catalogue")
    page.use("fails")
    page.press_button("Call")
    page.expect("The kiln is cold: light it first.")
    assert "Answered with an error" in page.text
    page.use("find_paintings")
    page.press_button("Call")
    page.wait(lambda: page.count(".result-body tbody tr") == 4, "a table")
    assert page.evaluate("document.querySelector('.item-head a').rel") == "noopener noreferrer"
    assert "(gallery.example)" in page.text


def test_a_call_shows_progress_and_is_cancelled(page):
    page.use("restore")
    page.fill("title", "Two pears")
    page.evaluate("document.querySelectorAll('.members input')[1].select()")
    page.fill("steps", "50")
    page.press_button("Call")
    page.expect("2 of 50: layer 2")
    page.press_button("Cancel")
    page.expect("The call was cancelled.")
    page.press_button("Edit")
    assert page.evaluate("document.querySelectorAll('.members input')[1].value") == "50"


def test_earlier_calls_are_repeated(page):
    page.use("find_paintings")
    page.press_button("Call")
    page.wait(lambda: page.count(".history li") == 1, "the call")
    page.click(".history [aria-label^=Repeat]")
    page.wait(lambda: page.count(".history li") == 2, "a second call")


def test_a_destructive_tool_is_called_after_consent_only(page):
    page.use("burn_archive")
    page.fill("year", "1999")
    page.press_button("Call")
    page.expect("The server marks this tool as destructive")
    page.press_button("Do not call", within="dialog")
    page.wait(lambda: page.count("dialog") == 0, "the end of the dialog")
    assert page.count(".history li") == 0
    page.press_button("Call")
    page.press_button("Call it", within="dialog")
    page.expect("1999 is gone.")


def test_questions_are_answered_in_dialogs(page):
    page.use("appraise")
    page.press_button("Call")
    page.expect("Which painting shall be appraised?")
    assert page.count("dialog strong") >= 2, "Markdown of the question"
    page.press_button("Send the answer", within="dialog")
    page.expect("is required")
    # Escape leaves the question for later.
    page.press("Escape")
    page.wait(lambda: page.count("dialog") == 0, "the end of the dialog")
    page.press("2")
    page.press_button("Answer", within="main")
    page.fill("Title", "Two pears", within="dialog")
    page.fill("Condition", "Worn", within="dialog")
    page.press_button("Send the answer", within="dialog")
    page.expect("Answered here")
    page.use("appraise")
    page.expect("accept")
    assert "'condition': 'worn'" in page.text and "'insured': True" in page.text
    page.press_button("Call")
    page.press_button("Decline", within="dialog")
    page.expect("decline: None")


def test_a_page_to_open_is_shown_with_its_host(page):
    page.use("pay")
    page.press_button("Call")
    page.expect("The page is at pay.example")
    assert page.evaluate("[...document.querySelectorAll('dialog a')].map((one) => [one.href, one.rel, one.target])") == [
        ["https://pay.example/checkout?order=7", "noopener noreferrer", "_blank"]]
    page.press_button("I have opened it", within="dialog")
    page.wait(lambda: "accept" in page.see(".result-body"), "the result")


def test_sampling_is_answered_by_hand_and_canned(page):
    page.use("describe")
    page.fill("title", "Two pears")
    page.press_button("Call")
    page.expect("Describe the painting “Two pears” in one sentence.")
    assert "You write wall texts for a small museum." in page.text
    page.type("#sampling-text", "Two pears wait.")
    page.press_button("Send the answer", within="dialog")
    page.expect("by hand: Two pears wait.")
    page.press_button("Call")
    page.press_button("Refuse", within="dialog")
    page.wait(lambda: page.count(".history .dot:is(.cancelled, .bad)"), "the end of the call")
    page.go("answer", "gallery")
    page.expect("When the server asks for a model's answer")
    page.click(".card .choice label:nth-child(2)")
    page.expect("Each request for sampling gets this answer.")
    page.use("describe")
    page.press_button("Call")
    page.expect("canned: A canned answer.")


@pytest.mark.parametrize("revision", [NEWEST, TASKS])
def test_a_call_that_became_a_task_is_followed_and_answered(page, revision):
    if revision != NEWEST:  # with which it was opened
        page.go("connection", "gallery")
        page.choose("[aria-label='Revision for gallery']", revision)
        page.press_button("Open again")
        page.expect(f"Revision {revision}")
    page.use("print_catalogue")
    page.fill("copies", "40")
    if revision == TASKS:
        page.click(".item-input .actions input[type=checkbox]")
    page.press_button("Call")
    page.press_button("Go to the task")
    page.wait(lambda: page.evaluate("location.hash").startswith("#/use/gallery/tasks/"), "the task")
    if revision == NEWEST:  # the result of a look at the task has the question; before, the server asks
        page.press_button("Answer what it asks")
    page.expect("Print 40 copies?")
    page.press_button("Send the answer", within="dialog")
    page.expect("40 copies are printed.")
    page.wait(lambda: "completed" in page.see(".item-head"), "the end of the task")
    assert "follows this task" not in page.text


def test_what_was_typed_stays_when_a_list_changes(inspect):
    mcp = gallery.server()
    page = inspect({"gallery": mcp})
    page.expect("Find paintings")
    page.use("print_catalogue")
    page.fill("copies", "40")
    mcp.add_tool(lambda: "", name="wrap_up", description="One more.")
    page.wait(lambda: "wrap_up" in page.see(".side"), "the tool that was added")
    field = "[...document.querySelectorAll('main label[for]')].find((one) => one.innerText === 'copies').htmlFor"
    assert page.evaluate(f"document.getElementById({field}).value") == "40"


def test_a_list_of_tasks_tells_how_far_they_are(page):
    page.use("print_catalogue")
    page.fill("copies", "40")
    page.press_button("Call")
    page.press_button("Go to the task")
    page.press_button("Cancel the task")
    page.go("use", "gallery", "tasks")
    page.wait(lambda: page.see(".side .list-row .tag") == "cancelled", "the end of the task")


def test_roots_are_told_to_the_server(page):
    page.go("answer", "gallery")
    page.press_button("Add a root")
    page.type("[aria-label='URI of root 1']", "file:///home/ann/pictures")
    page.press_button("Use these roots")
    page.expect("The server is told of 1 root.")
    page.use("folders")
    page.press_button("Call")
    page.expect("file:///home/ann/pictures")


def test_prompts_and_templates_complete_while_the_user_types(page):
    page.use("wall_text", kind="prompts")
    page.fill("title", "pea")
    page.wait(lambda: page.count(".completions [role=option]") == 1, "a suggestion")
    page.press("ArrowDown")
    page.press("Enter")
    assert page.evaluate("document.querySelector('.members input').value") == "Two pears"
    page.press("Enter")
    page.expect("Write a sober wall text for “Two pears”.")
    page.use("gallery://painters/{name}", kind="templates")
    page.fill("name", "Ida Brandt")
    assert page.see(".preview") == "gallery://painters/Ida%20Brandt"
    page.press_button("Read")
    page.expect("Ida Brandt: Harbour at dusk, Two pears")


def test_calls_that_overlap_are_seen_to_overlap(inspect):
    mcp, meeting = gallery.server(), threading.Barrier(2)

    @mcp.tool()
    def meet(name: str) -> str:
        """Waits for another call."""
        meeting.wait(LIMIT)
        return f"{name} was there."

    page = inspect({"gallery": mcp})
    page.expect("Find paintings")
    page.use("meet")
    page.fill("name", "A")
    page.press_button("Call")
    page.wait(lambda: page.count(".history .dot.running"), "the first call")
    page.press_button("Call")
    page.wait(lambda: page.count(".history .dot.done") == 2, "the end of both")
    page.go("see", "gallery")
    page.expect("messages")
    page.type(".toolbar input[type=search]", "tools/call")
    page.wait(lambda: page.count(".list-row") == 4, "two calls and their answers")
    first, second = page.evaluate("""[...document.querySelectorAll('.bar.request')].map((one) => {
        const box = one.getBoundingClientRect(); return [box.left, box.right]; })""")
    assert first[0] < second[0] < min(first[1], second[1])
    page.click(".list-row .bar.request")
    page.press_button("Its answer")
    page.wait(lambda: '"A was there."' in page.see(".message-pane"), "the answer")
    page.press_button("Pause")
    page.use("fails")
    page.press_button("Call")
    page.expect("The kiln is cold")
    page.go("see", "gallery")
    page.expect("messages, ")
    assert page.count(".list-row") == 4
    page.press_button("Go on")
    page.wait(lambda: page.count(".list-row") == 6, "what came meanwhile")
    page.press_button("Clear")
    page.wait(lambda: page.count(".list-row") == 0, "an empty timeline")


@pytest.fixture
def export(inspect):
    """The page with a request chosen, and the ways to send it from elsewhere in view."""
    with mcplite.serve(gallery.server()) as served:
        page = inspect({"gallery": served.url})
        page.use("find_paintings")
        page.press_button("Call")
        page.press_button("See its messages")
        page.click(".message-pane .choice label:last-child")
        page.expect("curl --no-buffer")
        yield page
        assert page.complaints == []


def choose_form(page, form):
    page.evaluate(f"""[...document.querySelectorAll(".message-body .choice label")]
        .find((one) => one.innerText === {json.dumps(form)}).click()""")


def test_a_message_is_taken_along(export):
    for form, text in (("Python", "mcplite.connect("), ("pytest", "def test_"), ("Cassette", '"mcplite": "cassette"')):
        choose_form(export, form)
        export.expect(text)


def test_the_form_that_was_chosen_last_is_shown_though_its_answer_comes_first(export):
    # The answer for "python" waits until the test lets it go.
    export.evaluate("""(() => {
        const real = window.fetch;
        window.fetch = async (path, options) => {
            const answer = await real(path, options);
            if (!options?.body?.includes('"as":"python"')) return answer;
            const read = answer.json.bind(answer);
            answer.json = async () => {
                const body = await read();
                await new Promise((go) => { window.release = go; });
                setTimeout(() => { window.taken = true; });
                return body;
            };
            return answer;
        };
    })()""")
    choose_form(export, "Python")
    export.wait(lambda: export.evaluate("Boolean(window.release)"), "the answer for Python")
    choose_form(export, "pytest")
    export.expect("def test_")
    export.evaluate("window.release()")
    export.wait(lambda: export.evaluate("window.taken"), "the late answer")
    assert "def test_" in export.see(".message-body pre")


def test_a_server_is_compared_by_revision_and_by_kit(page):
    page.go("compare", "gallery")
    page.press_button("Compare", within="main")
    page.expect("differences between 5 revisions")
    assert page.evaluate("[...document.querySelectorAll('.compare thead th')].map((one) => one.innerText)") == [
        "Part", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
    last = ("[...document.querySelectorAll('.compare tr')].find((one) => one.innerText.startsWith('find_paintings'))"
            ".lastChild.innerText")
    assert page.evaluate(last) == "lacks title, annotations, outputSchema"
    rows = page.count(".compare tr")
    page.click(".toolbar input[type=checkbox]")
    page.wait(lambda: 0 < page.count(".compare tr") < rows, "the differences only")
    page.click(".toolbar .choice label:last-child")
    page.press_button("Compare", within="main")
    page.expect("The size is an estimate")
    assert page.count(".compare tbody tr") == 12
    page.click(".compare tbody td details summary")
    page.wait(lambda: '"parameters"' in page.see(".compare details[open]"), "a declaration")


def test_a_server_that_fails_says_why(inspect):
    page = inspect({"broken": [sys.executable, "-c", "import sys; sys.exit('no config: set GALLERY_PATH')"]})
    page.expect("broken could not be opened")
    page.go("see", "broken")
    page.expect("no config: set GALLERY_PATH")
    page.go("connection", "broken")
    page.expect("failed")
    page.press_button("Examine")
    page.wait(lambda: page.count(".steps li"), "what was found")
    assert page.complaints == []


def test_a_login_is_shown_step_by_step_and_opens_the_server(inspect, tmp_path, monkeypatch):
    pytest.importorskip("authlib")
    monkeypatch.setenv("MCPLITE_CREDENTIALS", str(tmp_path / "credentials.json"))
    monkeypatch.setenv("no_proxy", "*")
    person = Person()
    with serving() as issuer:
        options = parse(["inspect", issuer.endpoint], "mcplite", "1")
        (target,) = targets_of(list(options.words), options)
        page = inspect([target])
        page.expect("could not be opened")
        page.press_button("Log in")
        page.expect("Your turn: log in.")
        shown = page.evaluate("[...document.querySelectorAll('.steps strong')].map((one) => one.innerText)")
        assert shown[:4] == ["connection", "server", "challenge", "metadata of the server"]
        assert page.evaluate("document.querySelector('.login a').rel") == "noopener noreferrer"
        person(page.evaluate("document.querySelector('.login a').href")).join(LIMIT)
        page.expect("You are logged in.")
        page.expect("the refresh token got another access token")
        page.press_button("Use", within="main")
        page.expect("hello")
        page.use("hello", target.name)
        page.press_button("Call")
        page.expect("ann ann@example.com notes")
        # A login that nobody finishes is stopped.
        page.go("connection", target.name)
        page.press_button("Log in")
        page.expect("Your turn: log in.")
        page.press_button("Stop")
        page.expect("the walk was stopped")
        assert page.complaints == [] and page.foreign_requests() == []


@pytest.mark.parametrize("revision", [NEWEST, OLDEST])
def test_the_level_of_log_messages_is_chosen(inspect, revision):
    mcp = gallery.server()

    @mcp.tool()
    def talk(ctx: mcplite.Context) -> str:
        """Logs."""
        ctx.debug("a detail")
        ctx.error("a failure")
        return "said"

    page = inspect({"gallery": mcp, "other": gallery.server()})
    page.expect("Servers")
    page.choose("[aria-label='Revision for gallery']", revision)
    page.click("[data-action='Open gallery']")
    page.expect(f"Revision {revision}")

    def logged(level):
        page.go("see", "gallery")
        page.press_button("Clear")
        page.wait(lambda: page.count(".list-row") == 0, "an empty timeline")
        page.choose(".level", level)
        page.wait(lambda: page.evaluate("document.querySelector('.level').value") == level
                  and page.evaluate("document.querySelector('.level [value=\"\"]') === null"), "the level")
        page.use("talk")
        page.press_button("Call")
        page.wait(lambda: page.count(".history .dot:is(.running, .done)") and not page.count(".dot.running")
                  and page.count(".result-body"), "the result")
        page.go("see", "gallery")
        page.wait(lambda: "a failure" in page.text, "the message")
        return "a detail" in page.text

    assert logged("debug")
    assert not logged("error")
    assert page.complaints == []


def test_a_hostile_server_puts_no_markup_into_the_page(inspect):
    page = inspect({"hostile": hostile()})
    page.evaluate("window.alert = () => { window.alerted = true; }")
    page.expect("<script>alert(2)</script>")
    page.use("bad", "hostile")
    page.evaluate("document.querySelector('.definition').open = true")
    page.press_button("Call")
    page.expect("Answered with an error")
    page.use("worse", "hostile")
    page.press_button("Call")
    page.expect("the browser cannot show it")
    page.use("ask", "hostile")
    page.press_button("Call")
    page.wait(lambda: page.count("dialog"), "the question")
    page.press_button("Cancel", within="dialog")
    page.use("say", "hostile", "prompts")
    page.press_button("Get")
    page.wait(lambda: page.count(".said"), "the prompt")
    for view in ("see", "connection", "answer"):
        page.go(view, "hostile")
        page.wait(lambda: page.count(f".{view}-view"), view)
    page.go("see", "hostile")
    page.wait(lambda: page.count(".list-row"), "messages")
    assert page.count("script:not([src]), iframe, img[onerror], a[href^=javascript]") == 0
    assert not page.evaluate("window.alerted")
    assert page.foreign_requests() == []
    # The sound that is none is refused by the browser's player alone.
    assert [one for one in page.complaints if "entry" not in one or one["entry"]["source"] not in ("network", "other")] == []


def test_a_thousand_tools_and_ten_thousand_messages_are_drawn_as_far_as_they_are_in_view(inspect):
    page = inspect({"many": many()})
    page.expect("tool_0003")
    assert page.count(".side .list-row") < 60
    page.evaluate("document.querySelector('.side .list').focus()")
    page.press("End")
    page.expect("tool_0999")
    assert page.count(".side .list-row") < 60
    page.press("/")
    page.call("Input.insertText", text="number 517")
    page.wait(lambda: page.count(".side .list-row") == 1, "what was searched for")
    for number in range(10_000):
        message = {"jsonrpc": "2.0", "method": "notifications/x", "params": {"name": f"n{number}"}}
        page.inspector.traffic.add("many", "<-", json.dumps(message).encode())
    page.go("see", "many")
    page.expect("n9999")
    assert page.count(".timeline .list-row") < 80
    page.type(".toolbar input[type=search]", "n4321")
    page.wait(lambda: page.count(".timeline .list-row") == 1, "the message that was searched for")
    assert page.complaints == []


def test_the_keyboard_is_enough(page):
    page.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.call("Input.insertText", text="archive")
    page.press("Enter")
    page.wait(lambda: page.evaluate("document.activeElement.closest('.members') !== null"), "the focus in the form")
    page.call("Input.insertText", text="1999")
    page.press("Enter")
    page.wait(lambda: page.count("dialog[open]"), "the question for consent")
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.press("Escape")
    page.wait(lambda: page.count("dialog") == 0, "the end of the dialog")
    page.evaluate("document.activeElement.blur()")
    for key, view in zip("12345", ("use", "answer", "see", "compare", "connection")):
        page.press(key)
        page.wait(lambda: page.count(f".{view}-view"), view)
    page.press("1")
    page.wait(lambda: page.count(".kinds [role=tab]"), "the kinds")
    page.evaluate("document.querySelector('.kinds [aria-selected=true]').focus()")
    page.press("ArrowDown")
    page.expect("catalogue")
    assert page.evaluate("document.activeElement.dataset.kind") == "resources"
    page.press("Tab")
    page.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "listbox"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("ArrowDown")
    page.press("Enter")
    page.wait(lambda: "gallery://catalogue" in page.see(".item-key"), "the resource")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(inspect, scheme):
    page = inspect({"gallery": gallery.server()}, scheme=scheme)
    page.expect("Find paintings")
    page.use("frame")
    page.press_button("Call")
    page.expect("is required")
    assert page.evaluate(CONTRAST) == []
    for name in ("fails", "find_paintings"):
        page.use(name)
        page.press_button("Call")
        page.wait(lambda: page.count(".history li"), "the call")
        assert page.evaluate(CONTRAST) == []
    page.use("appraise")
    page.press_button("Call")
    page.wait(lambda: page.count("dialog"), "the question")
    assert page.evaluate(CONTRAST) == []
    page.press_button("Cancel", within="dialog")
    for view in ("answer", "see", "compare", "connection"):
        page.go(view, "gallery")
        page.wait(lambda: page.count(f".{view}-view"), view)
        if view == "see":
            page.wait(lambda: page.count(".list-row"), "messages")
            page.click(".list-row")
        assert page.evaluate(CONTRAST) == [], view


def test_nothing_moves_for_those_who_prefer_that(page):
    moving = """(() => { const dot = document.querySelector('.server-picker .dot'); dot.className = 'dot running';
        return getComputedStyle(dot).animationName; })()"""
    assert page.evaluate(moving) == "breathe"
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    assert page.evaluate(moving) == "none"


def test_the_contrast_test_finds_what_is_faint(page):
    page.evaluate("document.querySelector('.brand').style.color = 'rgb(180 185 182)'")
    assert [text for text, _ in page.evaluate(CONTRAST)] == ["inspector"]


def test_a_narrow_window_has_one_column(inspect):
    page = inspect({"gallery": gallery.server()}, width=360, height=740)
    page.expect("Find paintings")
    page.click(".side .list-row")
    page.wait(lambda: page.count(".with-item"), "the tool")
    assert not page.evaluate("document.querySelector('.side').checkVisibility()")
    page.press_button("Call")
    page.expect("Harbour at dusk")
    page.press_button("All tools")
    page.wait(lambda: page.evaluate("document.querySelector('.side').checkVisibility()"), "the list")
    for view in ("use", "answer", "see", "compare", "connection"):
        page.go(view, "gallery")
        page.wait(lambda: page.count(f".{view}-view"), view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
        assert page.evaluate("Math.max(...[...document.querySelectorAll('.views a, .top, main')].map((one) =>"
                             " one.getBoundingClientRect().right))") <= 360, view
    assert page.complaints == []


def test_a_browser_without_the_cookie_is_told_what_to_do(inspect, chromium):
    page = inspect({"gallery": gallery.server()})
    other = chromium.tab()
    other.visit(page.inspector.url.partition("?")[0])
    other.expect("open the address")
    other.visit("about:blank")


@pytest.fixture(scope="module")
def module(chromium):
    """Return a function that gives what an expression makes of a module of the page."""
    with Inspector([]) as inspector:
        page = Page(inspector, chromium.tab())
        page.visit(f"{page._url}/page/icon.svg")
        for name in ("uri_template", "markdown", "schema", "api"):
            page.module(name, "1")
        yield page.module
        page.visit("about:blank")


@pytest.mark.parametrize("template, values, uri", [
    ("file:///{path}", {"path": "a b/c"}, "file:///a%20b%2Fc"), ("file:///{+path}", {"path": "a b/c"}, "file:///a%20b/c"),
    ("x://a{?q,r}", {"q": "1&2"}, "x://a?q=1%262"), ("x://a{?q,r}", {}, "x://a"), ("x://a{/b,c}", {"b": "1", "c": "2"}, "x://a/1/2"),
    ("x://{a:3}", {"a": "abcdef"}, "x://abc"), ("x://a{;p}", {"p": "1"}, "x://a;p=1"), ("x://a{#f}", {"f": "1/2"}, "x://a#1/2"),
])
def test_templates_are_expanded(module, template, values, uri):
    assert module("uri_template", f"module.expand({json.dumps(template)}, {json.dumps(values)})") == uri


@pytest.mark.parametrize("text, html", [
    ("a *b* **c** `d*e*`", "<p>a <em>b</em> <strong>c</strong> <code>d*e*</code></p>"),
    ("snake_case_name 2 * 3 * 4", "<p>snake_case_name 2 * 3 * 4</p>"),
    ("1. a\n2. b\n   - c", '<ol start="1"><li>a</li><li>b<ul><li>c</li></ul></li></ol>'),
    ("```py\n<b>\n```", '<pre data-language="py" tabindex="0"><code>&lt;b&gt;</code></pre>'),
    ("> a\n\n# b", "<blockquote><p>a</p></blockquote><h4>b</h4>"),
    ("[a](javascript:x)", '<p><span class="not-a-link">a (javascript:x)</span></p>'),
])
def test_markdown_becomes_nodes(module, text, html):
    assert module("markdown", f"module.markdown({json.dumps(text)}).innerHTML") == html


@pytest.mark.parametrize("schema, value, found", [
    ({"type": "integer", "minimum": 3}, 2, "must be at least 3"), ({"type": "integer"}, 2.5, "must be whole number"),
    ({"type": "string", "pattern": "^a"}, "b", "does not match ^a"), ({"enum": [1, "a"]}, "1", "is none of the values listed"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, None),
    ({"type": "array", "uniqueItems": True}, [1, 1], "has an item twice"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "required": ["b"]}}}, {}, "is required"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {"$ref": "#/$defs/a"}}, "additionalProperties": False}}},
     {"a": {"a": {"b": 1}}}, "is not in the schema"),
    # It would take a browser years.
    ({"pattern": "^(a+)+$"}, "a" * 60 + "b", None), ({"pattern": ".*.*.*.*.*x"}, "a" * 500, None),
    ({"pattern": "(?P<n>a)"}, "b", None),
    ({"allOf": [{"minLength": 2}, {"type": "string"}]}, "a", "needs at least 2 characters"),
])
def test_values_are_checked_against_their_schema(module, schema, value, found):
    arguments = f"{json.dumps(schema)}, {json.dumps(value)}, {json.dumps(schema)}"
    texts = module("schema", f"module.problems({arguments}).map((one) => one.text)")
    assert texts == ([] if found is None else [found])


def test_a_stream_that_the_page_opens_again_goes_on_behind_its_last_event(module):
    opened = module("api", """(() => {
      const sources = [], kept = [globalThis.EventSource, globalThis.setTimeout];
      globalThis.EventSource = class {
        constructor(url) { Object.assign(this, { url, heard: {}, readyState: 2 }); sources.push(this); }
        addEventListener(name, listener) { this.heard[name] = listener; }
      };
      globalThis.EventSource.CLOSED = 2;
      globalThis.setTimeout = (work) => work();
      module.events(() => {}, () => {});
      sources[0].heard.stderr({ data: "{}", lastEventId: "7" });
      for (const at of [0, 1]) sources[at].heard.error();
      [globalThis.EventSource, globalThis.setTimeout] = kept;
      return sources.map((one) => new URL(one.url, location).searchParams.get("after"));
    })()""")
    assert opened == ["0", "7", "7"]
