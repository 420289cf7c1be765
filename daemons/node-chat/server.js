// The chat of Socket.IO's tutorial (socket.io/docs/v4/tutorial), with rooms and acknowledgements:
//
//   join (room), acknowledged with { ok, room }
//   chat message ({ user, n, text }), passed on to the room, then acknowledged with { ok }
'use strict';

const { createServer } = require('node:http');
const { Server } = require('socket.io');

const port = process.argv[2] ?? '3000';
const token = process.env.CHAT_TOKEN;

const server = createServer((request, response) => response.end('A chat server of Socket.IO.\n'));
const io = new Server(server);

if (token) {
  io.use((socket, next) => next(socket.handshake.auth.token === token ? undefined : new Error('unauthorized')));
}

io.on('connection', (socket) => {
  let joined;

  socket.on('join', (room, callback) => {
    if (typeof room !== 'string' || typeof callback !== 'function') return;
    joined = room;
    socket.join(room);
    callback({ ok: true, room });
  });

  socket.on('chat message', (message, callback) => {
    if (joined) io.to(joined).emit('chat message', message);
    if (typeof callback === 'function') callback({ ok: joined !== undefined });
  });
});

server.listen(Number(port), '127.0.0.1', () => console.error(`listening on http://127.0.0.1:${port}`));
process.once('SIGTERM', () => io.close(() => process.exit(0)));
