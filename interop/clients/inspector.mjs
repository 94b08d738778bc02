// The inspector's command line against examples/everything on all four frameworks.
// It opens a stream by itself while it is connected: a smoke test.
//
//   node inspector.mjs PROGRAM HOME
//
// PROGRAM is the built example; the inspector keeps its files in HOME.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { Server, frameworks, patience, until } from "./server.mjs";

const [program, home] = process.argv.slice(2);
const inspector = join(
  dirname(import.meta.filename), "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js",
);

for (const framework of frameworks) {
  const server = new Server(program, framework);
  await server.start();
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [inspector, "--cli", server.url, "--transport", "http", "--protocol-era", "modern", "--method", "tools/list", "--format", "json"],
    { timeout: patience, env: { ...process.env, HOME: home } },
  );
  assert(JSON.parse(stdout).result.tools.length > 10, `${framework}: ${stdout}`);
  await until("its stream has ended", async () => (await server.stats()).closed.client_closed === 1);
  assert.deepEqual(await server.end("SIGTERM"), [0, null]);
}
console.log(`inspector on ${frameworks.join(", ")}: lists the tools, with a stream open meanwhile`);
