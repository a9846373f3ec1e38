// The official SDK for TypeScript as a client of everything.py; does and prints what official_client.py does.
//
//     node official_client.mjs NODE_MODULES GENERATION TARGET [auto|legacy|REVISION] [STEP ...]
//     node official_client.mjs NODE_MODULES GENERATION URL begin | resume SESSION REVISION EVENT
//
// GENERATION is 1 or 2; the first one knows no auto.

import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const [modules, generation, target, mode = "legacy", ...rest] = process.argv.slice(2);
const FIRST = generation === "1";
const require = createRequire(path.join(modules, "anything.js"));
const sdk = (name) => require(`@modelcontextprotocol/sdk/${name}.js`);
const types = FIRST ? sdk("types") : {};
const { Client, StdioClientTransport, SSEClientTransport, StreamableHTTPClientTransport } = FIRST
    ? { ...sdk("client/index"), ...sdk("client/stdio"), ...sdk("client/sse"), ...sdk("client/streamableHttp") }
    : { ...require("@modelcontextprotocol/client"), ...require("@modelcontextprotocol/client/stdio") };

const EVERYTHING = fileURLToPath(new URL("everything.py", import.meta.url));
const ROOTS = [{ uri: "file:///srv/data", name: "data" }];
const LIMIT = 20_000;

// What the client answers to the next question, and what it was asked.
let answer = { action: "accept", content: {} };
const asked = { elicit: [], sample: [], roots: 0 };
const logs = [];
let notices = [];
let waiting = () => {};
const copy = (value) => JSON.parse(JSON.stringify(value));

function listen(client) {
    // The first generation wants a schema where the second wants a name.
    client.setRequestHandler(FIRST ? types.ElicitRequestSchema : "elicitation/create", (request) => {
        asked.elicit.push(copy(request.params));
        return answer;
    });
    client.setRequestHandler(FIRST ? types.CreateMessageRequestSchema : "sampling/createMessage", (request) => {
        asked.sample.push(copy(request.params));
        if (request.params.tools && request.params.messages.length === 1) {
            return { role: "assistant", model: "test-model", stopReason: "toolUse", content: [
                { type: "text", text: "Let me see." },
                { type: "tool_use", id: "use-1", name: "clock", input: { place: "Rome" } }] };
        }
        return { role: "assistant", model: "test-model", stopReason: "endTurn",
            content: { type: "text", text: "It is late." } };
    });
    client.setRequestHandler(FIRST ? types.ListRootsRequestSchema : "roots/list", () => {
        asked.roots += 1;
        return { roots: ROOTS };
    });
    client.setNotificationHandler(FIRST ? types.LoggingMessageNotificationSchema : "notifications/message", (notification) => {
        logs.push(notification.params);
    });
    client.fallbackNotificationHandler = async (notification) => {
        notices.push(notification);
        waiting();
    };
}

// Wait for a notification of this method that has not been waited for.
async function noticed(method, uri) {
    const until = Date.now() + LIMIT;
    for (;;) {
        const at = notices.findIndex((item) => item.method === method && (uri === undefined || item.params.uri === uri));
        if (at >= 0) {
            notices.splice(at, 1);
            return true;
        }
        if (Date.now() > until) {
            return false;
        }
        await new Promise((resolve) => {
            const timer = setTimeout(resolve, until - Date.now() + 1);
            waiting = () => {
                clearTimeout(timer);
                resolve();
            };
        });
    }
}

const changed = async () => [
    await noticed("notifications/tools/list_changed"), await noticed("notifications/resources/list_changed"),
    await noticed("notifications/prompts/list_changed")];

function transport() {
    if (!target.startsWith("http:")) {
        const env = {};
        for (const name of ["PATH", "WIRE_REPORT", "MCPLITE_SCHEMAS"]) {
            if (process.env[name] !== undefined) {
                env[name] = process.env[name];
            }
        }
        return new StdioClientTransport({ command: target, args: [EVERYTHING], env });
    }
    const url = new URL(target);
    return target.endsWith("/sse") ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url);
}

const MODERN = ["2026-07-28"];

function newClient() {
    const options = { capabilities: {
        elicitation: { form: {}, url: {} }, sampling: { tools: {}, context: {} }, roots: { listChanged: true } } };
    if (mode === "auto") {
        options.versionNegotiation = { mode };
    } else if (MODERN.includes(mode)) {
        options.versionNegotiation = { mode: { pin: mode } };
    } else if (/^\d/.test(mode)) {
        types.LATEST_PROTOCOL_VERSION = mode; // the first generation has no option for it
        options.supportedProtocolVersions = [mode];
    }
    const client = new Client({ name: "official", version: generation }, options);
    listen(client);
    return client;
}

