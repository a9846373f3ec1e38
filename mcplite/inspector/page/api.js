// Api: requests to the inspector's server, which owns the connections to the inspected servers.

// The key of this inspector: the first address has it behind "#", and then the storage of this origin keeps it. Unlike
// a cookie, it is not sent to other ports of this machine.
const KEPT = "mcplite inspector";
const given = location.hash.startsWith("#key=") ? location.hash.slice("#key=".length) : null;
if (given) {
  localStorage.setItem(KEPT, given);
  history.replaceState(null, "", "/");
}
const key = given || localStorage.getItem(KEPT) || "";

// Returns a path with the key in its query, for requests that cannot have our header: an event stream, a link to a
// file.
export function withKey(path) {
  return `${path}${path.includes("?") ? "&" : "?"}key=${encodeURIComponent(key)}`;
}

// An error of the inspector's server: its text for people and its status, which is 0 if no answer came.
export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function answered(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    throw new Refusal(`The inspector answered with status ${response.status} and no JSON.`, response.status);
  }
  if (!response.ok) throw new Refusal(body.error || `status ${response.status}`, response.status);
  return body;
}

async function reached(path, options) {
  try {
    return await fetch(path, { ...options, headers: { ...options.headers, "Inspector-Key": key } });
  } catch {
    throw new Refusal("The inspector has ended. Start it again, and open the address that it prints.", 0);
  }
}

export async function get(path) {
  return answered(await reached(path, { cache: "no-store" }));
}

// Returns the whole text of a message.
export async function messageText(number) {
  const response = await reached(`/api/message?message=${number}`, { cache: "no-store" });
  if (!response.ok) await answered(response);
  return response.text();
}

// Returns the answer of a route, such as "open"; raises Refusal.
export async function post(route, body) {
  return answered(
    await reached(`/api/${route}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
}

const EVENTS = [
  "server",
  "message",
  "message-update",
  "dropped",
  "cleared",
  "stderr",
  "call",
  "question",
  "question-closed",
  "changed",
  "updated",
  "walk",
];

// Opens the stream of events behind the event of a number. The browser resumes the stream by itself; outage(true) is
// called when it breaks, outage(false) when it is back.
export function events(receive, outage, after = "0") {
  const source = new EventSource(withKey(`/api/events?after=${after}`));
  let last = after;
  for (const name of EVENTS) {
    source.addEventListener(name, (event) => {
      last = event.lastEventId;
      receive(name, JSON.parse(event.data));
    });
  }
  source.addEventListener("open", () => outage(false));
  source.addEventListener("error", () => {
    outage(true);
    // If the answer was no event stream, the browser does not try again, so the page does. A new source knows no last
    // event.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => events(receive, outage, last), 2000);
  });
  return source;
}
