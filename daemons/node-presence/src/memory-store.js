// Keeps rooms in the memory of this process.
'use strict';

/**
 * The rooms with their members and sequence numbers. `RedisStore` has the same methods. Every method that changes a
 * room returns the number of the event that tells of the change.
 */
class MemoryStore {
  #rooms = new Map();
  #ttlMs;

  constructor(ttlMs) {
    this.#ttlMs = ttlMs;
  }

  /** Adds or replaces a member. Removes members of the room whose TTL has passed first, and returns them too. */
  async join(connId, member) {
    const { roomId, lastSeenMs } = member;
    const expired = this.#expireIn(roomId, lastSeenMs);
    const room = this.#rooms.get(roomId) ?? { seq: 0, members: new Map() };
    this.#rooms.set(roomId, room);
    room.members.set(connId, member);
    room.seq += 1;
    const snapshot = Array.from(room.members, ([id, { userId, state, lastSeenMs, epoch }]) => {
      return { connId: id, userId, state, lastSeenMs, epoch };
    });
    return { snapshot, seq: room.seq, expired };
  }

  /**
   * Extends a member's lease, with its new state if that has changed. Returns `seq`, 0 if nothing has changed, or
   * null if the member is not there.
   */
  async heartbeat(connId, member, hasChanged) {
    const room = this.#rooms.get(member.roomId);
    if (!room?.members.has(connId)) return null;
    room.members.set(connId, member);
    if (!hasChanged) return 0;
    room.seq += 1;
    return room.seq;
  }

  /** Removes a member. Returns `seq`, or null if the member is not there. */
  async leave(connId, { roomId }) {
    return this.#remove(connId, roomId);
  }

  /** Removes members whose TTL has passed, and returns them; none if there are no more. */
  async expire(nowMs) {
    return [...this.#rooms.keys()].flatMap((roomId) => this.#expireIn(roomId, nowMs));
  }

  async close() {}

  #expireIn(roomId, nowMs) {
    const expired = [];
    for (const [connId, member] of this.#rooms.get(roomId)?.members ?? []) {
      if (member.lastSeenMs <= nowMs - this.#ttlMs) {
        expired.push({ connId, member, seq: this.#remove(connId, roomId) });
      }
    }
    return expired;
  }

  #remove(connId, roomId) {
    const room = this.#rooms.get(roomId);
    if (!room?.members.delete(connId)) return null;
    if (room.members.size === 0) this.#rooms.delete(roomId);
    room.seq += 1;
    return room.seq;
  }
}

module.exports = { MemoryStore };
