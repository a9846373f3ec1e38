// A server written with the official SDK for TypeScript, for our client.
//
//     node official_server.mjs NODE_MODULES [stdio | http] [both | modern]
//
// Over HTTP the first line says where it is. "modern" refuses clients that begin with a handshake.
// The SDK makes a new server for each request over HTTP, so that what lasts is kept outside of them.

import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";

const [modules, transport = "stdio", eras = "both"] = process.argv.slice(2);
const require = createRequire(path.join(modules, "anything.js"));
const { McpServer, ResourceTemplate, createMcpHandler, fromJsonSchema, inputRequired, inputResponse } =
    require("@modelcontextprotocol/server");
const { serveStdio } = require("@modelcontextprotocol/server/stdio");

const text = (value) => ({ content: [
    { type: "text", text: typeof value === "string" ? value : JSON.stringify(value) }] });
const object = (properties) => fromJsonSchema({ type: "object", properties, required: Object.keys(properties) });
const NAME = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
const BOOKING = { type: "object", properties: {
    name: { type: "string" }, guests: { type: "integer", minimum: 1, maximum: 9 } }, required: ["name", "guests"] };
const TIME = { messages: [{ role: "user", content: { type: "text", text: "What is the time?" } }], maxTokens: 50 };

let stopped;
let stopping; // the call that waits, of the client that called last
let reads = 0;
let grown = false;
let notifier; // tells of changes, over HTTP

