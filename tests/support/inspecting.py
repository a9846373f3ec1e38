"""The inspector's page in a tab of Chromium, as a person uses it, and servers that it is shown."""

import json

import mcplite
from mcplite import types

#: Markup as a server could send it in any text; each would do something if it were markup.
MARKUP = ("<img src=x onerror=alert(1)><script>alert(2)</script></textarea><iframe src='https://evil.example/'></iframe>"
          " [a](javascript:alert(3)) ![p](https://evil.example/p.png) <https://evil.example/>")
#: Returns what of the page's texts has too little contrast by WCAG AA, with the ratio.
CONTRAST = """(() => {
  const part = (value) => { value /= 255; return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
  const numbers = (color) => [...color.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const light = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  const over = (top, below) => top.slice(0, 3).map((value, place) => value * top[3] + below[place] * (1 - top[3]));
  const behind = (node) => {
    const layers = [];
    for (; node; node = node.parentElement) layers.push(numbers(getComputedStyle(node).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement, style = getComputedStyle(node);
    if (!text.data.trim() || !node.checkVisibility() || node.closest(':disabled, [inert], .unseen, .skip')) continue;
    const below = behind(node), above = over(numbers(style.color), below);
    const [dark, bright] = [light(above), light(below)].sort((one, other) => one - other);
    const ratio = (bright + 0.05) / (dark + 0.05), size = parseFloat(style.fontSize);
    const least = size >= 24 || size >= 18.7 && style.fontWeight >= 700 ? 3 : 4.5;
    if (ratio < least) found.push([text.data.trim().slice(0, 40), ratio]);
  }
  return found;
})()"""


class Page:
    """The inspector's page in a tab."""

    def __init__(self, inspector, tab):
        self.inspector, self.tab = inspector, tab
        self._url = inspector.url.partition("/?")[0]
        tab.visit(inspector.url)

    def __getattr__(self, name):
        return getattr(self.tab, name)

    def go(self, *route):
        """Show a view, by its route: view, server, kind, key."""
        self.evaluate(f"location.hash = '#/' + {json.dumps(route)}.map(encodeURIComponent).join('/')")

    def click(self, selector):
        """Click what matches, once it is there."""
        self.wait(lambda: self.tab.click(selector) or True, selector)

    def count(self, selector):
        return self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")

    def see(self, selector):
        """Wait for an element; return its text."""
        script = f"document.querySelector({json.dumps(selector)})?.innerText ?? null"
        return self.wait(lambda: [text for text in [self.evaluate(script)] if text is not None], selector)[0]

    def press_button(self, text, within="body"):
        """Click the first button in view that has this text, or this label."""
        script = (f"[...document.querySelectorAll({json.dumps(within)} + ' :is(button, a)')].find((one) =>"
                  f" one.checkVisibility() && !one.disabled &&"
                  f" [one.innerText.trim(), one.ariaLabel].includes({json.dumps(text)}))")
        mark = (f"(() => {{ const found = {script}; if (found) found.dataset.pressed = 1; return Boolean(found); }})()")
        # The page may draw the button once more between the mark and the click.
        self.wait(lambda: self.evaluate(mark) and (self.tab.click("[data-pressed]") or True), f"a button {text!r}")
        self.evaluate("document.querySelectorAll('[data-pressed]').forEach((one) => delete one.dataset.pressed)")

    def fill(self, label, text, within="main"):
        """Type into the field with this label."""
        script = (f"[...document.querySelectorAll({json.dumps(within)} + ' label[for]')]"
                  f".find((one) => one.innerText === {json.dumps(label)})?.htmlFor")
        place = self.wait(lambda: self.evaluate(script), f"a field {label!r}")
        if self.evaluate(f"document.getElementById({json.dumps(place)}).tagName") == "SELECT":
            self.evaluate(f"""(() => {{ const one = document.getElementById({json.dumps(place)});
                one.value = [...one.options].find((option) => option.text === {json.dumps(text)}).value;
                one.dispatchEvent(new Event('change')); }})()""")
        else:
            self.type(f"#{place}", text)

    def choose(self, selector, value):
        """Choose an option of a select by its value."""
        self.evaluate(f"""(() => {{ const one = document.querySelector({json.dumps(selector)});
            one.value = {json.dumps(value)}; one.dispatchEvent(new Event('change')); }})()""")

    def use(self, name, server="gallery", kind="tools"):
        self.go("use", server, kind, name)
        self.wait(lambda: self.see(".item-key code") == name, name)

    def module(self, name, expression):
        """Return what an expression makes of a module of the page."""
        result = self.call("Runtime.evaluate", awaitPromise=True, returnByValue=True,
                           expression=f"import('/page/{name}.js').then((module) => ({expression}))")
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def foreign_requests(self):
        return [url for url in self.requests if not url.startswith((self._url, "data:", "blob:", "about:"))]


def hostile():
    """Return a server that has markup in each of its texts."""
    mcp = mcplite.Server("hostile", instructions=MARKUP, title=MARKUP)
    schema = {"type": "object", "title": MARKUP, "properties": {
        MARKUP: {"type": "string", "title": MARKUP, "description": MARKUP, "default": MARKUP},
        "__proto__": {"type": "string", "enum": [MARKUP]}, "constructor": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}

    def bad(**arguments):
        """Answers with markup of each kind."""
        raise mcplite.ToolError(MARKUP)

    mcp.add_tool(bad, name="bad", title=MARKUP, description=MARKUP, input_schema=schema)

    @mcp.tool(description=MARKUP)
    def worse(ctx: mcplite.Context) -> list:
        ctx.info(MARKUP)
        ctx.report_progress(1, 2, MARKUP)
        return [MARKUP, types.ImageContent("AAAA", "image/png' onerror='alert(4)"),
                types.AudioContent("AAAA", 'audio/wav"><script>'), types.ResourceLink(uri="javascript:alert(5)", name=MARKUP),
                types.TextContent(json.dumps([{MARKUP: MARKUP, "link": "https://evil.example/"}] * 2))]

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        """Asks."""
        asked = {"a": {"type": "string", "title": MARKUP, "enum": [MARKUP]}}
        return ctx.elicit(MARKUP, {"type": "object", "properties": asked}).action

    @mcp.prompt(title=MARKUP, description=MARKUP)
    def say() -> str:
        return MARKUP

    return mcp


def many():
    mcp = mcplite.Server("many")
    for number in range(1000):
        mcp.add_tool(lambda: "", name=f"tool_{number:04}", description=f"The tool of number {number}")
    return mcp
