// CompletionInput: a text input that shows what the server would complete while the user types, as a combo box.

import { element, replace } from "./elements.js";

const PAUSE = 150;
let inputs = 0;

// ask(value) returns a promise of {values, total, hasMore}; picked() is called after a value was taken from the list.
export class CompletionInput {
  constructor(ask, { picked = () => {} } = {}) {
    this._ask = ask;
    this._picked = picked;
    this._number = 0;
    this._timer = null;
    this._active = -1;
    this._values = [];
    const id = `completion-${(inputs += 1)}`;
    this._list = element("div", {
      class: "completions",
      role: "listbox",
      id: `${id}-list`,
      "aria-label": "Suggestions",
      hidden: true,
    });
    this.input = element("input", {
      type: "text",
      id,
      role: "combobox",
      autocomplete: "off",
      spellcheck: "false",
      "aria-expanded": "false",
      "aria-autocomplete": "list",
      "aria-controls": `${id}-list`,
      on: {
        input: () => this._later(PAUSE),
        focus: () => this._later(0),
        blur: () => this._close(),
        keydown: (event) => this._key(event),
      },
    });
    this.element = element("div", { class: "completion" }, this.input, this._list);
  }

  _later(pause) {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this._update(), pause);
  }

  async _update() {
    const number = (this._number += 1);
    let found = { values: [] };
    try {
      found = await this._ask(this.input.value);
    } catch (error) {
      found = { values: [], error: error.message };
    }
    // Drop this answer if a later request was begun, or if the user has left the input.
    if (number !== this._number || document.activeElement !== this.input) return;
    this._values = found.values.map(String);
    this._active = -1;
    replace(
      this._list,
      this._values.map((value, place) =>
        element("div", {
          role: "option",
          id: `${this.input.id}-${place}`,
          "aria-selected": "false",
          text: value,
          on: {
            // This event comes before the input loses the focus, which closes the list.
            mousedown: (event) => {
              event.preventDefault();
              this._take(place);
            },
          },
        }),
      ),
      found.error ? element("div", { class: "completion-note", text: found.error }) : null,
      found.hasMore || (found.total ?? 0) > this._values.length
        ? element("div", {
            class: "completion-note",
            text: found.total ? `${this._values.length} of ${found.total}` : "and more",
          })
        : null,
    );
    const open = this._list.childElementCount > 0;
    this._list.hidden = !open;
    this.input.setAttribute("aria-expanded", String(open));
    this.input.removeAttribute("aria-activedescendant");
  }

  _close() {
    clearTimeout(this._timer);
    this._number += 1;
    this._list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  _take(place) {
    this.input.value = this._values[place];
    this._close();
    this.input.dispatchEvent(new Event("change"));
    this._picked();
  }

  _key(event) {
    if (this._list.hidden) {
      if (event.key === "ArrowDown") this._later(0);
      return;
    }
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && this._values.length) {
      const step = event.key === "ArrowDown" ? 1 : -1;
      this._active =
        (this._active + step + this._values.length + (this._active < 0 && step < 0 ? 1 : 0)) % this._values.length;
      [...this._list.querySelectorAll("[role=option]")].forEach((option, place) => {
        option.setAttribute("aria-selected", String(place === this._active));
        if (place === this._active) option.scrollIntoView({ block: "nearest" });
      });
      this.input.setAttribute("aria-activedescendant", `${this.input.id}-${this._active}`);
      event.preventDefault();
    } else if (event.key === "Enter" && this._active >= 0) {
      this._take(this._active);
      event.preventDefault();
    } else if (event.key === "Escape") {
      this._close();
      event.preventDefault();
      event.stopPropagation();
    }
  }
}