function callTool(client, name, args, options) {
    const params = { name, arguments: args };
    return FIRST ? client.callTool(params, undefined, options) : client.callTool(params, options);
}

// Call a tool with options that callTool() does not pass on.
function requestTool(client, name, options) {
    const request = { method: "tools/call", params: { name, arguments: {} } };
    return FIRST ? client.request(request, types.CallToolResultSchema, options) : client.request(request, options);
}

// Goes through everything with one client.
class Trial {
    constructor(client) {
        this.client = client;
        this.modern = !FIRST && client.getProtocolEra() === "modern"; // without a handshake
        this.report = {};
    }

    async attempt(name, promise) {
        try {
            this.report[name] = await promise;
        } catch (error) {
            if (error.code === undefined) {
                this.report[name] = { exception: String(error) };
            } else {
                const message = error.message.replace(/^MCP error -?\d+: /, "");
                this.report[name] = { code: error.code, message, data: error.data };
            }
        }
        return this.report[name];
    }

    call(name, args = {}, key = name) {
        return this.attempt(key, callTool(this.client, name, args));
    }

    // Call a tool and note the values of its progress.
    async watched(name, key) {
        const seen = (this.report[key] = []);
        // SDK 2.4.0 tells of each round of questions as well, without a total.
        await this.attempt(name, callTool(this.client, name, {}, {
            onprogress: ({ progress, total }) => { if (total !== undefined) { seen.push(progress); } } }));
    }

    async pages(key, method, name, member) {
        const entries = [];
        let cursor, pages = 0;
        const first = await this.client[name](); // of the second generation, all pages; both note the tools' schemas
        do {
            const params = cursor === undefined ? {} : { cursor };
            const page = !FIRST ? await this.client.request({ method, params })
                : pages ? await this.client[name](params) : first;
            entries.push(...page[member]);
            pages += 1;
            cursor = page.nextCursor;
        } while (cursor !== undefined);
        this.report[key] = entries;
        this.report[`${key}_pages`] = pages;
    }

    async lists() {
        await this.pages("tools", "tools/list", "listTools", "tools");
        await this.pages("resources", "resources/list", "listResources", "resources");
        await this.pages("templates", "resources/templates/list", "listResourceTemplates", "resourceTemplates");
        await this.pages("prompts", "prompts/list", "listPrompts", "prompts");
        await this.attempt("bad_cursor", this.client.listTools({ cursor: "no such page" }));
    }

    async results() {
        await this.call("echo", { text: "hällo\u2028wörld \u{1f642}" });
        await this.call("add", { a: 2, b: 40 });
        await this.call("forecast", { city: "Rome", days: 2 });
        for (const name of ["point", "nothing", "image", "audio", "link", "embedded", "mixed", "complete_result",
            "broken_promise"]) {
            await this.call(name);
        }
        await this.call("raw", { n: 8 });
        await this.call("raw", { n: 7 }, "raw_refused");
        await this.call("echo", { text: "x".repeat(300_000) }, "big");
        this.report.big = this.report.big.content[0].text.length;
    }

    async errors() {
        await this.call("fail", { how: "tool" }, "fail_tool");
        await this.call("fail", { how: "protocol" }, "fail_protocol");
        await this.call("fail", { how: "otherwise" }, "fail_other");
        await this.call("no_such_tool");
        await this.call("add", { a: "many" }, "bad_arguments");
        await this.call("must_visit");
    }

    async work() {
        const seen = (this.report.progress = []);
        await this.attempt("count", callTool(this.client, "count", { to: 5 }, {
            onprogress: ({ progress, total, message }) => seen.push([progress, total ?? null, message ?? null]) }));
        // More than the server keeps for a client that does not read.
        await this.attempt("count_far", callTool(this.client, "count", { to: 1000 }, { onprogress: () => undefined }));
        if (this.modern) {
            // SDK 2.4.0 has no option for it: each request says it.
            const _meta = { [require("@modelcontextprotocol/client").LOG_LEVEL_META_KEY]: "error" };
            await this.attempt("write_log", this.client.callTool({ name: "write_log", arguments: {}, _meta }));
        } else {
            await this.attempt("set_level", this.client.setLoggingLevel("error"));
            await this.call("write_log");
        }
        await this.attempt("ping", this.client.ping());
        this.report.logs = [...logs];
        await this.cancel();
        const begun = performance.now();
        await Promise.all(Array.from({ length: 8 }, () => callTool(this.client, "sleep", { seconds: 0.5 })));
        this.report.eight_sleeps = (performance.now() - begun) / 1000;
        // More calls at once than the server runs.
        const slept = await Promise.all(Array.from({ length: 100 }, () => callTool(this.client, "sleep", { seconds: 0.1 })));
        this.report.crowd = slept.filter((result) => result.content[0].text === "0.1").length;
    }

