// Joins rooms with the official JavaScript client, and reports what each client has received.
//
//   node members.js '{"url": "http://…", "rooms": ["r"], "clientsPerRoom": 3}'
//
// The clients of a room take turns with the transports. Commands are lines of standard input, and each is answered by
// a line of JSON:
//
//   join       connects and joins; answers {"joined": number of clients}
//   update N   sends N updates from each client, all at once; answers {"updated": number of acknowledged updates}
//   report     waits until everything that was published before has arrived; answers {"clients": […]}
//
// It ends with standard input.
'use strict';

const { createInterface } = require('node:readline');
const { io } = require('socket.io-client');

const TRANSPORTS = { websocket: ['websocket'], polling: ['polling'], upgrade: ['polling', 'websocket'] };
const TIMEOUT_MS = 30_000;

class Member {
  events = [];
  failures = [];
  #updates = 0;
  #onEvent = () => {};

  constructor(url, { roomId, userId, transport }) {
    Object.assign(this, { roomId, userId, transport });
    this.socket = io(url, { transports: TRANSPORTS[transport], forceNew: true, reconnection: false });
    this.socket.on('presence:event', (event, ...rest) => {
      if (rest.length > 0) this.failures.push(`${rest.length} further arguments`);
      this.events.push(event);
      this.#onEvent();
    });
    this.socket.on('disconnect', (reason) => this.failures.push(`disconnected: ${reason}`));
  }

  async join() {
    await withLimit(`${this.userId} connects`, (resolve, reject) => {
      this.socket.once('connect', resolve);
      this.socket.once('connect_error', reject);
    });
    this.connId = this.socket.id;
    const { roomId, userId } = this;
    this.joined = await this.#request('presence:join', { roomId, userId, state: { n: 0 } });
  }

  async update() {
    this.#updates += 1;
    const patchState = { n: this.#updates };
    const answer = await this.#request('presence:heartbeat', { patchState, epoch: this.joined.self?.epoch });
    if (!(answer.ok && answer.changed)) this.failures.push(`update refused: ${JSON.stringify(answer)}`);
  }

  /** Publishes a last update, and waits until those of all clients in the room have come. */
  async finish(others) {
    const answer = await this.#request('presence:heartbeat', { patchState: { isLast: true } });
    if (!answer.ok) this.failures.push(`last update refused: ${JSON.stringify(answer)}`);
    const missing = new Set(others.map(({ connId }) => connId));
    let seen = 0;
    await withLimit(`${this.userId} sees all last updates`, (resolve) => {
      this.#onEvent = () => {
        for (; seen < this.events.length; seen += 1) {
          if (this.events[seen].state?.isLast) missing.delete(this.events[seen].connId);
        }
        if (missing.size === 0) resolve();
      };
      this.#onEvent();
    }).catch((error) => this.failures.push(error.message));
  }

  report() {
    const { roomId, userId, connId, transport, joined, events, failures } = this;
    const endedOn = this.socket.io.engine?.transport?.name;
    return { roomId, userId, connId, transport, endedOn, joined, events, failures };
  }

  #request(event, argument) {
    return this.socket.timeout(TIMEOUT_MS).emitWithAck(event, argument);
  }
}

/** Waits for a condition; says what was waited for if it takes too long. */
async function withLimit(what, start) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${TIMEOUT_MS} ms: ${what}`)), TIMEOUT_MS);
  });
  try {
    await Promise.race([new Promise(start), late]);
  } finally {
    clearTimeout(timer);
  }
}

async function main() {
  const { url, rooms, clientsPerRoom } = JSON.parse(process.argv[2]);
  const members = rooms.flatMap((roomId) => {
    return Array.from({ length: clientsPerRoom }, (_, index) => {
      const transport = Object.keys(TRANSPORTS)[index % 3];
      return new Member(url, { roomId, userId: `javascript-${transport}-${index}`, transport });
    });
  });
  const commands = {
    join: async () => {
      await Promise.all(members.map((member) => member.join()));
      return { joined: members.length };
    },
    update: async (count) => {
      const updates = members.flatMap((member) => Array.from({ length: count }, () => member.update()));
      await Promise.all(updates);
      return { updated: updates.length };
    },
    report: async () => {
      const of = (roomId) => members.filter((member) => member.roomId === roomId);
      await Promise.all(members.map((member) => member.finish(of(member.roomId))));
      return { clients: members.map((member) => member.report()) };
    },
  };
  for await (const line of createInterface(process.stdin)) {
    const [name, count] = line.split(' ');
    console.log(JSON.stringify(await commands[name](Number(count))));
  }
  for (const { socket } of members) socket.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
