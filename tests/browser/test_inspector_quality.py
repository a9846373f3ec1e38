"""Each view of the inspector, wide and narrow, light and dark: what Lighthouse would look at, by Chromium's own eyes."""

import json
import re

import pytest

import mcplite
from tests.support import gallery
from tests.support.chromium import CHROMIUM
from tests.support.inspecting import CONTRAST, hostile, many

pytestmark = [pytest.mark.interop, pytest.mark.slow,
              pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; tests/interop/install.sh installs it")]

#: Roles that a user acts on, each of which needs a name.
ROLES = {"button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "listbox", "option", "tab", "spinbutton",
         "slider", "progressbar", "dialog", "radiogroup", "region", "img", "DisclosureTriangle"}
#: Returns the form fields without a label, and the ids that are there twice.
UNLABELLED = """(() => {
  const named = (one) => one.labels?.length || one.ariaLabel || one.getAttribute('aria-labelledby');
  const bare = [...document.querySelectorAll('input, select, textarea')].filter((one) => one.checkVisibility() && !named(one));
  const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
  return [...bare.map((one) => one.outerHTML), ...ids.filter((id, place) => ids.indexOf(id) !== place)];
})()"""
#: Returns what is wider than the window: the page, or a dialog in it.
WIDER = """(() => {
  const root = document.documentElement, found = [];
  if (root.scrollWidth > innerWidth) found.push(`the page: ${root.scrollWidth}`);
  for (const one of document.querySelectorAll('dialog, main, .top, .views a, .toolbar > *, .button, h2, h3')) {
    const box = one.getBoundingClientRect();
    if (one.checkVisibility() && !one.closest('.scroll') && box.width && (box.right > innerWidth + 1 || box.left < -1))
      found.push(`${one.tagName}.${one.className} ${one.innerText.slice(0, 40)}: ${box.left} to ${box.right}`);
  }
  return found;
})()"""
#: Marks all that the Tab key should reach; returns how many there are. Of radio buttons, and of tabs, it reaches one.
REACHABLE = """(() => {
  document.querySelectorAll('[data-reach]').forEach((one) => delete one.dataset.reach);
  const inside = [...document.querySelectorAll('dialog[open]')].pop() ?? document;
  const all = [...inside.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')];
  const wanted = all.filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && one.tabIndex >= 0 &&
      !one.closest('[inert]') && !(one.type === 'radio' && !one.checked));
  wanted.forEach((one, place) => { one.dataset.reach = place; });
  return wanted.length;
})()"""
#: Returns the mark of what has the focus, and whether it can be seen; null at the end of the page.
FOCUSED = """(() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const shown = (node) => { const style = node && getComputedStyle(node);
      return Boolean(style) && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1; };
  const box = one.getBoundingClientRect();
  return [one.dataset.reach ?? null, shown(one) || shown(one.nextElementSibling) && one.type === 'radio',
          box.width > 0 && box.height > 0, one.outerHTML.slice(0, 160)];
})()"""


def use(page, name, /, *, kind="tools", wait=None, **filled):
    page.use(name, kind=kind)
    for label, text in filled.items():
        page.fill(label, text)
    if wait is not None:
        page.evaluate("document.activeElement?.blur()")  # suggestions stand over the button
        page.click(".item-input .primary")
        page.wait(lambda: page.count(wait), wait)


def ask(page, name, /, **filled):
    use(page, name, wait="dialog[open]", **filled)


def see(page):
    page.go("see", "gallery")
    page.wait(lambda: page.count(".list-row .bar.request"), "messages")
    page.click(".list-row .bar.request")
    page.wait(lambda: page.count(".message-pane .json-view, .message-body"), "the message")


def elsewhere(page):
    page.click(".message-pane .choice label:last-child")
    page.wait(lambda: page.count(".message-body pre"), "the message in another form")


def compare(page, way):
    page.go("compare", "gallery")
    page.click(f".toolbar .choice label:nth-child({way})")
    page.click(".toolbar .primary")
    page.wait(lambda: page.count("table.compare tbody tr") > 8, "the comparison")


def examine(page):
    page.go("connection", "gallery")
    page.press_button("Examine")
    page.wait(lambda: page.count(".steps li"), "the steps")


def canned(page):
    page.go("answer", "gallery")
    page.press_button("Add a root")
    page.click(".card .choice label:nth-child(2)")
    page.wait(lambda: page.count("textarea.mono"), "the canned answer")


def keys(page):
    page.go("use", "gallery")
    page.wait(lambda: page.count(".welcome"), "the first page")
    page.evaluate("document.activeElement?.blur()")
    page.press("?")
    page.wait(lambda: page.count("dialog[open]"), "the keys")


def closed(page):
    page.go("connection", "gallery")
    page.press_button("Close")
    page.expect("closed")
    page.go("use", "gallery")
    page.expect("gallery is closed")


#: All that the page shows, in an order in which one leads to the next.
SCENES = {
    "the first page": lambda page: (page.go("use", "gallery"), page.expect("Find paintings")),
    "a form with problems": lambda page: use(page, "frame", wait=".field-problem"),
    "a table": lambda page: use(page, "find_paintings", wait=".result-body table"),
    "an error": lambda page: use(page, "fails", wait=".call .state.bad"),
    "a picture": lambda page: use(page, "draw", wait="figure img"),
    "a resource": lambda page: use(page, "gallery://catalogue", kind="resources", wait=".markdown li"),
    "a template": lambda page: use(page, "gallery://painters/{name}", kind="templates", name="Ida Brandt", wait=".result-body"),
    "a prompt": lambda page: use(page, "wall_text", kind="prompts", title="x", wait=".said"),
    "tasks": lambda page: (page.go("use", "gallery", "tasks"), page.expect("The server has no tasks")),
    "a question": lambda page: ask(page, "appraise"),
    "a page to open": lambda page: ask(page, "pay"),
    "sampling": lambda page: ask(page, "describe", title="Two pears"),
    "consent": lambda page: ask(page, "burn_archive", year="1999"),
    "the keys": keys,
    "messages": see,
    "a message elsewhere": elsewhere,
    "answers": canned,
    "revisions": lambda page: compare(page, 1),
    "kits": lambda page: compare(page, 2),
    "steps": examine,
    "a closed server": closed,
}


def unnamed(page):
    """Return what a user acts on and a screen reader cannot name."""
    found = []
    for node in page.call("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value")
        if not node["ignored"] and role in ROLES and not str(node.get("name", {}).get("value") or "").strip():
            found.append((role, node.get("properties", [])[:3]))
    return found


def leave_dialogs(page):
    """Close dialogs by Escape, as someone at the keyboard does."""
    for _ in range(3):
        if page.count("dialog[open]"):
            before = page.count("dialog[open]")
            page.press("Escape")
            page.wait(lambda: page.count("dialog[open]") < before, "the end of a dialog after Escape")


@pytest.mark.parametrize("scheme, width", [
    ("light", 1280), ("dark", 360),
    *(pytest.param(*other, marks=pytest.mark.further) for other in [("dark", 1280), ("light", 360)])])
def test_every_view_is_legible_named_and_as_wide_as_the_window(inspect, scheme, width):
    page = inspect({"gallery": gallery.server()}, scheme=scheme, width=width, height=800)
    page.expect("Find paintings")
    for name, scene in SCENES.items():
        scene(page)
        assert page.evaluate(CONTRAST) == [], name
        assert page.evaluate(UNLABELLED) == [], name
        assert unnamed(page) == [], name
        assert page.evaluate(WIDER) == [], name
        leave_dialogs(page)
        assert page.refused == [] and page.complaints == [], name
    assert page.foreign_requests() == []
    issues = {json.dumps(one["params"]["issue"]["details"]) for one in page.reports if one["method"] == "Audits.issueAdded"}
    # Fields whose values a browser shall not keep have no names, and this test goes to views without a click.
    meant = "FormEmptyIdAndNameAttributesForInputError", "NavigationEntryMarkedSkippable"
    assert [one for one in issues if not any(word in one for word in meant)] == []


def test_the_tab_key_reaches_all_that_can_be_used_and_the_focus_is_seen(inspect):
    page = inspect({"gallery": gallery.server()})
    page.expect("Find paintings")
    for name, scene in SCENES.items():
        scene(page)
        if not page.count("dialog[open]"):
            page.evaluate("(document.activeElement?.blur(), getSelection().removeAllRanges())")
        wanted, reached = page.evaluate(REACHABLE), set()
        for _ in range(2 * wanted + 20):
            page.press("Tab")
            focused = page.evaluate(FOCUSED)
            if focused is None:
                if len(reached) == wanted:
                    break
                continue
            mark, is_seen, has_size, html = focused
            assert is_seen and has_size, (name, html)
            if mark is not None:
                reached.add(mark)
            if len(reached) == wanted:
                break
        missing = page.evaluate(f"[...document.querySelectorAll('[data-reach]')].filter((one) => "
                                f"!{json.dumps(sorted(reached))}.includes(one.dataset.reach)).map((one) => one.outerHTML)")
        assert missing == [], name
        leave_dialogs(page)


@pytest.mark.parametrize("width", [1280, 360])
def test_hostile_texts_are_shown_as_they_are(inspect, width):
    page = inspect({"hostile": hostile()}, width=width)
    page.expect("<script>alert(2)</script>")
    for name in ("worse", "bad"):
        page.use(name, "hostile")
        page.wait(lambda: page.count(".item-head"), name)
        assert page.evaluate(WIDER) == [], name
        assert page.evaluate(UNLABELLED) == [], name


#: Characters that turn the direction of those around them.
TURNING = "\u202e\u202d\u202a\u202b\u2066\u2067\u2068"


def test_characters_that_turn_others_are_named_in_place(inspect):
    mcp = mcplite.Server("turned", title=f"{TURNING}rev", instructions=f"Read {TURNING}this.")

    @mcp.tool(title="safe\u202eexe.txt", description="**Deletes\u202e** nothing\u2067.", annotations={"destructiveHint": True})
    def turn(word: str = "a\u202eb") -> str:
        return f"done \u202e{word}"

    page = inspect({"turned": mcp})
    page.expect("safe[U+202E]exe.txt")
    page.use("turn", "turned")
    page.press_button("Call")
    page.press_button("Call it", within="dialog")
    page.wait(lambda: page.count(".result-body"), "the result")
    for view in ("use", "see", "compare", "connection", "answer"):
        page.go(view, "turned")
        page.wait(lambda: page.count(f".{view}-view"), view)
        assert not re.search(f"[{TURNING}]", page.text), view
    page.go("see", "turned")
    page.wait(lambda: page.count(".list-row"), "messages")
    assert page.complaints == []


def test_huge_texts_leave_the_page_usable(inspect):
    mcp = mcplite.Server("huge", instructions="instructions " * 50_000)
    properties = {f"argument_{number}": {"type": "string", "description": "d" * 500} for number in range(300)}
    properties["choice"] = {"type": "string", "enum": [f"value {number}" for number in range(5_000)]}
    nested = {"type": "string"}
    for _ in range(25):
        nested = {"type": "object", "properties": {"inner": nested}, "required": ["inner"]}
    properties["deep"] = nested
    mcp.add_tool(lambda **arguments: "x" * 3_000_000, name="huge_" + "n" * 60, title="T" * 100_000,
                 description="word " * 200_000, input_schema={"type": "object", "properties": properties})
    mcp.add_tool(lambda: "small", name="small")
    page = inspect({"huge": mcp})
    page.expect("small")
    page.use("huge_" + "n" * 60, "huge")
    page.press_button("Call")
    page.wait(lambda: page.count(".result-body"), "the result")
    assert page.evaluate(WIDER) == []
    page.go("see", "huge")
    page.wait(lambda: page.count(".list-row"), "messages")
    page.use("small", "huge")
    page.press_button("Call")
    page.wait(lambda: "small" in page.see(".result-body"), "the small result")
    assert page.complaints == []


def work(page, script):
    """Return the seconds that the page's thread was busy with a script, which may wait for frames."""
    def busy():
        return {one["name"]: one["value"] for one in page.call("Performance.getMetrics")["metrics"]}["TaskDuration"]

    before = busy()
    result = page.call("Runtime.evaluate", expression=f"(async () => {{ {FRAME} {script} }})()", awaitPromise=True)
    assert "exceptionDetails" not in result, result
    return busy() - before


FRAME = "const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"
SCROLL = """const list = document.querySelector(%s);
    for (let step = 0; step < 60; step += 1) { list.scrollTop = (step * 577) %% 2000; await frame(); }"""
#: How much more work a long list may be than a short one; were all of it drawn, it would be ten times as much and more.
MOST = 3


def test_long_lists_are_as_little_work_as_short_ones(inspect):
    few = mcplite.Server("few")
    for number in range(60):
        few.add_tool(lambda: "", name=f"tool_{number:04}", description=f"The tool of number {number}")
    page = inspect({"few": few, "many": many()})
    page.call("Performance.enable")
    for name in ("few", "many"):
        page.go("connection", name)
        page.click(f"[data-action='Open {name}']")
        page.wait(lambda: page.inspector.servers[name].values()["state"] == "open", name)

    def add(name, count, first=0):
        for number in range(first, first + count):
            message = {"jsonrpc": "2.0", "method": "notifications/x", "params": {"name": f"n{number}"}}
            page.inspector.traffic.add(name, "<-", json.dumps(message).encode())

    def tools(name):
        page.go("use", name, "tools")
        page.wait(lambda: page.count(".side .list-row") > 5 and name in page.see(".server-picker option:checked"), "tools")
        return work(page, SCROLL % "'.side .list'")

    def messages(name):
        page.go("see", name)
        page.wait(lambda: page.count(".timeline .list-row") > 5, "messages")
        return work(page, SCROLL % "'.timeline'")

    added = {"few": 60, "many": 9_000}

    def more(name):
        page.go("see", name)
        page.wait(lambda: page.count(".timeline .list-row") > 5, "messages")
        page.evaluate("document.querySelector('.timeline').scrollTop = 1e9")
        before = work(page, "await frame();")
        for _ in range(10):
            add(name, 10, added[name])
            added[name] += 10
            last = f"n{added[name] - 1}"
            before += work(page, f"while (!document.querySelector('.timeline').innerText.includes('{last}')) await frame();")
        return before

    for name, count in added.items():
        add(name, count)
    for what in (tools, messages, more):
        taken = [(what("few"), what("many")) for _ in range(3)]
        short, long = (min(times) for times in zip(*taken))
        assert long < MOST * short, (what.__name__, taken)
    assert page.complaints == []
