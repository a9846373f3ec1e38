// UseView: lists of what a server offers, with search, and the pane of the item that is chosen.

import { beginning, button, clock, element, icon, replace, seconds } from "./elements.js";
import { ItemPane, KEYS } from "./item_pane.js";
import { KINDS } from "./record.js";
import { TaskFollower } from "./task_follower.js";
import { VirtualList } from "./virtual_list.js";

const NAMES = { tools: "Tools", resources: "Resources", templates: "Templates", prompts: "Prompts", tasks: "Tasks" };

export class UseView {
  constructor(app) {
    this._app = app;
    this._server = null;
    this._kind = "tools";
    this._pane = null;
    this._follower = new TaskFollower(app.record);
    this.search = element("input", {
      type: "search",
      placeholder: "Search  /",
      "aria-label": "Search the list",
      on: {
        input: () => this._filter(),
        keydown: (event) => {
          if (event.key === "ArrowDown" || event.key === "Enter") {
            event.preventDefault();
            this._list.element.focus();
            if (this._list.current === null) this._list.go(0);
            if (event.key === "Enter" && this._list.current) this._open(this._list.current, { focus: true });
          } else if (event.key === "Escape" && this.search.value) {
            event.stopPropagation();
            this.search.value = "";
            this._filter();
          }
        },
      },
    });
    this._kinds = element("div", {
      class: "kinds",
      role: "tablist",
      "aria-label": "Kinds",
      on: { keydown: (event) => this._kindKey(event) },
    });
    this._says = element("div", { class: "list-says" });
    this._list = new VirtualList({
      label: "Items",
      height: 52,
      row: (item) => this._row(item),
      selected: (item) => this._open(item, { focus: true }),
      moved: (item) => this._later(item),
    });
    this._detail = element("div", { class: "detail" });
    this.element = element(
      "div",
      { class: "use-view split" },
      element(
        "div",
        { class: "side" },
        this._kinds,
        element("div", { class: "search" }, this.search),
        this._says,
        this._list.element,
      ),
      this._detail,
    );
    app.record.on("lists", () => this._update());
    app.record.on("servers", () => this._update());
    app.record.on("calls", () => {
      if (this._pane) this._pane.update();
      else if (this.element.isConnected) this._update();
    });
  }

  leave() {
    this._follower.follow(null, []);
  }

  // Shows a server's list of a kind, and an item by its key.
  enter({ server, kind, key }) {
    const other = server !== this._server || (kind && kind !== this._kind);
    this._server = server;
    this._key = key || null;
    if (KINDS.includes(kind)) this._kind = kind;
    else if (other && this._offered().length && !this._offered().includes(this._kind)) this._kind = this._offered()[0];
    if (other) {
      this._pane = null;
      this.search.value = "";
    }
    this._update();
  }

  _offered() {
    return KINDS.filter((kind) => this._app.record.offers(this._server, kind));
  }

  _update() {
    const server = this._app.record.servers.get(this._server);
    const open = server !== undefined && server.state === "open";
    this.element.classList.toggle("without-list", !open);
    if (!open) {
      this.leave();
      this._pane = null;
      this._shownItems = null;
      replace(this._detail, this._app.closedNote(server));
      this._list.show([]);
      replace(this._kinds);
      return;
    }
    this._drawKinds();
    const list = this._app.record.list(this._server, this._kind);
    const one = NAMES[this._kind].toLowerCase();
    replace(
      this._says,
      list.state === "loading"
        ? `Asking for ${one}…`
        : list.state === "failed"
          ? [element("p", { class: "error-line", text: list.error }), button("Ask again", () => this._refresh())]
          : null,
    );
    if (list.state !== "ready" && !list.items.length) {
      this._shownItems = null;
      this._list.show([]);
    } else if (this._shownItems !== list.items) {
      this._shownItems = list.items;
      this._filter();
    }
    this._choose(list);
    this._follow(list);
  }

  // Tasks are followed while they are shown, the chosen one first.
  _follow(list) {
    const shown = this._kind === "tasks" && this.element.isConnected ? list.items : [];
    const chosen = (task) => Number(task.taskId === this._key);
    this._follower.follow(this._server, [...shown].sort((one, other) => chosen(other) - chosen(one)));
  }

  _drawKinds() {
    const chosen = this._kind;
    const had = this._kinds.contains(document.activeElement);
    replace(
      this._kinds,
      KINDS.map((kind) => {
        const offered = this._app.record.offers(this._server, kind);
        const list = offered ? this._app.record.list(this._server, kind) : null;
        const count = list && list.state === "ready" ? list.items.length : "";
        return element(
          "button",
          {
            type: "button",
            role: "tab",
            "aria-selected": String(kind === chosen),
            tabindex: kind === chosen ? "0" : "-1",
            "data-kind": kind,
            class: offered ? null : "not-offered",
            title: offered ? null : `This server does not say that it has ${NAMES[kind].toLowerCase()}.`,
            on: { click: () => this._app.go({ view: "use", server: this._server, kind }) },
          },
          icon(kind),
          element("span", { text: NAMES[kind] }),
          element("span", { class: "count", text: count }),
        );
      }),
    );
    if (had) this._kinds.querySelector("[aria-selected=true]")?.focus();
  }

  _kindKey(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = KINDS[(KINDS.indexOf(this._kind) + step + KINDS.length) % KINDS.length];
    this._app.go({ view: "use", server: this._server, kind: next });
  }

