// The official SDK for TypeScript (1.x) with its experimental tasks as a client of our server; prints one JSON object.
//
//     node official_task_client.mjs NODE_MODULES COMMAND ... | URL
//
// The client starts tasks at the server, and serves questions that are tasks.

import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";

const [modules, ...target] = process.argv.slice(2);
const require = createRequire(path.join(modules, "anything.js"));
const sdk = (name) => require(`@modelcontextprotocol/sdk/${name}`);
const { Client } = sdk("client/index.js");
const { StdioClientTransport } = sdk("client/stdio.js");
const { StreamableHTTPClientTransport } = sdk("client/streamableHttp.js");
const { InMemoryTaskStore } = sdk("experimental/tasks/stores/in-memory.js");
const { CallToolResultSchema, CreateMessageRequestSchema, ElicitRequestSchema } = sdk("types.js");

const asked = [];
const NAME = { action: "accept", content: { name: "Ada" } };
const NICE = { role: "assistant", model: "test-model", content: { type: "text", text: "very" } };
const client = new Client({ name: "official", version: "1" }, {
    taskStore: new InMemoryTaskStore(),
    capabilities: { elicitation: { form: {} }, sampling: {}, tasks: { list: {}, cancel: {}, requests: {
        elicitation: { create: {} }, sampling: { createMessage: {} } } } } });

// Answers at once, or as a task when the server asks for one.
function answering(kind, result) {
    return async (request, extra) => {
        if (!request.params.task) {
            asked.push(kind);
            return result;
        }
        asked.push(`${kind} as a task`);
        const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl, pollInterval: 50 });
        setTimeout(() => extra.taskStore.storeTaskResult(task.taskId, "completed", result), 100);
        return { task };
    };
}

client.setRequestHandler(ElicitRequestSchema, answering("elicitation", NAME));
client.setRequestHandler(CreateMessageRequestSchema, answering("sampling", NICE));

async function failure(call) {
    try {
        await call();
        return null;
    } catch (error) {
        return { code: error.code, message: error.message };
    }
}

// Call a tool as the SDK's stream does it: the task, its states, its result or error.
async function streamed(name, args) {
    const seen = { statuses: [] };
    const stream = client.experimental.tasks.callToolStream({ name, arguments: args }, CallToolResultSchema,
        { task: { ttl: 60_000 }, timeout: 30_000 });
    for await (const message of stream) {
        if (message.type === "taskCreated") {
            seen.first = message.task.status;
        } else if (message.type === "taskStatus") {
            seen.statuses.push(message.task.status);
        } else if (message.type === "result") {
            seen.text = message.result.content[0].text;
            seen.isError = message.result.isError === true;
        } else {
            seen.error = message.error.message;
        }
    }
    return seen;
}

// Call a tool as a task, and return the task.
async function created(name) {
    const stream = client.experimental.tasks.callToolStream({ name, arguments: {} }, CallToolResultSchema,
        { task: { ttl: 60_000 } });
    const first = await stream.next();
    return first.value.task;
}

await client.connect(target[0].startsWith("http") ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1) }));
const tasks = client.experimental.tasks;
const seen = { declared: client.getServerCapabilities().tasks };
await client.listTools();
seen.count = await streamed("count", { to: 3 });
seen.either = await streamed("either", { text: "now" });
seen.atOnce = (await client.callTool({ name: "either", arguments: { text: "now" } })).content[0].text;
seen.broken = await streamed("broken", {});
seen.greet = await streamed("greet", {});
const endless = await created("forever");
seen.cancelled = (await tasks.cancelTask(endless.taskId)).status;
seen.again = await failure(() => tasks.cancelTask(endless.taskId));
seen.unknown = await failure(() => tasks.getTask("no-such-task"));
seen.list = await failure(() => tasks.listTasks());
asked.length = 0;
seen.confer = (await client.callTool({ name: "confer", arguments: {} })).content[0].text;
seen.asked = asked;
console.log(JSON.stringify(seen));
await client.close();
process.exit(0);
