// A headless Chromium that does what a user does at an authorization server: logs in, consents or declines.
//
//     node consent.mjs NODE_MODULES CHROMIUM PROFILE ACTION < URL
//
// ACTION is "allow", or "decline" on the page that asks for consent. PROFILE is a folder that remembers who is logged
// in. Prints the last page's URL without its query, its title, text and number of scripts, and what was done before, as
// one JSON object.

import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const [modules, executablePath, userDataDir, action] = process.argv.slice(2);
const require = createRequire(path.join(modules, "anything.js"));
const { default: puppeteer } = await import(pathToFileURL(require.resolve("puppeteer-core")));
const LIMIT = 60_000;
const PAGES = 8;

const start = new URL((await text(process.stdin)).trim());
const did = [];
const browser = await puppeteer.launch({
    executablePath, userDataDir, headless: true, pipe: true, timeout: LIMIT, protocolTimeout: LIMIT,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        // No page gets anything from elsewhere, and none waits for it.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"] });

async function follow(page, step) {
    await Promise.all([page.waitForNavigation({ waitUntil: "load", timeout: LIMIT }), step()]);
}

const shown = async (page) => (await page.evaluate(() => document.body?.innerText ?? "")).trim();

async function walk(page) {
    await page.goto(start.href, { waitUntil: "load", timeout: LIMIT });
    for (let n = 0; n < PAGES; n += 1) {
        const here = new URL(page.url());
        if (here.origin !== start.origin) {
            return { url: here.origin + here.pathname, title: await page.title(), text: await shown(page), did,
                scripts: await page.$$eval("script", (found) => found.length) };
        }
        const login = await page.$("input[name=login]");
        if (login) {
            did.push("login");
            await login.type("ada");
            await page.type("input[name=password]", "any password does");
            await follow(page, () => page.click("button[type=submit]"));
        } else {
            did.push(action);
            await follow(page, () => page.click(action === "decline" ? "a[href$='/abort']" : "button[type=submit]"));
        }
    }
    throw new Error(`still at the authorization server after ${PAGES} pages`);
}

const page = await browser.newPage();
try {
    console.log(JSON.stringify(await walk(page)));
} catch (error) {
    const here = new URL(page.url());
    const text = await shown(page).catch(() => "nothing");
    console.log(JSON.stringify({ failed: String(error.stack), url: here.origin + here.pathname, text, did }));
    process.exitCode = 1;
} finally {
    await browser.close();
}
