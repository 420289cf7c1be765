'use strict';

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const net = require('node:net');
const path = require('node:path');
const { createInterface } = require('node:readline');
const { test } = require('node:test');

const { closing, connect } = require('./support/clients.js');

const MAIN = path.join(__dirname, '../src/main.js');

test('SIGTERM disconnects clients so that they reconnect, and ends with 0', async () => {
  const { child, url } = await launch();
  const clients = [await connect(url), await connect(url, { transports: ['polling'] })];
  for (const client of clients) await client.join('r', 'u');
  // A client that sent half a handshake, and one that never answers.
  const half = net.connect({ port: new URL(url).port }).on('error', () => {});
  closing(async () => half.destroy());
  half.write('GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n');
  const reasons = clients.map(({ socket }) => new Promise((resolve) => socket.once('disconnect', resolve)));
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  child.kill('SIGTERM');
  assert.equal(await ended, 0);
  // After this reason the official client would not reconnect.
  for (const reason of await Promise.all(reasons)) assert.notEqual(reason, 'io server disconnect');
});

test('a wrong option ends with 2, a port in use with 1', async () => {
  const wrong = spawnSync(process.execPath, [MAIN, '--port', 'x'], { encoding: 'utf8' });
  assert.equal(wrong.status, 2);
  assert.match(wrong.stderr, /^node-presence: --port \(PORT\): "x" is not/);
  const { url } = await launch();
  const second = spawnSync(process.execPath, [MAIN, '--port', new URL(url).port], { encoding: 'utf8' });
  assert.equal(second.status, 1);
  assert.match(second.stderr, /EADDRINUSE/);
});

async function launch() {
  const child = spawn(process.execPath, [MAIN, '--port', '0'], { stdio: ['ignore', 'ignore', 'pipe'] });
  closing(async () => child.kill('SIGKILL'));
  for await (const line of createInterface(child.stderr)) {
    const url = /^listening on (http:.*)$/.exec(line)?.[1];
    if (url) return { child, url };
  }
  throw new Error('the daemon did not start');
}
