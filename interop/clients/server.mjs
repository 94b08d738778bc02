// A running examples/everything, as the tests in this folder need it. None of them
// outlives this process.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export const frameworks = ["nethttp", "chi", "echo", "gin"];

// patience bounds every wait, in milliseconds.
export const patience = 20_000;

// within fails, saying what was waited for, if that takes too long.
export function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${patience} ms`)), patience);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// until waits for a condition that nothing tells of.
export async function until(what, condition) {
  const end = Date.now() + patience;
  while (!(await condition())) {
    assert(Date.now() < end, `${what}: not within ${patience} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

export class Server {
  #program;
  #flags;
  #process;
  #exited;
  addr = "127.0.0.1:0";

  constructor(program, framework, ...flags) {
    this.#program = program;
    this.#flags = ["-framework", framework, ...flags];
  }

  // start starts the program: on a port that the system picks the first time, and on
  // the same one again.
  async start() {
    this.#process = spawn(this.#program, ["-addr", this.addr, "-admin", "127.0.0.1:0", ...this.#flags], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#exited = once(this.#process, "exit");
    running.add(this.#process);
    const lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
    this.url = (await within("start", lines.next())).value.replace("listening on ", "");
    this.admin = (await lines.next()).value.replace("admin on ", "");
    this.addr = new URL(this.url).host;
  }

  // end ends the program by a signal, and returns [exit code, signal] of its end.
  async end(signal) {
    this.#process.kill(signal);
    running.delete(this.#process);
    return within(`the end by ${signal}`, this.#exited);
  }

  async publish(query) {
    const response = await fetch(`${this.admin}/publish?${query}`, { method: "POST" });
    assert.equal(response.status, 204, `publish ${query}`);
  }

  async stats() {
    return (await fetch(`${this.admin}/stats`)).json();
  }
}
