// The official conformance suite against examples/everything on all four
// frameworks.
//
//   node run.mjs PROGRAM
//
// PROGRAM is the built example. The suite's exit code says too little (it is 0 when
// a scenario did not apply), so what counts is what each scenario wrote to its
// checks.json. The modules are looked for beside this file. It prints a table, and
// the same in one line at the end.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";

const program = process.argv[2];
const revision = "2026-07-28";
const frameworks = ["nethttp", "chi", "echo", "gin"];
const limit = 60_000; // for one run of the suite

// What has to be there, with the checks that each scenario has in the pinned
// version: those about subscriptions/listen, and those about HTTP. The rest of the
// suite is about tools, prompts and resources: it shows that requests pass through.
const ours = {
  "server-stateless": 30,
  "http-header-validation": 14,
  "http-custom-header-server-validation": 10,
  caching: 8,
  "dns-rebinding-protection": 2,
  "server-sse-multiple-streams": 2,
};
const scenarios = 40; // in all

const root = join(dirname(import.meta.filename), "node_modules", "@modelcontextprotocol", "conformance");
const suite = createRequire(import.meta.url)(join(root, "package.json"));

// started is the program that runs now. It does not outlive this one.
let started;
process.on("exit", () => started?.kill("SIGKILL"));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

async function start(framework) {
  started = spawn(program, ["-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-framework", framework], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(createInterface({ input: started.stdout }), "line", { signal: AbortSignal.timeout(10_000) });
  return line.replace("listening on ", "");
}

// stop ends the program as a service is ended.
async function stop() {
  const exited = once(started, "exit", { signal: AbortSignal.timeout(20_000) });
  started.kill("SIGTERM");
  assert.deepEqual(await exited, [0, null], "the program's exit after SIGTERM");
  started = undefined;
}

// runSuite returns the checks of each scenario.
async function runSuite(url) {
  const out = await mkdtemp(join(tmpdir(), "conformance-"));
  const args = [join(root, "dist", "index.js"), "server", "--url", url, "--suite", "all", "--spec-version", revision, "-o", out];
  const said = await new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: limit, maxBuffer: 1 << 26 }, (_, stdout, stderr) => resolve(stdout + stderr));
  });
  const checks = new Map();
  for (const dir of await readdir(out)) {
    const [, name] = /^server-(.*)-\d{4}-\d\d-\d\dT/.exec(dir);
    checks.set(name, JSON.parse(await readFile(join(out, dir, "checks.json"), "utf8")));
  }
  await rm(out, { recursive: true });
  return { checks, said };
}

// judge returns passed and all checks of a scenario, and complains about the others.
function judge(name, list, complaints) {
  for (const check of list.filter((c) => c.status !== "SUCCESS")) {
    complaints.push(`${name}: ${check.id}: ${check.status}: ${check.errorMessage ?? check.description}`);
  }
  return [list.filter((c) => c.status === "SUCCESS").length, list.length];
}

const rows = [["", ...Object.keys(ours), `all ${scenarios} scenarios`]];
const complaints = [];
for (const framework of frameworks) {
  const { checks, said } = await runSuite(await start(framework));
  await stop();
  const wrong = [];
  const row = [framework];
  const all = [0, 0];
  for (const [name, list] of checks) {
    judge(name, list, wrong).forEach((n, i) => (all[i] += n));
    if (list.length === 0) wrong.push(`${name}: no checks`);
  }
  for (const [name, count] of Object.entries(ours)) {
    const [passed, had] = judge(name, checks.get(name) ?? [], []);
    row.push(`${passed}/${count}`);
    if (passed !== count || had !== count) wrong.push(`${name}: ${passed} of ${had} passed, want ${count}`);
  }
  row.push(`${all[0]}/${all[1]}`);
  rows.push(row);
  if (checks.size !== scenarios) wrong.push(`${checks.size} scenarios ran, want ${scenarios}`);
  if (wrong.length > 0) complaints.push(...wrong.map((w) => `${framework}: ${w}`), said.slice(-4000));
}

const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)));
for (const row of rows) console.log(row.map((cell, i) => cell.padEnd(widths[i])).join("  ").trimEnd());
assert.equal(complaints.join("\n"), "");
const figures = rows.slice(1).map(([framework, stateless, ...rest]) => `${framework} ${stateless}, all ${rest.at(-1)}`);
console.log(`conformance ${suite.version}, server-stateless and all checks: ${figures.join("; ")}`);
