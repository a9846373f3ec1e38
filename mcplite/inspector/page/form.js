// Form: arguments as a form made from JSON Schema, and as JSON; each way shows what was typed in the other.

import { choice, element, replace } from "./elements.js";
import { makeField } from "./fields.js";
import { kindOf, problems } from "./schema.js";

// Options: suggest (see fields.js); changed(), called after each input; submit(), called when Enter is pressed.
export class Form {
  constructor(schema, { suggest = null, changed = () => {}, submit = () => {}, label = "Arguments" } = {}) {
    this.schema = kindOf(schema) === "object" ? schema : { type: "object" };
    this._changed = changed;
    this._checked = false;
    const rooted = { ...this.schema, type: this.schema.type ?? "object", properties: this.schema.properties ?? {} };
    this._field = makeField(rooted, { root: this.schema, suggest, changed: () => this._input() });
    this._mode = "form";
    this._text = element("textarea", {
      class: "mono raw",
      rows: 10,
      spellcheck: "false",
      "aria-label": `${label} as JSON`,
      on: { input: () => this._input() },
    });
    this._problem = element("p", { class: "field-problem", role: "alert", hidden: true });
    this._body = element("div", {}, this._field.element);
    const empty =
      !Object.keys(rooted.properties).length && !rooted.additionalProperties && !rooted.oneOf && !rooted.anyOf;
    this._modes = element("div", {});
    this._drawModes();
    this.element = element(
      "form",
      {
        class: "form",
        "aria-label": label,
        novalidate: true,
        on: {
          submit: (event) => {
            event.preventDefault();
            submit();
          },
          keydown: (event) => {
            const field = event.target;
            const plain = field.matches("input:not([type=checkbox],[type=radio],[type=file])");
            // If a list of suggestions is open, Enter chooses from it, and its default is prevented.
            if (event.key === "Enter" && !event.defaultPrevented && (plain || event.ctrlKey || event.metaKey)) {
              event.preventDefault();
              submit();
            }
          },
        },
      },
      element("div", { class: "form-head" }, element("h3", { text: label }), this._modes),
      empty
        ? element("p", {
            class: "quiet-text",
            text: label === "Arguments" ? "Takes no arguments." : "Nothing to fill in.",
          })
        : null,
      this._body,
      this._problem,
    );
  }

  _drawModes() {
    replace(
      this._modes,
      choice(
        "Show the arguments as",
        [
          ["form", "Form"],
          ["json", "JSON"],
        ],
        this._mode,
        (mode) => {
          if (!this._switch(mode)) this._drawModes();
        },
      ),
    );
  }

  // Shows the value in another way; returns false if this way cannot show it.
  _switch(mode) {
    if (mode === "json") {
      this._text.value = JSON.stringify(this._field.get() ?? {}, null, 2);
      this._text.rows = Math.min(24, Math.max(6, this._text.value.split("\n").length + 1));
      replace(this._body, this._text);
    } else {
      const read = this._parsed();
      if (read.error) {
        this._say(read.error);
        return false;
      }
      this._field.set(read.value);
      replace(this._body, this._field.element);
    }
    this._mode = mode;
    this._say("");
    if (this._checked) this.check();
    return true;
  }

  _parsed() {
    try {
      return { value: this._text.value.trim() ? JSON.parse(this._text.value) : {} };
    } catch (error) {
      return { error: `This is not JSON: ${error.message}` };
    }
  }

  _say(text) {
    this._problem.textContent = text;
    this._problem.hidden = !text;
  }

  _input() {
    if (this._checked) this.check();
    this._changed();
  }

  // Returns the value; raises an Error for text that is no JSON.
  get() {
    if (this._mode === "form") return this._field.get() ?? {};
    const read = this._parsed();
    if (read.error) throw new Error(read.error);
    return read.value;
  }

  set(value) {
    this._field.set(value);
    if (this._mode === "json") this._text.value = JSON.stringify(value ?? {}, null, 2);
  }

  // Shows the problems of the value by the schema, and returns them. From the first call on, each input shows them
  // again.
  check() {
    this._checked = true;
    let found;
    try {
      found = problems(this.schema, this.get(), this.schema);
    } catch (error) {
      this._say(error.message);
      return [{ path: [], text: error.message, unsendable: true }];
    }
    this._field.mark(found);
    const here = this._mode === "json" ? found : found.filter((one) => one.path.length === 0);
    this._say(here.map((one) => (one.path.length ? `${one.path.join(".")} ${one.text}` : one.text)).join("; "));
    return found;
  }

  focus() {
    (
      this.element.querySelector("[aria-invalid=true]") ||
      this.element.querySelector(".form-head ~ * :is(input,select,textarea)")
    )?.focus();
  }
}
