// Two nodes that share rooms over a Redis of their own. Skipped without redis-server; DROVER_REQUIRE_ALL=1 requires it.
'use strict';

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { after, before, test } = require('node:test');

const { closing, connect, serve } = require('./support/clients.js');

const isMissing = spawnSync('redis-server', ['--version']).error !== undefined;
const skip = isMissing && process.env.DROVER_REQUIRE_ALL !== '1' ? 'redis-server is missing' : false;
let redis;
let scratch;
let redisProcess;

before(async () => {
  if (skip) return;
  scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'node-presence-'));
  const port = await freePort();
  const args = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', scratch];
  redisProcess = spawn('redis-server', args.map(String), { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve, reject) => {
    redisProcess.once('exit', () => reject(new Error('redis-server did not start')));
    redisProcess.stdout.on('data', (text) => {
      if (String(text).includes('Ready to accept connections')) resolve();
    });
  });
  redis = `redis://127.0.0.1:${port}`;
});

after(() => {
  redisProcess?.kill('SIGKILL');
  if (scratch) fs.rmSync(scratch, { recursive: true });
});

test('members of two nodes see each event once, with one seq per room', { skip }, async () => {
  const [one, two] = [await serve({ redis }), await serve({ redis })];
  const [ann, bob] = [await connect(one), await connect(two)];
  assert.equal((await ann.join('both', 'ann', { state: {} })).seq, 1);
  const joined = await bob.join('both', 'bob', { state: { list: [], nothing: {} } });
  assert.deepEqual(joined.snapshot.map(({ userId, state }) => [userId, state]).sort(), [
    ['ann', {}],
    ['bob', { list: [], nothing: {} }],
  ]);
  // An event of her own node could overtake it.
  await ann.received(2);
  assert.equal((await ann.heartbeat({ patchState: { n: 1 } })).changed, true);
  assert.equal((await bob.heartbeat()).changed, false);
  await ann.received(3);
  await since(bob, joined.seq, 2);
  await bob.leave();
  for (const [client, seq, types] of [
    [ann, 1, ['join', 'join', 'update', 'leave']],
    [bob, joined.seq, ['join', 'update']],
  ]) {
    const events = await since(client, seq, types.length);
    assert.deepEqual(events.map(({ type }) => type), types);
    assert.deepEqual(events.map(({ seq }) => seq), types.map((_, index) => events[0].seq + index));
  }
});

test('on one node, events that many members cause at once arrive in the order of seq', { skip }, async () => {
  const url = await serve({ redis });
  const clients = [];
  for (let index = 0; index < 5; index += 1) clients.push(await connect(url));
  const count = 5 + 5 * 40;
  await Promise.all(clients.map((client, index) => client.join('ordered', `u${index}`)));
  for (let n = 0; n < 40; n += 1) {
    for (const client of clients) client.socket.emit('presence:heartbeat', { patchState: { n } });
  }
  const events = await clients[0].received(count - clients[0].events[0].seq + 1);
  const [{ seq: first }] = events;
  assert.deepEqual(events.map(({ seq }) => seq), events.map((_, index) => first + index));
});

test('the members of a node that does not come back expire on the others, once', { skip }, async () => {
  const [one, two] = [await serve({ redis, ttlMs: 3_000 }), await serve({ redis, ttlMs: 3_000 })];
  // A node with a longer TTL does not remove this member itself, as if it was dead.
  const dead = await connect(await serve({ redis, ttlMs: 1_000_000 }));
  const watchers = [await connect(one), await connect(two)];
  await dead.join('left', 'dead');
  // Its answers are not waited for: the last may be under way at the end.
  const alive = setInterval(() => watchers.forEach(({ socket }) => socket.emit('presence:heartbeat')), 50);
  closing(() => clearInterval(alive));
  await Promise.all(watchers.map((client, index) => client.join('left', `watcher${index}`)));
  for (const watcher of watchers) {
    while (!watcher.events.some(({ type }) => type === 'leave')) await watcher.received(watcher.events.length + 1);
  }
  assert.equal((await dead.heartbeat()).code, 'expired');
  await watchers[0].leave();
  const events = watchers[1].events;
  while (!events.some(({ reason }) => reason === 'leave')) await watchers[1].received(events.length + 1);
  assert.deepEqual(events.filter(({ type }) => type === 'leave').map(({ userId, reason }) => [userId, reason]), [
    ['dead', 'expired'],
    ['watcher0', 'leave'],
  ]);
});

/** Waits for events from a number on. One before a snapshot may come after it, if another node has published it. */
async function since(client, seq, count) {
  const found = () => client.events.filter((event) => event.seq >= seq);
  while (found().length < count) await client.received(client.events.length + 1);
  return found();
}

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
