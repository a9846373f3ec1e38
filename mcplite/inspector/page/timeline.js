// Timeline: messages as rows in the order of their time, each with a bar that shows when it began and how long it took.

import { bytes, clock, element, plural, seconds } from "./elements.js";
import { taskOf } from "./record.js";
import { VirtualList } from "./virtual_list.js";

// A pause, in which no call runs, is drawn at most this wide, as a part of the time in which calls run.
const WIDEST_PAUSE = 0.06;
const ROW = 28;
// Pixels that the text of a duration takes.
const ROOM = 64;

export const isLog = (entry) => entry.kind === "notification" && entry.method === "notifications/message";

const isLasting = (entry) => entry.method === "subscriptions/listen";

// Returns what a message says, in a few words.
export function gist(entry) {
  const { content } = entry;
  if (entry.kind === "stderr" || entry.kind === "invalid")
    return String(typeof content === "string" ? content : JSON.stringify(content));
  const params = (content && content.params) || {};
  if (entry.kind === "error") return String(content?.error?.message ?? "");
  if (entry.kind === "response") return answerGist((content && content.result) || {});
  if (isLog(entry))
    return `${params.level ?? ""}: ${typeof params.data === "string" ? params.data : (JSON.stringify(params.data) ?? "")}`;
  if (params.progress !== undefined) {
    return `${params.progress}${params.total === undefined ? "" : ` of ${params.total}`} ${params.message ?? ""}`;
  }
  return String(
    params.name ??
      params.uri ??
      params.message ??
      params.taskId ??
      (params.ref && (params.ref.name || params.ref.uri)) ??
      params.reason ??
      "",
  );
}

// Lists by their length, texts by their beginning, other results by their members.
function answerGist(result) {
  for (const [name, value] of Object.entries(result)) {
    const text = Array.isArray(value) && value[0] && (value[0].text ?? value[0].content?.text);
    if (typeof text === "string") return text;
    if (Array.isArray(value)) return plural(value.length, name.replace(/s$/, ""));
  }
  const task = taskOf(result);
  if (task) return `task ${task.status}`;
  if (result.serverInfo) return [result.serverInfo.name, result.serverInfo.version].join(" ");
  return Object.keys(result)
    .filter((name) => !["_meta", "ttlMs", "cacheScope", "resultType"].includes(name))
    .join(", ");
}

// Returns a function from times to places between 0 and 1; long pauses, in which nothing is drawn, are narrow.
export function timeScale(spans) {
  const sorted = spans.map(([from, to]) => [from, Math.max(from, to)]).sort((one, other) => one[0] - other[0]);
  const busy = [];
  for (const [from, to] of sorted) {
    const last = busy[busy.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else busy.push([from, to]);
  }
  if (!busy.length) return () => 0;
  const active = busy.reduce((sum, [from, to]) => sum + to - from, 0);
  // If nothing has a duration, each pause counts for one second at most.
  const widest = active > 0 ? Math.max(active * WIDEST_PAUSE, 0.0005) : 1;
  const knots = [];
  let at = 0,
    before = null;
  for (const [from, to] of busy) {
    if (before !== null) at += Math.min(from - before, widest);
    knots.push([from, at]);
    at += to - from;
    knots.push([to, at]);
    before = to;
  }
  const whole = at || 1;
  return (time) => {
    let low = 0,
      high = knots.length - 1;
    if (time <= knots[0][0]) return 0;
    if (time >= knots[high][0]) return at / whole;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (knots[middle][0] <= time) low = middle;
      else high = middle;
    }
    const [from, start] = knots[low],
      [to, end] = knots[high];
    return (start + (to > from ? ((time - from) / (to - from)) * (end - start) : 0)) / whole;
  };
}

export class Timeline {
  constructor({ selected, moved }) {
    this._list = new VirtualList({
      label: "Messages",
      height: ROW,
      row: (entry) => this._row(entry),
      selected,
      moved,
      drawn: (entries, nodes) => this._place(entries, nodes),
    });
    this._list.element.classList.add("timeline");
    this.element = this._list.element;
  }

  get list() {
    return this._list;
  }

  _row(entry) {
    const out = entry.direction === "->";
    const kind = isLog(entry) ? "log" : entry.kind;
    const words = {
      request: "request",
      response: "response to",
      error: "error to",
      notification: "notification",
      log: "log message",
      stderr: "stderr",
      invalid: "invalid",
    }[kind];
    const name = kind === "stderr" ? "stderr" : kind === "invalid" ? "not a message" : entry.method || "unknown";
    return [
      element("span", {
        class: `way ${kind === "stderr" ? "std" : out ? "out" : "in"}`,
        text: kind === "stderr" ? "·" : out ? "→" : "←",
        role: "img",
        "aria-label": `${kind === "stderr" ? "" : out ? "to the server," : "from the server,"} ${words}`,
      }),
      element("time", { text: clock(entry.time) }),
      element(
        "span",
        { class: `what ${kind}` },
        element("span", { class: "method", text: name }),
        " ",
        element("span", { class: "gist", text: gist(entry).slice(0, 160) }),
      ),
      element("span", { class: "size", text: bytes(entry.size || 0) }),
      element(
        "span",
        { class: "track", "aria-hidden": "true" },
        element("span", { class: `bar ${out ? "out" : "in"} ${kind} ${entry.failed ? "failed" : ""}` }),
        element("span", {
          class: "took",
          text: entry.kind === "request" && typeof entry.duration === "number" ? seconds(entry.duration) : "",
        }),
      ),
    ];
  }

  // Places the bars by the time that the rows in view cover.
  _place(entries, nodes) {
    const end = (entry) => entry.time + (entry.kind === "request" ? (entry.duration ?? 0) : 0);
    // A request that lasts as long as the connection counts as an instant: otherwise it would make all calls narrow.
    const scale = timeScale(entries.map((entry) => [entry.time, isLasting(entry) ? entry.time : end(entry)]));
    const width = nodes.length ? nodes[0][1].lastChild.clientWidth : 0;
    for (const [index, node] of nodes) {
      const entry = this._list.items[index];
      const bar = node.querySelector(".bar"),
        took = node.querySelector(".took");
      if (!entry || !bar) continue;
      const running = entry.kind === "request" && typeof entry.duration !== "number" && this.running(entry);
      const from = scale(entry.time),
        to = running ? 1 : scale(end(entry));
      bar.style.left = `${from * 100}%`;
      bar.style.width = `${(to - from) * 100}%`;
      bar.classList.toggle("running", running);
      // The text of the duration stands behind the bar if it fits there, or before it if it fits there, and otherwise
      // in it.
      const behind = (1 - to) * width > ROOM;
      const before = !behind && from * width > ROOM;
      took.classList.toggle("inside", !behind && !before);
      took.style.left = behind ? `${to * 100}%` : before ? "auto" : `${from * 100}%`;
      took.style.right = before ? `${(1 - from) * 100}%` : "auto";
    }
  }

  // Whether a request without an answer still runs; the view replaces this method.
  running() {
    return false;
  }
}
