// The official SDK for TypeScript as a client whose user is played by the test that started it.
//
//     node login_client.mjs NODE_MODULES GENERATION URL
//
// GENERATION is 1 or 2. Lines on stdin and stdout are those of login_client.py, without "later": this SDK has no clock.

import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";

const [modules, generation, target] = process.argv.slice(2);
const FIRST = generation === "1";
const require = createRequire(path.join(modules, "anything.js"));
const sdk = (name) => require(`@modelcontextprotocol/sdk/${name}.js`);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = FIRST
    ? { ...sdk("client/index"), ...sdk("client/streamableHttp"), ...sdk("client/auth") } : require("@modelcontextprotocol/client");
// No server listens there, since the page is not fetched.
const REDIRECT = "http://127.0.0.1:3/callback";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const tell = (report) => console.log(JSON.stringify(report));

class Login {
    kept = {};
    get redirectUrl() { return REDIRECT; }
    get clientMetadata() {
        return { client_name: "official", redirect_uris: [REDIRECT], token_endpoint_auth_method: "none",
            grant_types: ["authorization_code", "refresh_token"], response_types: ["code"] };
    }
    state() { return this.kept.state = crypto.randomUUID(); }
    clientInformation() { return this.kept.client; }
    saveClientInformation(client) { this.kept.client = client; }
    tokens() { return this.kept.tokens; }
    saveTokens(tokens) { this.kept.tokens = tokens; }
    codeVerifier() { return this.kept.verifier; }
    saveCodeVerifier(verifier) { this.kept.verifier = verifier; }
    redirectToAuthorization(url) { tell({ visit: url.href }); }
    invalidateCredentials(what) {
        const kinds = { all: ["client", "tokens", "verifier"], client: ["client"], tokens: ["tokens"], verifier: ["verifier"] };
        for (const kind of kinds[what] ?? []) {
            delete this.kept[kind];
        }
    }
}

const login = new Login();
let client, transport;

// Do something; where the SDK has sent the user to a page, finish the login and do it again.
async function loggedIn(act) {
    for (let visits = 0; ; visits += 1) {
        try {
            return await act();
        } catch (error) {
            // Once more for the scopes of the tool, and no user wants to be asked for them again and again.
            if (!(error instanceof UnauthorizedError) || visits === 2) {
                throw error;
            }
            const answer = new URL((await lines.next()).value).searchParams;
            if (answer.has("error")) {
                throw new Error(answer.get("error"));
            }
            if (answer.get("state") !== login.kept.state) {
                throw new Error("the state is another one");
            }
            await transport.finishAuth(FIRST ? answer.get("code") : answer);
        }
    }
}

async function connect() {
    client = new Client({ name: "official", version: "1.0.0" }, FIRST ? {} : { versionNegotiation: { mode: "auto" } });
    transport = new StreamableHTTPClientTransport(new URL(target), { authProvider: login });
    await client.connect(transport);
}

try {
    await loggedIn(connect);
    tell({ said: "connected" });
    for await (const line of lines) {
        const [, tool] = line.split(" ");
        if (!tool) {
            break;
        }
        const result = await loggedIn(() => client.callTool({ name: tool, arguments: {} }));
        tell({ said: result.content[0].text });
    }
    await client.close();
    process.exit(0);
} catch (error) {
    tell({ error: `${error.name}: ${error.message}` });
    throw error;
}
