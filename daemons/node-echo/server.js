// Answers each message on a WebSocket with itself, and has a Socket.IO server beside that (/socket.io/), with any namespace:
//
//   join (room), acknowledged with { ok, id }
//   push (to, message), pushed as `pushed` ({ from, message }) to the `room` that was joined, all `others` in it, `everybody`, or
//     `everybody-else`, then acknowledged with { ok }
//   handshake, acknowledged with { auth, query, headers } of the connection
//   any other event, acknowledged with its arguments, or without a callback sent back
'use strict';
const { createServer } = require('node:http');
const { Server } = require('socket.io');
const { WebSocketServer } = require('ws');

const port = Number(process.argv[2] ?? '3000');
const http = createServer((request, response) => response.end('An echo over WebSocket and Socket.IO.\n'));

const plain = new WebSocketServer({ noServer: true });
plain.on('connection', (socket) => {
  socket.on('message', (message, isBinary) => socket.send(message, { binary: isBinary }));
  socket.on('error', () => socket.terminate());
});

function serve(socket) {
  let joined;
  const answers = {
    join(room) {
      joined = room;
      socket.join(room);
      return [{ ok: true, id: socket.id }];
    },
    push(to, message) {
      const receivers = {
        room: () => socket.nsp.to(joined),
        others: () => socket.to(joined),
        everybody: () => socket.nsp,
        'everybody-else': () => socket.broadcast,
      };
      receivers[to]?.().emit('pushed', { from: socket.id, message });
      return [{ ok: to in receivers }];
    },
    handshake() {
      const { auth, query, headers } = socket.handshake;
      return [{ auth, query, headers }];
    },
  };
  socket.onAny((name, ...args) => {
    const callback = typeof args.at(-1) === 'function' ? args.pop() : (...all) => socket.emit(name, ...all);
    callback(...(answers[name]?.(...args) ?? args));
  });
}

const io = new Server(http);
[io, io.of(/^\/.+/)].forEach((namespace) => namespace.on('connection', serve));

http.on('upgrade', (request, socket, head) => {
  if (request.url.startsWith('/socket.io/')) return;
  plain.handleUpgrade(request, socket, head, (client) => plain.emit('connection', client, request));
});
http.listen(port, '127.0.0.1', () => console.error(`listening on ws://127.0.0.1:${port}`));
process.once('SIGTERM', () => process.exit(0));
