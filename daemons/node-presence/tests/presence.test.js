'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');

const { closing, connect, serve } = require('./support/clients.js');

test('a joiner gets the snapshot with itself, and its own join with the seq of the snapshot', async () => {
  const url = await serve();
  const [ann, bob] = [await connect(url), await connect(url)];
  const before = Date.now();
  const first = await ann.join('r', 'ann', { state: { a: 1 } });
  assert.ok(first.self.epoch >= before && first.self.epoch <= Date.now());
  const { lastSeenMs, ...member } = first.snapshot[0];
  assert.deepEqual(member, { connId: ann.id, userId: 'ann', state: { a: 1 }, epoch: first.self.epoch });
  assert.ok(lastSeenMs >= before && lastSeenMs <= Date.now());
  assert.deepEqual([first.ok, first.seq, first.self.connId, first.snapshot.length], [true, 1, ann.id, 1]);

  const second = await bob.join('r', 'bob');
  assert.equal(second.seq, 2);
  assert.deepEqual(
    second.snapshot.map(({ userId, state }) => [userId, state]),
    [['ann', { a: 1 }], ['bob', {}]],
  );
  const [own] = await bob.received(1);
  const { ts, ...rest } = own;
  assert.ok(Number.isInteger(ts));
  assert.deepEqual(rest, {
    type: 'join',
    roomId: 'r',
    userId: 'bob',
    connId: bob.id,
    state: {},
    epoch: second.self.epoch,
    seq: 2,
  });
  assert.deepEqual(seqs(await ann.received(2)), [1, 2]);
});

test('a heartbeat publishes an update only if it changes a value, with the whole merged state', async () => {
  const client = await connect(await serve());
  const { self } = await client.join('r', 'ann', { state: { a: { b: 1 }, c: [1] } });
  const { epoch } = self;
  const heartbeat = (patchState) => client.heartbeat({ patchState, epoch });
  assert.deepEqual(await client.heartbeat(), { ok: true, changed: false, epoch });
  assert.deepEqual(await heartbeat({ a: { b: 1 }, c: [1] }), { ok: true, changed: false, epoch });
  assert.deepEqual(await heartbeat({ a: { d: 2 } }), { ok: true, changed: true, epoch });
  assert.deepEqual(await heartbeat(JSON.parse('{"__proto__":{"x":1}}')), { ok: true, changed: true, epoch });
  const updates = (await client.received(3)).slice(1);
  assert.deepEqual(updates[0].state, { a: { d: 2 }, c: [1] });
  assert.equal(JSON.stringify(updates[1].state), '{"a":{"d":2},"c":[1],"__proto__":{"x":1}}');
  assert.deepEqual(seqs(updates), [2, 3]);
});

test('the same room again replaces the state, raises the epoch and publishes a join', async () => {
  const client = await connect(await serve());
  const first = await client.join('r', 'ann', { state: { a: 1 } });
  const second = await client.join('r', 'ann', { state: { b: 1 } });
  assert.ok(second.self.epoch > first.self.epoch);
  assert.deepEqual(second.snapshot.map(({ state }) => state), [{ b: 1 }]);
  assert.deepEqual((await client.received(2)).map(({ type }) => type), ['join', 'join']);
  assert.equal((await client.heartbeat({ epoch: first.self.epoch })).code, 'stale_epoch');
});

