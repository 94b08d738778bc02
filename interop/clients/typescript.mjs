// The official TypeScript client against examples/everything on all four
// frameworks, over HTTP/1.1 and over HTTP/2 with TLS.
//
//   node typescript.mjs PROGRAM CERTIFICATE KEY
//
// PROGRAM is the built example; the other two are files for 127.0.0.1. Node's own
// fetch speaks HTTP/1.1 only: the client is given undici's, which speaks HTTP/2
// where that is allowed. The modules are looked for beside this file.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Agent, buildConnector, fetch } from "undici";
import { Server, frameworks, until, within } from "./server.mjs";

const [program, cert, key] = process.argv.slice(2);
const ca = await readFile(cert);
const uri = "everything://notes";
const filter = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: [uri] };

// The kinds: what to publish, and the notification that comes of it.
const kinds = [
  ["kind=tools", "notifications/tools/list_changed"],
  ["kind=prompts", "notifications/prompts/list_changed"],
  ["kind=resources", "notifications/resources/list_changed"],
  [`kind=updated&uri=${uri}`, "notifications/resources/updated"],
];

let checks = 0;
function same(got, want, what) {
  assert.deepEqual(got, want, what);
  checks++;
}

// network is what a client's connections are: spoken holds the protocols that were
// agreed on, if there is TLS.
function network() {
  const spoken = new Set();
  const connect = buildConnector({ ca, allowH2: true });
  const dispatcher = new Agent({
    allowH2: true,
    bodyTimeout: 0, // silence is no fault of a stream
    connect: (options, done) =>
      connect(options, (error, socket) => {
        if (socket?.alpnProtocol !== undefined) spoken.add(socket.alpnProtocol);
        done(error, socket);
      }),
  });
  return { spoken, dispatcher, fetch: (url, init) => fetch(url, { ...init, dispatcher }) };
}

// Notified collects notifications.
class Notified {
  #waiting = new Map();

  constructor(client) {
    for (const [, method] of kinds) {
      client.setNotificationHandler(method, (n) => {
        this.#waiting.get(method)?.(n.params?.uri);
        this.#waiting.delete(method);
      });
    }
  }

  next(method) {
    return within(method, new Promise((resolve) => this.#waiting.set(method, resolve)));
  }
}

async function all(server, notified) {
  for (const [query, method] of kinds) {
    const next = notified.next(method);
    await server.publish(query);
    same(await next, method.endsWith("/updated") ? uri : undefined, method);
  }
}

async function scenario(framework, flags, protocol) {
  const server = new Server(program, framework, ...flags);
  await server.start();
  const net = network();
  const client = new Client({ name: "interop", version: "1.0.0" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
  const notified = new Notified(client);
  await within("connect", client.connect(new StreamableHTTPClientTransport(new URL(server.url), { fetch: net.fetch })));
  const listen = (what) => within("listen", client.listen(what));
  try {
    // The acknowledgment, every kind, and an end by the client beside another stream.
    const stream = await listen(filter);
    same(stream.honoredFilter, filter, "honored");
    await all(server, notified);
    const second = await listen({ toolsListChanged: true, resourceSubscriptions: ["u:2"] });
    same(second.honoredFilter, { toolsListChanged: true, resourceSubscriptions: ["u:2"] }, "honored");
    await second.close();
    same(await within("closed", second.closed), "local", "closed by the client");
    await until("the server has noticed", async () => (await server.stats()).streams === 1);
    same((await server.stats()).closed.client_closed, 1, "counted as closed by the client");
    await all(server, notified);

    // A graceful end, told from a drop; and listening again after each.
    same(await server.end("SIGTERM"), [0, null], "exit after SIGTERM");
    same(await within("closed", stream.closed), "graceful", "closed by SIGTERM");
    await server.start();
    const again = await listen(filter);
    same(again.honoredFilter, filter, "honored");
    await all(server, notified);
    await server.end("SIGKILL");
    same(await within("closed", again.closed), "remote", "closed by SIGKILL");
    await server.start();
    const last = await listen(filter);
    await all(server, notified);

    // Nothing granted: acknowledged, and over.
    const empty = await listen({});
    same(empty.honoredFilter, {}, "honored");
    same(await within("closed", empty.closed), "graceful", "nothing granted");
    await last.close();
    await until("no stream is left", async () => (await server.stats()).streams === 0);
    same([...net.spoken], protocol, "the protocols that were agreed on");
  } finally {
    await client.close();
    await net.dispatcher.destroy();
    await server.end("SIGKILL");
  }
}

// Side by side: most of it is waiting. (A client whose stream was aborted opens a
// connection that it may never use, and net/http's Shutdown gives it five seconds.)
await Promise.all(
  frameworks.flatMap((framework) => [
    scenario(framework, [], []),
    scenario(framework, ["-tls-cert", cert, "-tls-key", key], ["h2"]),
  ]),
);
console.log(`TypeScript client on ${frameworks.join(", ")}, HTTP/1.1 and HTTP/2 with TLS: ${checks} checks`);
process.exit(); // undici may keep connections to a server that is gone
