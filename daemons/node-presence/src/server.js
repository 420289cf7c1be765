// Puts the parts together: HTTP pages, Socket.IO, the presence protocol, and its store.
'use strict';

const http = require('node:http');
const { setTimeout: delay } = require('node:timers/promises');
const { Server } = require('socket.io');

const { MemoryStore } = require('./memory-store.js');
const { Metrics } = require('./metrics.js');
const { Presence } = require('./presence.js');

const CLOSE_GRACE_MS = 1_000;

/** Starts a server, and returns it when it listens. `close` ends it and disconnects its clients. */
async function start({ host, port, redis, ttlMs, reaperIntervalMs }) {
  const store = redis === '' ? new MemoryStore(ttlMs) : await openRedis(redis, ttlMs);
  const metrics = new Metrics();
  const httpServer = http.createServer((request, response) => {
    sendPage(request, response, () => metrics.render(io.engine.clientsCount));
  });
  const io = new Server(httpServer, { serveClient: false, adapter: store.adapter?.() });
  const presence = new Presence({ io, store, metrics, ttlMs });
  const reaper = repeat(reaperIntervalMs, () => presence.expire());

  await new Promise((resolve, reject) => {
    httpServer.once('error', reject);
    httpServer.listen({ host, port, backlog: 65_535 }, resolve);
  });
  const close = async () => {
    clearInterval(reaper);
    // A client that does not answer the close of its WebSocket would otherwise delay the end by 30 s.
    await Promise.race([io.close(), delay(CLOSE_GRACE_MS, undefined, { ref: false })]);
    httpServer.closeAllConnections();
    await presence.settle();
    await store.close();
  };
  return { port: httpServer.address().port, close };
}

async function openRedis(url, ttlMs) {
  const { RedisStore } = require('./redis-store.js');
  return RedisStore.open(url, ttlMs);
}

/** Repeats an action, but not while it is still going on. */
function repeat(intervalMs, action) {
  let isBusy = false;
  return setInterval(async () => {
    if (isBusy) return;
    isBusy = true;
    try {
      await action();
    } catch (error) {
      console.error(`expiring members failed: ${error.message}`);
    }
    isBusy = false;
  }, intervalMs);
}

function sendPage(request, response, metricsPage) {
  const path = request.url.split('?')[0];
  if (path === '/healthz') send(response, 200, 'ok\n');
  else if (path === '/metrics') send(response, 200, metricsPage());
  else send(response, 404, 'not found\n');
}

function send(response, status, body) {
  response.writeHead(status, { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' });
  response.end(body);
}

module.exports = { start };