    async cancel() {
        const abort = new AbortController();
        await callTool(this.client, "wait_to_be_cancelled", {}, {
            signal: abort.signal, onprogress: () => abort.abort("the test says so") }).catch(() => {});
        await this.call("was_cancelled");
    }

    async questions() {
        await this.call("who");
        answer = { action: "accept", content: { name: "Ada", guests: 2, window: false } };
        await this.call("book");
        for (const action of ["decline", "cancel"]) {
            answer = { action };
            await this.call("book", {}, `book_${action}`);
        }
        for (const [form, choice] of [["enum", "green"], ["titled", "g"], ["names", "g"], ["several", ["red", "green"]],
            ["several_titled", ["g"]]]) {
            answer = { action: "accept", content: { choice } };
            await this.call("choose", { form }, `choose_${form}`);
        }
        answer = { action: "accept", content: { choice: "purple" } };
        await this.call("choose", { form: "enum" }, "choose_badly");
        answer = { action: "accept", content: { ok: true } };
        await this.call("delete", { path: "notes.txt" });
        await this.call("wizard");
        answer = { action: "decline" };
        await this.call("delete", { path: "notes.txt" }, "delete_declined");
        await this.call("must_visit", {}, "must_visit_declined");
        answer = { action: "accept" };
        const visit = await this.call("visit");
        this.report.completed = this.modern || visit.isError || visit.code ? null
            : await noticed("notifications/elicitation/complete");
        this.report.asked = asked.elicit;
        await this.call("ask_model");
        await this.call("ask_model_with_tools");
        this.report.sampled = asked.sample;
        await this.call("list_roots");
        await this.call("list_roots", {}, "list_roots_again");
        this.report.roots_asked = asked.roots;
        if (!this.modern) {
            await this.client.sendRootsListChanged();
            await this.call("roots_have_changed");
            await this.call("list_roots");
            this.report.roots_asked_after_change = asked.roots;
        }
    }

    // Questions one after another and at once, and those of prompts and resources.
    async asking() {
        answer = { action: "accept", content: { ok: true } };
        await this.watched("interview", "interview_progress");
        await this.call("survey");
        await this.attempt("diary", this.client.readResource({ uri: "diary://monday" }));
        answer = { action: "accept", content: { name: "Ada" } };
        await this.attempt("personal", this.client.getPrompt({ name: "personal", arguments: { greeting: "Dear" } }));
    }

    // Read what may be kept, twice, and once more past what was kept.
    async caching() {
        const read = async (options) => {
            this.report.counted = await this.client.readResource({ uri: "counted://reads" }, options);
            return this.report.counted.contents[0].text;
        };
        this.report.counts = [await read(), await read(), await read({ cacheMode: "refresh" })];
        this.report.tools_page = FIRST ? await this.client.listTools()
            : await this.client.request({ method: "tools/list" });
    }

    // Call a tool whose parameters travel in headers, before it is listed and when it is.
    async headers() {
        await this.call("locate", { region: "Bern", floor: 2 }, "locate_unlisted");
        await this.client.listTools();
        await this.call("locate", { region: "Zürich", floor: -1, open: false, note: "plain" });
    }

    async resources() {
        const uri = "notes://one";
        for (const [key, uri] of [["settings", "config://settings"], ["pixel", "picture://pixel"], ["bundle", "bundle://all"],
            ["note", "notes://one"], ["history", "weather://Rome/history?year=1999"], ["no_note", "notes://none"],
            ["no_resource", "nowhere://at/all"]]) {
            await this.attempt(key, this.client.readResource({ uri }));
        }
        if (this.modern) {
            await this.listening();
            return;
        }
        await this.attempt("subscribe", this.client.subscribeResource({ uri }));
        await this.call("write_note", { title: "one", text: "second" });
        this.report.updated = await noticed("notifications/resources/updated", uri);
        await this.attempt("note_updated", this.client.readResource({ uri }));
        await this.attempt("unsubscribe", this.client.unsubscribeResource({ uri }));
        await this.call("write_note", { title: "one", text: "third" });
        await this.client.ping();
        this.report.updated_after_unsubscribe = notices.filter((item) => item.method.endsWith("/updated"));
    }

