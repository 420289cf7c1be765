// Starts servers and clients for tests, and ends them after each test.
'use strict';

const { afterEach } = require('node:test');
const { io } = require('socket.io-client');

const { start } = require('../../src/server.js');

const TIMEOUT_MS = 20_000;
const closers = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Starts a server on a free port; returns its URL. */
async function serve(settings = {}) {
  const server = await start({
    host: '127.0.0.1',
    port: 0,
    redis: '',
    ttlMs: 30_000,
    reaperIntervalMs: 20,
    ...settings,
  });
  closers.push(server.close);
  return `http://127.0.0.1:${server.port}`;
}

/** Connects a client that keeps the events it gets. */
async function connect(url, options = {}) {
  const socket = io(url, { transports: ['websocket'], forceNew: true, reconnection: false, ...options });
  closers.push(async () => socket.disconnect());
  const client = new Client(socket);
  await new Promise((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('connect_error', reject);
  });
  return client;
}

class Client {
  events = [];
  #waiting = [];

  constructor(socket) {
    this.socket = socket;
    socket.on('presence:event', (event) => {
      this.events.push(event);
      for (const check of this.#waiting) check();
    });
  }

  get id() {
    return this.socket.id;
  }

  join(roomId, userId, more = {}) {
    return this.request('presence:join', { roomId, userId, ...more });
  }

  heartbeat(request = null) {
    return this.request('presence:heartbeat', request);
  }

  leave() {
    return this.request('presence:leave', null);
  }

  request(event, argument) {
    return this.socket.timeout(TIMEOUT_MS).emitWithAck(event, argument);
  }

  /** Waits until this many events have come, and returns all that have. */
  async received(count) {
    await new Promise((resolve, reject) => {
      const check = () => {
        if (this.events.length < count) return;
        clearTimeout(timer);
        this.#waiting = this.#waiting.filter((other) => other !== check);
        resolve();
      };
      const timer = setTimeout(() => {
        reject(new Error(`${this.events.length} events instead of ${count}: ${JSON.stringify(this.events)}`));
      }, TIMEOUT_MS);
      this.#waiting.push(check);
      check();
    });
    return this.events;
  }
}

/** Ends something after the test. */
function closing(close) {
  closers.push(close);
}

module.exports = { closing, connect, serve };
