// The presence protocol: what the server does on each request, and what the members of a room are told.
'use strict';

const { isDeepStrictEqual } = require('node:util');

const { Refusal, parseHeartbeat, parseJoin } = require('./requests.js');

/** Serves the protocol to the sockets of a Socket.IO server. */
class Presence {
  #io;
  #store;
  #metrics;
  #ttlMs;
  #pending = new Set();

  constructor({ io, store, metrics, ttlMs }) {
    this.#io = io;
    this.#store = store;
    this.#metrics = metrics;
    this.#ttlMs = ttlMs;
    io.on('connection', (socket) => this.#serve(socket));
  }

  /** Removes members whose TTL has passed, and tells their rooms. */
  async expire() {
    let expired;
    do {
      expired = await this.#store.expire(Date.now());
      for (const one of expired) this.#publishExpired(one);
    } while (expired.length > 0);
  }

  /** Waits until all requests have been carried out, also the leaves of clients that have disconnected. */
  async settle() {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  #serve(socket) {
    // `member` is the connection's own member, or null. `last` is its latest request: they are carried out in order.
    socket.data = { member: null, hasExpired: false, epoch: 0, last: Promise.resolve() };
    const on = (event, action) => {
      socket.on(event, (...args) => {
        const answer = typeof args.at(-1) === 'function' ? args.pop() : () => {};
        this.#enqueue(socket, () => action(args[0])).then(answer);
      });
    };
    on('presence:join', (request) => this.#join(socket, request));
    on('presence:heartbeat', (request) => this.#heartbeat(socket, request));
    on('presence:leave', () => this.#leave(socket, 'leave'));
    socket.on('disconnect', () => this.#enqueue(socket, () => this.#leave(socket, 'disconnect')));
    // Called for each event to each client, whichever node has published it; not for acknowledgements.
    socket.onAnyOutgoing(() => (this.#metrics.deliveries += 1));
  }

  #enqueue(socket, action) {
    const done = socket.data.last.then(action).catch(refused);
    socket.data.last = done;
    this.#pending.add(done);
    done.then(() => this.#pending.delete(done));
    return done;
  }

  async #join(socket, request) {
    const { roomId, userId, state } = parseJoin(request);
    const { data } = socket;
    if (data.member && data.member.roomId !== roomId) {
      throw new Refusal('already_joined', `the connection is in the room ${data.member.roomId}: leave it first`);
    }
    const now = Date.now();
    data.epoch = Math.max(now, data.epoch + 1);
    const member = { roomId, userId, state, epoch: data.epoch, lastSeenMs: now };
    const { snapshot, seq, expired } = await this.#store.join(socket.id, member);
    for (const one of expired) this.#publishExpired(one);
    this.#setMember(socket, member);
    data.hasExpired = false;
    socket.join(channel(roomId));
    this.#metrics.joins += 1;
    this.#publish('join', socket.id, member, { state, seq });
    return { ok: true, snapshot, self: { connId: socket.id, epoch: member.epoch }, seq };
  }

  async #heartbeat(socket, request) {
    const { patch, epoch } = parseHeartbeat(request);
    const { data } = socket;
    const now = Date.now();
    if (data.member && data.member.lastSeenMs <= now - this.#ttlMs) await this.expire();
    const { member } = data;
    if (!member) throw data.hasExpired ? expiredRefusal() : new Refusal('not_joined', 'join a room first');
    if (epoch !== undefined && epoch !== member.epoch) {
      throw new Refusal('stale_epoch', `the epoch is ${member.epoch}, not ${epoch}`);
    }
    const changed = patch !== undefined && changes(member.state, patch);
    const next = { ...member, lastSeenMs: now, state: changed ? { ...member.state, ...patch } : member.state };
    const seq = await this.#store.heartbeat(socket.id, next, changed);
    if (seq === null) {
      // Another node has removed the member and told the room.
      this.#forget(socket, true);
      throw expiredRefusal();
    }
    data.member = next;
    this.#metrics.heartbeats += 1;
    if (changed) this.#publish('update', socket.id, next, { state: next.state, seq });
    return { ok: true, changed, epoch: next.epoch };
  }

  async #leave(socket, reason) {
    const { member } = socket.data;
    if (member) {
      const seq = await this.#store.leave(socket.id, member);
      this.#forget(socket, false);
      if (seq !== null) this.#publishLeave(socket.id, member, seq, reason);
    }
    return { ok: true };
  }

  #publishExpired({ connId, member, seq }) {
    const socket = this.#io.sockets.sockets.get(connId);
    if (socket?.data.member) this.#forget(socket, true);
    // The member may be connected to another node.
    else this.#io.in(connId).socketsLeave(channel(member.roomId));
    this.#publishLeave(connId, member, seq, 'expired');
  }

  #publishLeave(connId, member, seq, reason) {
    this.#metrics.leaves += 1;
    this.#publish('leave', connId, member, { state: null, seq, reason });
  }

  #publish(type, connId, { roomId, userId, epoch }, details) {
    this.#metrics.events += 1;
    const event = { type, roomId, userId, connId, ts: Date.now(), epoch, ...details };
    this.#io.to(channel(roomId)).emit('presence:event', event);
  }

  #setMember(socket, member) {
    if (!socket.data.member) this.#metrics.members += 1;
    socket.data.member = member;
  }

  #forget(socket, hasExpired) {
    const { data } = socket;
    socket.leave(channel(data.member.roomId));
    data.member = null;
    data.hasExpired = hasExpired;
    this.#metrics.members -= 1;
  }
}

/** Returns the name of the Socket.IO room. Without a prefix, a room could have the name of somebody's own room. */
function channel(roomId) {
  return `room:${roomId}`;
}

function changes(state, patch) {
  return Object.entries(patch).some(([key, value]) => {
    return !Object.hasOwn(state, key) || !isDeepStrictEqual(state[key], value);
  });
}

function expiredRefusal() {
  return new Refusal('expired', 'the member was removed, because its TTL had passed: join again');
}

function refused(error) {
  if (error instanceof Refusal) return { ok: false, error: error.message, code: error.code };
  console.error(error);
  return { ok: false, error: `the server could not do it: ${error.message}` };
}

module.exports = { Presence };