  _refresh() {
    this._app.record.refresh(this._server, this._kind);
  }

  _filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const items = (this._shownItems || []).filter((item) => {
      const text =
        `${item.name ?? ""} ${item.title ?? ""} ${item[KEYS[this._kind]]} ${item.description ?? ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    this._list.show(items);
    if (!items.length && this._shownItems) {
      replace(this._says, words.length ? "Nothing matches." : `The server has no ${NAMES[this._kind].toLowerCase()}.`);
    } else if (this._shownItems) {
      replace(this._says);
    }
    this._markCurrent();
  }

  _row(item) {
    const key = String(item[KEYS[this._kind]]);
    const title = item.title || item.name || key;
    const notes = item.annotations || {};
    return [
      element(
        "span",
        { class: "row-title" },
        element("span", { text: beginning(title, 200) }),
        notes.destructiveHint === true ? element("span", { class: "mark bad", title: "destructive", text: "!" }) : null,
        item.status ? element("span", { class: "tag", text: item.status }) : null,
      ),
      element("span", {
        class: "row-note",
        text: (item.description || item.statusMessage || (title === key ? "" : key))
          .slice(0, 200)
          .split("\n")[0]
          .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
          .replace(/[*`#]+/g, ""),
      }),
    ];
  }

  // Opens an item once the arrow keys have stayed on it for a moment.
  _later(item) {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      if (this._list.current === item && !this._app.narrow) this._open(item);
    }, 120);
  }

  _open(item, { focus = false } = {}) {
    const key = String(item[KEYS[this._kind]]);
    this._focusPane = focus;
    if (this._pane && this._pane.key === key && this._key === key) {
      if (focus) this._pane.focus();
    } else {
      this._app.go({ view: "use", server: this._server, kind: this._kind, key });
    }
  }

  _choose(list) {
    const item =
      list.items.find((one) => String(one[KEYS[this._kind]]) === this._key) ||
      // A resource that a result links to need not be in the list.
      (this._kind === "resources" && this._key && list.state === "ready" ? { uri: this._key, name: this._key } : null);
    this.element.classList.toggle("with-item", item !== null && item !== undefined);
    if (!item) {
      this._pane = null;
      replace(this._detail, this._welcome(list));
      return;
    }
    const had = this._pane?.key === this._key && this._detail.contains(document.activeElement);
    if (this._pane === null || this._pane.key !== this._key || (this._pane.item !== item && !this._sameItem(item))) {
      this._pane = new ItemPane(this._app, this._server, this._kind, item);
      replace(
        this._detail,
        button(
          "All " + NAMES[this._kind].toLowerCase(),
          () => this._app.go({ view: "use", server: this._server, kind: this._kind }),
          { icon: "back", kind: "quiet to-list" },
        ),
        this._pane.element,
      );
      this._detail.scrollTop = 0;
      if (this._focusPane || had) this._pane.focus();
    }
    this._focusPane = false;
    this._pane.settle();
    this._markCurrent();
  }

  _sameItem(item) {
    return JSON.stringify(item) === JSON.stringify(this._pane.item);
  }

  _markCurrent() {
    const place = this._list.items.findIndex((one) => String(one[KEYS[this._kind]]) === this._key);
    if (place >= 0 && this._list.current !== this._list.items[place]) this._list.go(place);
  }

  _welcome(list) {
    const server = this._app.record.servers.get(this._server);
    const info = server.info || {};
    return element(
      "div",
      { class: "welcome" },
      element("h2", { text: beginning(info.title || info.name || server.name) }),
      element("p", {
        class: "quiet-text",
        text: [info.version && `version ${info.version}`, server.revision && `revision ${server.revision}`]
          .filter(Boolean)
          .join(" · "),
      }),
      server.instructions ? element("p", { class: "instructions", text: server.instructions }) : null,
      list.items.length
        ? element("p", {
            class: "quiet-text",
            text: "Choose from the list. “/” searches, arrow keys move, Enter opens.",
          })
        : null,
      this._recent(),
    );
  }

  // The latest calls of the server, whatever they used.
  _recent() {
    const calls = this._app.record.callsOf(this._server).slice(-8).reverse();
    return calls.length
      ? element(
          "section",
          { class: "recent" },
          element("h3", { text: "Latest calls" }),
          element(
            "ul",
            { class: "history" },
            calls.map((call) => {
              const params = call.params || {};
              const bad = call.state === "failed" || call.result?.isError === true;
              const kind = { "tools/call": "tools", "resources/read": "resources", "prompts/get": "prompts" }[
                call.method
              ];
              const key = params.name ?? params.uri ?? params.taskId ?? "";
              return element(
                "li",
                {},
                element(
                  "button",
                  {
                    type: "button",
                    class: "past",
                    on: {
                      click: () =>
                        this._app.go(
                          kind
                            ? { view: "use", server: this._server, kind, key }
                            : { view: "see", server: this._server, key: call.call },
                        ),
                    },
                  },
                  element("span", { class: `dot ${bad ? "bad" : call.state}` }),
                  element("span", { class: "unseen", text: bad ? "failed" : call.state }),
                  element("time", { text: clock(call.began).slice(0, 8) }),
                  element("span", { text: key || call.method }),
                  element("span", { class: "quiet-text", text: call.ended ? seconds(call.ended - call.began) : "" }),
                ),
              );
            }),
          ),
        )
      : null;
  }
}
