// Answers each message on a WebSocket with itself.
'use strict';

const { WebSocketServer } = require('ws');

const port = Number(process.argv[2] ?? '3000');
const server = new WebSocketServer({ host: '127.0.0.1', port });

server.on('connection', (socket) => {
  socket.on('message', (message, isBinary) => socket.send(message, { binary: isBinary }));
  socket.on('error', () => socket.terminate());
});
server.on('listening', () => console.error(`listening on ws://127.0.0.1:${port}`));
process.once('SIGTERM', () => process.exit(0));
