// The page of examples/everything in a real browser: on every framework, from its
// own origin and, through the framework's CORS middleware, from another one.
//
//   node page.mjs PROGRAM [SCREENSHOT]
//
// PROGRAM is the built example. It prints a line for each framework and fails at
// the first thing that is not as it should be.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [program, screenshot] = process.argv.slice(2);
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const patience = 10_000;
let checks = 0;

// Server is a running example. All of them are ended at the end.
class Server {
  static all = new Set();

  static async start(framework, ...flags) {
    const server = new Server();
    server.process = spawn(program, ["-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-framework", framework, ...flags], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    server.exited = once(server.process, "exit");
    Server.all.add(server);
    const lines = createInterface({ input: server.process.stdout })[Symbol.asyncIterator]();
    server.endpoint = (await lines.next()).value.replace("listening on ", "");
    server.admin = (await lines.next()).value.replace("admin on ", "");
    server.origin = new URL(server.endpoint).origin;
    return server;
  }

  async stop(signal) {
    this.process.kill(signal);
    Server.all.delete(this);
    return (await this.exited)[0];
  }

  async publish(query) {
    const response = await fetch(`${this.admin}/publish?${query}`, { method: "POST" });
    assert.equal(response.status, 204, `publish ${query}`);
  }

  async streams() {
    return (await (await fetch(`${this.admin}/stats`)).json()).streams;
  }
}

// until waits for a condition that nothing tells of.
async function until(what, condition) {
  const end = Date.now() + patience;
  while (!(await condition())) {
    assert(Date.now() < end, `not within ${patience} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  checks++;
}

// Tab is a page of the example, and what is done and seen on it.
class Tab {
  constructor(page) {
    this.page = page;
    this.complaints = [];
    page.setDefaultTimeout(patience);
    page.on("pageerror", (error) => this.complaints.push(error.message));
    page.on("dialog", (dialog) => {
      this.complaints.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
  }

  // open opens a stream and returns it.
  async open({ lists = ["tools", "prompts", "resources"], uris = [], endpoint, token } = {}) {
    for (const list of ["tools", "prompts", "resources"]) {
      await this.page.locator(`[name=${list}ListChanged]`).setChecked(lists.includes(list));
    }
    await this.page.locator("#uris").fill(uris.join("\n"));
    if (endpoint !== undefined || token !== undefined) {
      await this.page.locator("details").evaluate((details) => (details.open = true));
      if (endpoint !== undefined) await this.page.locator("#endpoint").fill(endpoint);
      if (token !== undefined) await this.page.locator("#token").fill(token);
    }
    await this.page.getByRole("button", { name: "Open a stream" }).click();
    const name = await this.page.locator(".stream h3").first().textContent();
    return new Stream(this.page.locator(".stream", { has: this.page.locator("h3", { hasText: new RegExp(`^${name}$`) }) }), name);
  }

  press(name) {
    return this.page.getByRole("button", { name, exact: true }).click();
  }

  async change(uri) {
    await this.page.locator("#uri").fill(uri);
    await this.press("Change");
  }
}

// Stream is one stream on a page.
class Stream {
  constructor(element, name) {
    this.element = element;
    this.name = name;
  }

  is(state) {
    return until(`${this.name} is ${state}`, async () => (await this.element.getAttribute("data-state")) === state);
  }

  entries(kind) {
    return this.element
      .locator(`.timeline [data-kind=${kind}]`)
      .evaluateAll((all) => all.map((li) => [li.querySelector(".what"), li.querySelector(".detail")].map((e) => e.textContent)));
  }

  // shows waits for an entry of a kind, with a text in it.
  shows(kind, text) {
    return until(`${this.name} shows ${kind} "${text}"`, async () =>
      (await this.entries(kind)).some((entry) => entry.join(" ").includes(text)),
    );
  }

  async close() {
    await this.element.getByRole("button", { name: `Close stream ${this.name}` }).click();
  }
}

// ownOrigin is the page as its own server serves it.
async function ownOrigin(tab, server) {
  await tab.page.goto(server.origin);
  const nasty = 'everything://<img src=x onerror="alert(1)">';
  const all = await tab.open({ uris: ["everything://notes", nasty] });
  await all.is("open");
  await all.shows("acknowledged", "tools, prompts, resources, everything://notes");
  const tools = await tab.open({ lists: ["tools"] });
  await tools.is("open");
  assert.equal(await server.streams(), 2);

  await tab.press("Tool list");
  await all.shows("notification", "Tools changed");
  await tools.shows("notification", "Tools changed");
  await tab.press("Prompt list");
  await all.shows("notification", "Prompts changed");
  await tab.press("Resource list");
  await all.shows("notification", "Resources changed");
  await tab.change("everything://notes");
  await all.shows("notification", "Resource updated everything://notes");
  await server.publish("kind=tools");
  await until("a second change of tools", async () => (await tools.entries("notification")).length === 2);
  assert.deepEqual(await tools.entries("notification"), [["Tools changed", ""], ["Tools changed", ""]], "what was not asked for");

  // What a server sends is text, never markup.
  await server.publish(`kind=updated&uri=${encodeURIComponent(nasty)}`);
  await all.shows("notification", nasty);
  assert.equal(await tab.page.locator("#streams img").count(), 0);

  await all.shows("keep-alive", "times"); // two in a row make one entry
  await tools.close();
  await tools.is("closed");
  await until("the server noticed", async () => (await server.streams()) === 1);
  await axeFinds(tab.page);
  if (screenshot) await tab.page.screenshot({ path: screenshot, fullPage: true }); // to look at
}

// axeFinds checks the page with axe-core, in light and in dark.
async function axeFinds(page) {
  await page.evaluate(await readFile(axe, "utf8"));
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`), [], `accessibility, ${colorScheme}`);
    checks++;
  }
}