test('every leave is told to the others with its reason, and not to the leaver', async () => {
  const url = await serve({ ttlMs: 3_000 });
  const clients = [];
  for (let index = 0; index < 4; index += 1) clients.push(await connect(url));
  const [watcher, leaver, cut, silent] = clients;
  // Its answers are not waited for: the last may be under way at the end.
  const alive = setInterval(() => watcher.socket.emit('presence:heartbeat'), 50);
  closing(() => clearInterval(alive));
  await watcher.join('r', 'watcher');
  await leaver.join('r', 'leaver');
  assert.deepEqual(await leaver.leave(), { ok: true });
  assert.deepEqual(await leaver.leave(), { ok: true });
  await cut.join('r', 'cut');
  cut.socket.disconnect();
  await silent.join('r', 'silent');
  const events = await watcher.received(7);
  const leaves = events.filter(({ type }) => type === 'leave');
  assert.deepEqual(leaves.map(({ userId, reason, state }) => [userId, reason, state]), [
    ['leaver', 'leave', null],
    ['cut', 'disconnect', null],
    ['silent', 'expired', null],
  ]);
  assert.deepEqual(seqs(events), [1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(leaver.events.map(({ type }) => type), ['join']);
  assert.equal((await silent.heartbeat()).code, 'expired');
  assert.equal((await silent.join('r', 'silent')).ok, true);
  assert.equal((await silent.heartbeat()).ok, true);
});

test('a member past its TTL is in no snapshot and has expired, even before the reaper comes', async () => {
  const url = await serve({ ttlMs: 50, reaperIntervalMs: 1_000_000 });
  const [late, other] = [await connect(url), await connect(url)];
  const { snapshot } = await late.join('r', 'late');
  while (Date.now() <= snapshot[0].lastSeenMs + 60) await new Promise(setImmediate);
  const joined = await other.join('r', 'other');
  assert.deepEqual(joined.snapshot.map(({ userId }) => userId), ['other']);
  assert.equal((await late.heartbeat()).code, 'expired');
});

test('wrong requests are refused with a code', async () => {
  const client = await connect(await serve());
  const codes = [
    [await client.heartbeat(), 'not_joined'],
    [await client.request('presence:join', null), 'invalid_argument', 'the argument'],
    [await client.request('presence:join', { userId: 'u' }), 'invalid_argument', 'roomId'],
    [await client.join('', 'u'), 'invalid_argument', 'roomId'],
    [await client.join('r', 'ü'.repeat(101)), 'invalid_argument', 'userId'],
    [await client.join('r', 'u', { state: [] }), 'invalid_argument', 'state'],
    [await client.heartbeat({ patchState: 1 }), 'invalid_argument', 'patchState'],
    [await client.heartbeat({ epoch: -1 }), 'invalid_argument', 'epoch'],
    [await client.heartbeat({ epoch: 1.5 }), 'invalid_argument', 'epoch'],
  ];
  const { self } = await client.join('r', 'u');
  codes.push(
    [await client.join('other', 'u'), 'already_joined', 'leave it first'],
    [await client.heartbeat({ epoch: self.epoch + 1 }), 'stale_epoch'],
    [await client.heartbeat({ epoch: self.epoch - 1 }), 'stale_epoch'],
  );
  for (const [answer, code, part = ''] of codes) {
    assert.deepEqual([answer.ok, answer.code], [false, code]);
    assert.ok(answer.error.includes(part), answer.error);
  }
});

test('requests without an acknowledgement, and many at once, are carried out in order', async () => {
  const client = await connect(await serve());
  client.socket.emit('presence:join', { roomId: 'r', userId: 'u' });
  for (let n = 1; n <= 50; n += 1) client.socket.emit('presence:heartbeat', { patchState: { n } });
  const events = await client.received(51);
  assert.deepEqual(events.slice(1).map(({ state }) => state.n), Array.from({ length: 50 }, (_, index) => index + 1));
});

for (const options of [{ transports: ['polling'] }, { transports: ['polling', 'websocket'] }]) {
  test(`the protocol also works over ${options.transports.join(' with an upgrade to ')}`, async () => {
    const url = await serve();
    const [client, other] = [await connect(url, options), await connect(url)];
    await client.join('r', 'u');
    await other.join('r', 'v');
    assert.equal((await other.heartbeat({ patchState: { n: 1 } })).changed, true);
    assert.deepEqual(seqs(await client.received(3)), [1, 2, 3]);
  });
}

test('the metrics page counts connections, members, requests, events and deliveries', async () => {
  const url = await serve();
  const [ann, bob] = [await connect(url), await connect(url)];
  await ann.join('r', 'ann');
  await bob.join('r', 'bob');
  await ann.heartbeat({ patchState: { n: 1 } });
  await ann.leave();
  await bob.received(3);
  const page = await (await fetch(`${url}/metrics`)).text();
  for (const line of [
    'presence_connections_open 2',
    'presence_members 1',
    'presence_joins_total 2',
    'presence_heartbeats_total 1',
    'presence_leaves_total 1',
    'presence_events_total 4',
    // Ann's join to her, Bob's join and the update to both, the leave to Bob.
    'presence_deliveries_total 6',
  ]) {
    assert.ok(page.includes(`\n${line}\n`), `${line} is not in:\n${page}`);
  }
  assert.match(page, /^# TYPE presence_joins_total counter$/m);
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
  assert.equal((await fetch(`${url}/other`)).status, 404);
});

function seqs(events) {
  return events.map(({ seq }) => seq);
}