function makeServer() {
    const mcp = new McpServer({ name: "official-ts", version: "1.2.3" }, {
        instructions: "Try it.",
        capabilities: { logging: {}, tools: { listChanged: true }, resources: { listChanged: true, subscribe: true } },
        cacheHints: { "tools/list": { ttlMs: 60_000, cacheScope: "public" } } });

    mcp.registerTool("add", {
        inputSchema: object({ a: { type: "integer" }, b: { type: "integer" } }),
        outputSchema: object({ result: { type: "integer" } }),
    }, ({ a, b }) => ({ ...text(`${a + b}`), structuredContent: { result: a + b } }));
    mcp.registerTool("fail", {}, () => { throw new Error("it went wrong"); });

    mcp.registerTool("count", { inputSchema: object({ to: { type: "integer" } }) }, async ({ to }, { mcpReq }) => {
        for (let n = 1; n <= to; n += 1) {
            await mcpReq.notify({ method: "notifications/progress", params: {
                progressToken: mcpReq._meta.progressToken, progress: n, total: to, message: `at ${n}` } });
        }
        await mcpReq.log("info", "counted");
        await mcpReq.log("error", { counted: to }, "counter");
        return text("counted");
    });

    mcp.registerTool("wait_to_be_cancelled", {}, async ({ mcpReq }) => {
        stopping = new Promise((resolve) => { stopped = resolve; });
        mcpReq.signal.addEventListener("abort", stopped);
        await mcpReq.notify({ method: "notifications/progress", params: {
            progressToken: mcpReq._meta.progressToken, progress: 1, total: 2 } });
        await stopping;
        return text("nobody cancelled");
    });
    mcp.registerTool("was_cancelled", {}, async () => {
        await stopping;
        return text("yes");
    });

    const booking = inputRequired.elicit({ message: "Your booking?", requestedSchema: BOOKING });
    mcp.registerTool("reserve", {}, ({ mcpReq }) => {
        const { kind, action, content = null } = inputResponse(mcpReq.inputResponses, "booking");
        return kind === "missing" ? inputRequired({ inputRequests: { booking } }) : text([action, content]);
    });
    mcp.registerTool("sign_in", {}, ({ mcpReq }) => {
        const { kind, action } = inputResponse(mcpReq.inputResponses, "page");
        const page = inputRequired.elicitUrl({ message: "Sign in", url: "https://example.com/sign-in" });
        return kind === "missing" ? inputRequired({ inputRequests: { page } }) : text(action);
    });

    mcp.registerTool("survey", {}, ({ mcpReq }) => {
        const answers = mcpReq.inputResponses;
        if (answers === undefined) {
            return inputRequired({ inputRequests: {
                booking, time: inputRequired.createMessage(TIME), roots: inputRequired.listRoots() } });
        }
        return text([inputResponse(answers, "booking").content.name, inputResponse(answers, "time").result.content.text,
            inputResponse(answers, "roots").roots.map((root) => root.uri)]);
    });

    // One question after another; what was answered before is in the state.
    mcp.registerTool("interview", {}, ({ mcpReq }) => {
        const state = JSON.parse(mcpReq.requestState() ?? "[]");
        const answer = inputResponse(mcpReq.inputResponses, "next");
        if (answer.kind === "elicit") {
            state.push(answer.content?.name ?? answer.action);
        }
        if (state.length === 2) {
            return text(state);
        }
        return inputRequired({ requestState: JSON.stringify(state), inputRequests: {
            next: inputRequired.elicit({ message: `Name ${state.length + 1}?`, requestedSchema: NAME }) } });
    });

    // Not ready at first: there is nothing to answer, only to ask again.
    mcp.registerTool("later", {}, ({ mcpReq }) => mcpReq.requestState() === "soon" ? text("now")
        : inputRequired({ requestState: "soon" }));

    mcp.registerTool("locate", { inputSchema: object({
        region: { type: "string", "x-mcp-header": "Region" }, floor: { type: "integer", "x-mcp-header": "Floor" } }),
    }, ({ region, floor }, { http }) => text([region, floor, Object.fromEntries(
        [...http?.req.headers ?? []].filter(([name]) => name.startsWith("mcp-param-")))]));

    mcp.registerTool("tell", {}, () => {
        grown = true;
        if (notifier) {
            notifier.toolsChanged();
            notifier.resourceUpdated("counted://reads");
            notifier.resourceUpdated("counted://other");
        } else {
            grow(); // over stdio this server lives on, and notifies
            mcp.server.sendResourceUpdated({ uri: "counted://reads" });
            mcp.server.sendResourceUpdated({ uri: "counted://other" });
        }
        return text("told");
    });
    const grow = () => mcp.registerTool("new_tool", {}, () => text("new"));
    if (grown) {
        grow();
    }

    mcp.registerResource("counted", "counted://reads", { cacheHint: { ttlMs: 60_000 } }, (uri) => {
        reads += 1;
        return { contents: [{ uri: uri.href, text: `${reads}` }] };
    });
    const days = new ResourceTemplate("diary://{day}", { list: undefined });
    mcp.registerResource("diary", days, {}, (uri, { day }, { mcpReq }) => {
        const answer = inputResponse(mcpReq.inputResponses, "name");
        return answer.kind === "missing" ? inputRequired({ inputRequests: {
            name: inputRequired.elicit({ message: `Whose ${day}?`, requestedSchema: NAME }) } })
            : { contents: [{ uri: uri.href, text: `${day} of ${answer.content?.name}` }] };
    });
    const argsSchema = object({ greeting: { type: "string" } });
    mcp.registerPrompt("personal", { argsSchema }, ({ greeting }, { mcpReq }) => {
        const answer = inputResponse(mcpReq.inputResponses, "name");
        return answer.kind === "missing" ? inputRequired({ inputRequests: {
            name: inputRequired.elicit({ message: "Your name?", requestedSchema: NAME }) } })
            : { messages: [{ role: "user", content: { type: "text", text: `${greeting} ${answer.content?.name}` } }] };
    });
    return mcp;
}

async function answer(handler, request, response) {
    const parts = [];
    for await (const part of request) {
        parts.push(part);
    }
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    const answered = await handler.fetch(new Request(`http://${request.headers.host}${request.url}`, {
        method: request.method, headers: request.headers, signal: gone.signal,
        body: parts.length ? Buffer.concat(parts) : undefined }));
    response.writeHead(answered.status, Object.fromEntries(answered.headers));
    response.flushHeaders();
    if (answered.body) {
        const reader = answered.body.getReader();
        response.on("close", () => reader.cancel().catch(() => {}));
        for (let part = await reader.read(); !part.done; part = await reader.read()) {
            response.write(part.value);
        }
    }
    response.end();
}

const legacy = eras === "modern" ? "reject" : undefined;
if (transport === "stdio") {
    serveStdio(makeServer, { legacy });
} else {
    const handler = createMcpHandler(makeServer, { legacy });
    notifier = handler.notify;
    const server = http.createServer((request, response) => answer(handler, request, response).catch((error) => {
        console.error(error);
        response.destroy();
    }));
    server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
}