// otherOrigin is a page that calls another server, which lists its origin.
async function otherOrigin(tab, other) {
  const refused = await tab.open({ endpoint: other.endpoint, token: "wrong" });
  await refused.is("refused");
  await refused.shows("error", "HTTP 401");
  const alice = await tab.open({ token: "s1", uris: ["everything://plan"] });
  await alice.is("open");
  await tab.change("everything://plan");
  await alice.shows("notification", "Resource updated everything://plan");
  const forbidden = await tab.open({ uris: ["file:///private/diary"] });
  await forbidden.is("refused");
  await forbidden.shows("error", "HTTP 403");
  const brief = await tab.open({ token: "s3" });
  await brief.is("open");
  await brief.is("ended"); // with its grant
  await brief.shows("result", "the server ended the stream");
  await tab.press("Close all");
  await alice.is("closed");
}

async function check(browser, framework) {
  const before = checks;
  const server = await Server.start(framework, "-keepalive", "250ms");
  const other = await Server.start(framework, "-origins", server.origin, "-tokens", "alice=s1,bob=s2,carol=s3:1s",
    "-private", "bob:file:///private/");
  const context = await browser.newContext({ bypassCSP: true, viewport: { width: 1280, height: 900 } }); // for axe
  const tab = new Tab(await context.newPage());

  await ownOrigin(tab, server);
  await otherOrigin(tab, other);

  // A server that lists no origins lets no foreign page in.
  await tab.page.goto(other.origin);
  const foreign = await tab.open({ endpoint: server.endpoint });
  await foreign.is("refused");
  await foreign.shows("error", "No answer");
  await context.close();

  // How a stream ends: with a result on SIGTERM, without one when the server is killed.
  const plain = new Tab(await (await browser.newContext()).newPage());
  await plain.page.goto(server.origin);
  const graceful = await plain.open();
  await graceful.is("open");
  assert.equal(await server.stop("SIGTERM"), 0, "exit code");
  await graceful.is("ended");
  const short = await Server.start(framework);
  await plain.page.goto(short.origin);
  const lost = await plain.open();
  await lost.is("open");
  await short.stop("SIGKILL");
  await lost.is("lost");
  await other.stop("SIGTERM");
  await plain.page.context().close();

  assert.deepEqual([...tab.complaints, ...plain.complaints], []);
  console.log(`${framework}: ${checks - before} checks passed`);
}

// end ends what was started, also when this program is stopped from outside.
async function end() {
  for (const server of Server.all) server.process.kill("SIGKILL");
  await context?.close();
  await rm(profile, { recursive: true, force: true });
}

const profile = await mkdtemp(join(tmpdir(), "browser-"));
let context;
process.once("SIGTERM", () => end().finally(() => process.exit(143)));
try {
  context = await chromium.launchPersistentContext(profile, {
    executablePath: "/usr/bin/chromium",
    headless: true,
    handleSIGTERM: false,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
  for (const framework of ["nethttp", "chi", "echo", "gin"]) await check(context.browser(), framework);
  console.log(`browser: ${checks} checks passed in Chromium ${context.browser().version()}`);
} finally {
  await end();
}
