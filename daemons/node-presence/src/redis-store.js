// Keeps rooms in Redis, so that several nodes serve the same ones.
'use strict';

const { createAdapter } = require('@socket.io/redis-adapter');
const { createClient } = require('redis');

const { scripts } = require('./redis-scripts.js');

/** The rooms in Redis; has the methods of `MemoryStore`. */
class RedisStore {
  #client;
  #publisher;
  #subscriber;
  #ttlMs;

  constructor(clients, ttlMs) {
    [this.#client, this.#publisher, this.#subscriber] = clients;
    this.#ttlMs = ttlMs;
  }

  /** Connects to Redis: one connection for the rooms, and two for Socket.IO's adapter. */
  static async open(url, ttlMs) {
    const clients = [createClient({ url, scripts }), createClient({ url }), createClient({ url })];
    for (const client of clients) client.on('error', (error) => console.error(`Redis: ${error.message || error.code}`));
    await Promise.all(clients.map((client) => client.connect()));
    // A script that Redis does not know yet takes two round trips, and its event would come after later ones.
    await Promise.all(Object.values(scripts).map(({ SCRIPT }) => clients[0].scriptLoad(SCRIPT)));
    return new RedisStore(clients, ttlMs);
  }

  /** Returns the adapter that carries events between nodes. */
  adapter() {
    return createAdapter(this.#publisher, this.#subscriber);
  }

  async join(connId, member) {
    const { roomId, lastSeenMs } = member;
    const cutoff = lastSeenMs - this.#ttlMs;
    const [seq, entries, expired] = await this.#client.presenceJoin(connId, roomId, stored(member), lastSeenMs, cutoff);
    const snapshot = entries.map(([id, json, seen]) => ({ connId: id, ...JSON.parse(json), lastSeenMs: Number(seen) }));
    return { snapshot, seq, expired: expired.map(removed) };
  }

  async heartbeat(connId, member, hasChanged) {
    const json = hasChanged ? stored(member) : '';
    const seq = await this.#client.presenceHeartbeat(connId, member.roomId, json, member.lastSeenMs);
    return seq < 0 ? null : seq;
  }

  async leave(connId, { roomId }) {
    const reply = await this.#client.presenceLeave(connId, roomId);
    return reply ? removed(reply).seq : null;
  }

  async expire(nowMs) {
    return (await this.#client.presenceExpire(nowMs - this.#ttlMs)).map(removed);
  }

  async close() {
    // Publications that are still on their way are sent first.
    await Promise.allSettled([this.#client.close(), this.#publisher.close(), this.#subscriber.close()]);
  }
}

function stored({ userId, state, epoch }) {
  return JSON.stringify({ userId, state, epoch });
}

function removed([connId, roomId, json, seq]) {
  return { connId, member: { roomId, ...JSON.parse(json) }, seq };
}

module.exports = { RedisStore };
