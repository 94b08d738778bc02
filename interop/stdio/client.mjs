// The official TypeScript client on the standard streams of examples/stdio: two
// subscriptions on the one channel, told apart; a local end, a graceful end, and an
// end of the process.
//
//   node client.mjs PROGRAM DIR
//
// The modules are looked for beside this file.
import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [program, base] = process.argv.slice(2);
const patience = 30_000;

// within fails with what was waited for if that takes too long.
function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing within ${patience} ms`)), patience);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Connection is a client with its server process, and what it was told.
class Connection {
  events = []; // not waited for yet
  seen = [];   // all
  errors = [];
  waiting = [];

  static async open(dir) {
    const c = new Connection();
    c.transport = new StdioClientTransport({ command: program, args: ['-dir', dir], stderr: 'inherit' });
    c.client = new Client({ name: 'interop', version: '1.0.0' }, {
      versionNegotiation: { mode: { pin: '2026-07-28' } },
    });
    c.client.onerror = error => c.errors.push(String(error));
    c.client.setNotificationHandler('notifications/resources/updated', n => c.told(`updated ${n.params.uri}`));
    c.client.setNotificationHandler('notifications/resources/list_changed', () => c.told('list'));
    await within('connect', c.client.connect(c.transport));
    return c;
  }

  told(event) {
    this.events.push(event);
    this.seen.push(event);
    this.waiting.forEach(look => look());
  }

  // next waits for an event, and forgets it and what came before.
  next(event) {
    return within(event, new Promise(resolve => {
      const look = () => {
        const i = this.events.indexOf(event);
        if (i < 0) return;
        this.events.splice(0, i + 1);
        this.waiting = this.waiting.filter(other => other !== look);
        resolve();
      };
      this.waiting.push(look);
      look();
    }));
  }
}

async function directory(name) {
  const dir = join(base, name);
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, 'a.txt'), 'one');
  await writeFile(join(dir, 'b.txt'), 'one');
  return realpathSync(dir);
}

const uri = (dir, name) => pathToFileURL(join(dir, name)).href;

async function listAndListen() {
  const dir = await directory('listen');
  const a = uri(dir, 'a.txt');
  const b = uri(dir, 'b.txt');
  const c = await Connection.open(dir);
  assert.deepEqual(c.client.getServerCapabilities()?.resources, { listChanged: true, subscribe: true });
  const listed = await within('list', c.client.listResources());
  assert.deepEqual(listed.resources.map(r => r.uri).sort(), [a, b]);

  const first = await within('listen', c.client.listen({ resourceSubscriptions: [a], toolsListChanged: true }));
  assert.deepEqual(first.honoredFilter, { resourceSubscriptions: [a] });
  const second = await within('listen', c.client.listen({ resourceSubscriptions: [b], resourcesListChanged: true }));
  assert.deepEqual(second.honoredFilter, { resourceSubscriptions: [b], resourcesListChanged: true });

  await writeFile(join(dir, 'a.txt'), 'two');
  await c.next(`updated ${a}`);
  const read = await within('read', c.client.readResource({ uri: a }));
  assert.equal(read.contents[0].text, 'two');
  await writeFile(join(dir, 'b.txt'), 'two');
  await c.next(`updated ${b}`);

  // Cancelling the first leaves the second, and nothing more comes of the first.
  await first.close();
  assert.equal(await within('closed', first.closed), 'local');
  await within('list', c.client.listResources()); // the cancellation has been read
  c.seen.length = 0;
  await writeFile(join(dir, 'a.txt'), 'three');
  await writeFile(join(dir, 'b.txt'), 'three');
  await c.next(`updated ${b}`);
  await writeFile(join(dir, 'c.txt'), 'one');
  await c.next('list');
  await rm(join(dir, 'c.txt'));
  await c.next('list');
  assert.ok(!c.seen.includes(`updated ${a}`), 'told of a cancelled subscription');

  // What cannot be watched is refused, and the connection goes on.
  await assert.rejects(within('listen', c.client.listen({ resourceSubscriptions: [uri(dir, 'none')] })), { code: -32602 });
  const empty = await within('listen', c.client.listen({ promptsListChanged: true }));
  assert.deepEqual(empty.honoredFilter, {});
  assert.equal(await within('closed', empty.closed), 'graceful');

  assert.deepEqual(c.errors, []);
  await within('close', c.client.close());
}

async function goodbye() {
  const dir = await directory('goodbye');
  const c = await Connection.open(dir);
  const subscriptions = await Promise.all([1, 2, 3].map(() => within('listen', c.client.listen({ resourcesListChanged: true }))));
  process.kill(c.transport.pid, 'SIGTERM');
  for (const s of subscriptions) assert.equal(await within('closed', s.closed), 'graceful');
  await within('close', c.client.close());
}

async function crash() {
  const dir = await directory('crash');
  const c = await Connection.open(dir);
  const subscription = await within('listen', c.client.listen({ resourcesListChanged: true }));
  process.kill(c.transport.pid, 'SIGKILL');
  assert.equal(await within('closed', subscription.closed), 'remote');
  await within('close', c.client.close());
}

// A client that negotiates in the old way is served by the SDK behind.
async function oldClient() {
  const dir = await directory('old');
  const transport = new StdioClientTransport({ command: program, args: ['-dir', dir], stderr: 'inherit' });
  const client = new Client({ name: 'interop', version: '1.0.0' });
  let told;
  const changed = new Promise(resolve => { told = resolve; });
  client.setNotificationHandler('notifications/resources/list_changed', () => told());
  await within('connect', client.connect(transport));
  assert.equal((await within('list', client.listResources())).resources.length, 2);
  await writeFile(join(dir, 'c.txt'), 'one');
  await within('list changed', changed);
  await within('close', client.close());
}

for (const test of [listAndListen, goodbye, crash, oldClient]) {
  try {
    await test();
  } catch (error) {
    console.error(`${test.name}:`, error);
    process.exit(1);
  }
}
console.log('stdio: the TypeScript client lists, listens, cancels, and tells the ends apart');
