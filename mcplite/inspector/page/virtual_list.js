// VirtualList: a list box of rows of one height, of which only those in view are drawn, whatever their number.

import { element } from "./elements.js";

const SPARE = 6;
let lists = 0;

// Options: label; height of a row in pixels; row(item) returns the nodes of a row; selected(item) is called when the
// user chooses one; moved(item) when a key goes to one; drawn(items, rows) after each drawing, with the items that are
// drawn and their rows as [index, node].
export class VirtualList {
  constructor({ label, height, row, selected, moved = () => {}, drawn = () => {}, role = "listbox" }) {
    this._height = height;
    this._row = row;
    this._selected = selected;
    this._moved = moved;
    this._drawn = drawn;
    this._items = [];
    this._current = -1;
    this._shown = new Map();
    this._frame = null;
    this._id = `list-${(lists += 1)}`;
    this._space = element("div", { class: "list-space", role: "presentation" });
    this.element = element("div", { class: "list", role, tabindex: "0", "aria-label": label }, this._space);
    this.element.addEventListener("scroll", () => this._later());
    this.element.addEventListener("keydown", (event) => this._key(event));
    this.element.addEventListener("click", (event) => this._click(event));
    this._observer = new ResizeObserver(() => this._later());
    this._observer.observe(this.element);
  }

  get items() {
    return this._items;
  }

  get current() {
    return this._items[this._current] ?? null;
  }

  // Whether the last row is in view.
  get atEnd() {
    return this.element.scrollTop + this.element.clientHeight >= this._items.length * this._height - this._height / 2;
  }

  // Shows these items; the current one stays if it is among them.
  show(items, same = (one, other) => one === other) {
    const current = this.current;
    this._items = items;
    this._current = current === null ? -1 : items.findIndex((item) => same(item, current));
    this._clear();
  }

  // Shows items that were appended to the list of items; the rows that are drawn stay.
  grown() {
    this._later();
  }

  redraw() {
    this._clear();
  }

  _clear() {
    for (const node of this._shown.values()) node.remove();
    this._shown.clear();
    this.draw();
  }

  // Makes an item the current one, and brings it into view.
  go(index, { scroll = true } = {}) {
    if (index < 0 || index >= this._items.length) index = -1;
    const before = this._shown.get(this._current);
    if (before) before.setAttribute("aria-selected", "false");
    this._current = index;
    if (index >= 0 && scroll) {
      const top = index * this._height,
        list = this.element;
      if (top < list.scrollTop) list.scrollTop = top;
      else if (top + this._height > list.scrollTop + list.clientHeight) {
        list.scrollTop = top + this._height - list.clientHeight;
      }
    }
    this.draw();
    const now = this._shown.get(index);
    if (now) now.setAttribute("aria-selected", "true");
  }

  toEnd() {
    this.draw();
    this.element.scrollTop = this._items.length * this._height;
    this._later();
  }

  _later() {
    if (this._frame === null) this._frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    if (this._frame !== null) cancelAnimationFrame(this._frame);
    this._frame = null;
    const list = this.element,
      count = this._items.length;
    this._space.style.height = `${count * this._height}px`;
    const first = Math.max(0, Math.floor(list.scrollTop / this._height) - SPARE);
    const last = Math.min(count, Math.ceil((list.scrollTop + list.clientHeight) / this._height) + SPARE);
    for (const [index, node] of this._shown) {
      if (index < first || index >= last) {
        node.remove();
        this._shown.delete(index);
      }
    }
    for (let index = first; index < last; index += 1) {
      const known = this._shown.get(index);
      if (known) known.setAttribute("aria-setsize", count);
      else this._place(index, count);
    }
    if (this._shown.has(this._current)) list.setAttribute("aria-activedescendant", `${this._id}-${this._current}`);
    else list.removeAttribute("aria-activedescendant");
    this._drawn(this._items.slice(first, last), [...this._shown.entries()]);
  }

  _place(index, count) {
    const node = element(
      "div",
      {
        class: "list-row",
        role: "option",
        id: `${this._id}-${index}`,
        "aria-setsize": count,
        "aria-posinset": index + 1,
        "aria-selected": String(index === this._current),
        "data-index": index,
      },
      this._row(this._items[index]),
    );
    node.style.transform = `translateY(${index * this._height}px)`;
    node.style.height = `${this._height}px`;
    // Rows stand in the order of the items, for screen readers that go through the document.
    let next = null;
    for (const [other, shown] of this._shown) {
      if (other > index && (next === null || other < next[0])) next = [other, shown];
    }
    this._space.insertBefore(node, next === null ? null : next[1]);
    this._shown.set(index, node);
  }

  _click(event) {
    const row = event.target.closest(".list-row");
    if (row === null) return;
    this.go(Number(row.dataset.index), { scroll: false });
    this._selected(this.current);
  }

  _key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this._height) - 1);
    const last = this._items.length - 1;
    const targets = {
      ArrowDown: this._current + 1,
      ArrowUp: this._current - 1,
      Home: 0,
      End: last,
      PageDown: this._current + page,
      PageUp: this._current - page,
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in targets && last >= 0) {
      this.go(Math.min(last, Math.max(0, targets[event.key])));
      this._moved(this.current);
      event.preventDefault();
    } else if ((event.key === "Enter" || event.key === " ") && this.current !== null) {
      this._selected(this.current);
      event.preventDefault();
    }
  }
}
