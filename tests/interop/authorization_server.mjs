// An authorization server that others wrote, oidc-provider, with its own pages for logging in and consenting.
//
//     node authorization_server.mjs NODE_MODULES
//
// The first line says its issuer; then each thing that happens at it is a line of JSON. What it says of a token, a
// code or a secret goes to no line: SECRETS names a file that collects all of them, one a line, for a test that looks
// for them elsewhere. Its settings, all from the environment:
//
//     FORMAT     jwt (default) or opaque: of access tokens
//     SECONDS    that an access token lives; default 3600
//     FIRST      the same for the first that comes for a code: the later ones live long, however slow their client is
//     OFFLINE    "asked": a refresh token only with offline_access, which it grants with prompt=consent alone, as it
//                does by itself; else each client gets one that has registered for the grant
//     CLIENTS    a list of clients that it knows, as in a registration
//     DOCUMENTS  client id metadata documents by URL, in place of the network
//     BOUND      "yes": a client that has registered with scopes gets no others; else what it named is not kept
//     METHODS    by which clients may authenticate, with blanks between them; default all
//     NONCE      "yes": proofs of possession need a nonce
//     REFUSE     "registration": no client can register

import { generateKeyPairSync, randomBytes } from "node:crypto";
import { appendFileSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const [modules] = process.argv.slice(2);
const require = createRequire(path.join(modules, "anything.js"));
const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));
const { FORMAT = "jwt", SECONDS = "3600", FIRST = SECONDS, OFFLINE, BOUND, METHODS, NONCE, REFUSE, SECRETS } =
    process.env;
const clients = JSON.parse(process.env.CLIENTS ?? "[]");
const documents = JSON.parse(process.env.DOCUMENTS ?? "{}");

const say = (event, what = {}) => console.log(JSON.stringify({ event, ...what }));

let isFirst = true; // until a token was given for a code

const secrets = new Set();

function keep(...values) {
    for (const value of values) {
        if (typeof value === "string" && value && !secrets.has(value)) {
            secrets.add(value);
            if (SECRETS) {
                appendFileSync(SECRETS, `${value}\n`);
            }
        }
    }
}

const key = (kid, alg, type, options) => (
    { ...generateKeyPairSync(type, options).privateKey.export({ format: "jwk" }), kid, alg, use: "sig" });

const server = http.createServer();
await new Promise((resolve) => { server.listen(0, "127.0.0.1", resolve); });
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
    clients,
    jwks: { keys: [key("first", "RS256", "rsa", { modulusLength: 2048 }),
        key("second", "ES256", "ec", { namedCurve: "P-256" })] },
    cookies: { keys: ["a key for cookies"] },
    scopes: ["openid", "offline_access", "mcp:read", "mcp:write"],
    ...METHODS && { clientAuthMethods: METHODS.split(" ") },
    pkce: { required: () => true },
    responseTypes: ["code"],
    rotateRefreshToken: true,
    issueRefreshToken: async (ctx, client, code) => client.grantTypeAllowed("refresh_token")
        && (OFFLINE !== "asked" || code.scopes.has("offline_access")),
    expiresWithSession: async () => false,
    features: {
        registration: { enabled: REFUSE !== "registration" },
        clientCredentials: { enabled: true },
        introspection: { enabled: true },
        revocation: { enabled: true },
        dPoP: { enabled: true, ...NONCE === "yes" && { nonceSecret: randomBytes(32), requireNonce: () => true } },
        rpInitiatedLogout: { enabled: false },
        clientIdMetadataDocument: {
            enabled: Object.keys(documents).length > 0, ack: "draft-02",
            allowFetch: async (ctx, url) => url in documents },
        resourceIndicators: {
            enabled: true,
            useGrantedResource: async () => true,
            getResourceServerInfo: async (ctx, resource) => ({
                scope: "mcp:read mcp:write", audience: resource, accessTokenFormat: FORMAT,
                jwt: { sign: { alg: "RS256" } },
                accessTokenTTL: Number(isFirst && ctx.oidc.params?.grant_type === "authorization_code" ? FIRST : SECONDS) }),
        },
    },
    fetch: async (url) => {
        say("fetched", { url: String(url) });
        return new Response(JSON.stringify(documents[url]), { headers: { "content-type": "application/json" } });
    },
});

// Ends one access token and leaves the login alone, which revocation ends as well.
provider.use(async (ctx, next) => {
    if (ctx.path !== "/withdraw") {
        return next();
    }
    await (await provider.AccessToken.find(await text(ctx.req))).destroy();
    ctx.status = 204;
});

// What went over the wire, with the secrets in it only collected.
provider.use(async (ctx, next) => {
    let registration;
    if (ctx.path === "/reg" && ctx.method === "POST") {
        registration = JSON.parse(await text(ctx.req));
        const { scope, ...others } = registration;
        ctx.req.body = BOUND === "yes" ? registration : others;
    }
    await next();
    const { oidc, body, path: where } = ctx;
    const asked = oidc?.params ?? {};
    keep(asked.code, asked.code_verifier, asked.refresh_token, asked.client_secret, asked.client_assertion,
        asked.token);
    const [scheme, credentials] = (ctx.get("authorization") || " ").split(" ");
    if (scheme.toLowerCase() === "basic") {
        const [, secret = ""] = Buffer.from(credentials, "base64").toString().split(":");
        keep(credentials, decodeURIComponent(secret.replaceAll("+", " ")));
    }
    if (body && typeof body === "object") {
        keep(body.access_token, body.refresh_token, body.client_secret, body.registration_access_token);
    }
    const location = ctx.response.get("location");
    if (location && URL.canParse(location)) {
        keep(new URL(location).searchParams.get("code"));
    }
    if (where === "/token") {
        isFirst &&= ctx.status !== 200 || asked.grant_type !== "authorization_code";
        say("token", { grant: asked.grant_type, status: ctx.status, error: body?.error, why: body?.error_description,
            client: oidc?.client?.clientId, method: oidc?.client?.clientAuthMethod, resource: asked.resource,
            asked: asked.scope, scope: body?.scope, type: body?.token_type,
            refreshable: Boolean(body?.refresh_token) });
    } else if (where === "/reg") {
        const { client_secret: secret, registration_access_token: token, ...told } = body ?? {};
        say("registration", { status: ctx.status, asked: registration, told });
    } else if (where === "/auth") {
        const { state, code_challenge: challenge, ...parameters } = asked;
        say("authorization", { status: ctx.status, parameters, query: [...new URL(ctx.href).searchParams.keys()] });
    } else {
        say("request", { method: ctx.method, path: where, status: ctx.status });
    }
});
provider.on("server_error", (ctx, error) => say("server_error", { error: String(error.stack) }));
provider.on("authorization.error", (ctx, error) =>
    say("authorization_error", { error: error.error, why: error.error_description }));
provider.on("interaction.started", (ctx, { name, details }) => say("interaction", { prompt: name, details }));
provider.on("grant.revoked", () => say("revoked"));

server.on("request", provider.callback());
console.log(issuer);
// A line of stdin is repeated on stdout, behind all events so far: a test that has read it has read them.
process.stdin.on("data", (text) => say("mark", { text: String(text).trim() }));
process.stdin.on("end", () => process.exit(0));