    // Subscribe to one resource of two that change.
    async listening() {
        const uri = "notes://one";
        const subscription = await this.client.listen({ resourceSubscriptions: [uri, "notes://other"] });
        this.report.honoured = subscription.honoredFilter;
        await this.call("write_note", { title: "two", text: "second" }, "unwanted");
        await this.call("write_note", { title: "one", text: "second" });
        this.report.updated = await noticed("notifications/resources/updated", uri) && uri;
        await this.attempt("note_updated", this.client.readResource({ uri }));
        await subscription.close();
        await this.call("write_note", { title: "one", text: "third" });
        await this.call("echo", { text: "x" }, "meanwhile");
        this.report.updated_after_unsubscribe = notices.filter((item) => item.method.endsWith("/updated"));
    }

    async prompts() {
        const city = "Rome";
        await this.attempt("briefing", this.client.getPrompt({ name: "briefing", arguments: { city, tone: "cheerful" } }));
        await this.attempt("briefing_default", this.client.getPrompt({ name: "briefing", arguments: { city } }));
        await this.attempt("briefing_without", this.client.getPrompt({ name: "briefing", arguments: {} }));
        await this.attempt("gallery", this.client.getPrompt({ name: "gallery" }));
        await this.attempt("no_prompt", this.client.getPrompt({ name: "no_such_prompt" }));
        const prompt = { type: "ref/prompt", name: "briefing" };
        const template = { type: "ref/resource", uri: "weather://{city}/history{?year}" };
        const year = { name: "year", value: "2" };
        await this.attempt("complete_city", this.client.complete({ ref: prompt, argument: { name: "city", value: "p" } }));
        await this.attempt("complete_year", this.client.complete({ ref: template, argument: year,
            context: { arguments: { city: "Rome" } } }));
        await this.attempt("complete_nothing", this.client.complete({ ref: template, argument: year }));
    }

    async changes() {
        notices = [];
        const subscription = this.modern ? await this.client.listen({
            toolsListChanged: true, resourcesListChanged: true, promptsListChanged: true }) : undefined;
        await this.call("grow");
        this.report.changes = await changed();
        await this.call("new_tool");
        await this.call("shrink");
        this.report.changes_back = await changed();
        await this.call("new_tool", {}, "new_tool_gone");
        await subscription?.close();
    }

    // A stream that the server closes: the client has to come back for the answer.
    async streams() {
        await this.watched("close_stream", "close_stream_progress");
    }

    // Connections that break off, of a call and of the stream that belongs to none.
    async interrupted() {
        const uri = "notes://cut-here";
        await this.watched("interrupted", "interrupted_progress");
        await this.client.subscribeResource({ uri });
        await this.call("write_note", { title: "cut-here", text: "new" });
        this.report.told_before = await noticed("notifications/resources/updated", uri);
        await this.call("grow"); // while there is no connection
        this.report.told_after = await changed();
    }
}

const STEPS = ["headers", "lists", "results", "errors", "work", "questions", "asking", "resources", "prompts",
    "changes", "streams", "caching"];

async function tryAll() {
    const client = newClient();
    const way = transport();
    let version;
    const note = way.setProtocolVersion?.bind(way);
    way.setProtocolVersion = (agreed) => {
        version = agreed;
        note?.(agreed);
    };
    await client.connect(way);
    const trial = new Trial(client);
    trial.report.initialize = { protocolVersion: version, capabilities: client.getServerCapabilities(),
        serverInfo: client.getServerVersion(), instructions: client.getInstructions() };
    if (trial.modern) {
        trial.report.initialize = {
            protocolVersion: client.getNegotiatedProtocolVersion(), ...client.getDiscoverResult() };
    }
    for (const step of rest.length ? rest : STEPS) {
        await trial[step]();
    }
    if (way.terminateSession && !trial.modern) {
        await way.terminateSession();
    }
    await client.close();
    console.log(JSON.stringify(trial.report));
}

// Call a tool that works for long, print the session and the last event, and wait to be killed.
async function begin() {
    const client = newClient();
    const way = transport();
    await client.connect(way);
    let event;
    await requestTool(client, "work_on", {
        onresumptiontoken: (token) => { event = token; },
        onprogress: () => console.log(JSON.stringify({ session: way.sessionId, revision: way.protocolVersion, event })) });
}

// Go on with the call of a client that was killed.
async function resume() {
    const [sessionId, revision, event] = rest;
    const client = newClient();
    const way = new StreamableHTTPClientTransport(new URL(target), { sessionId });
    way.setProtocolVersion(revision);
    await client.connect(way);
    await requestTool(client, "release");
    const result = await requestTool(client, "work_on", { resumptionToken: event });
    await way.terminateSession();
    await client.close();
    console.log(JSON.stringify(result));
}

await ({ begin, resume }[mode] ?? tryAll)();
