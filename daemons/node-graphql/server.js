// A chat over GraphQL: `send` passes a message on to the subscriptions of its room.
'use strict';

const { EventEmitter, on } = require('node:events');
const { buildSchema } = require('graphql');
const { useServer } = require('graphql-ws/use/ws');
const { WebSocketServer } = require('ws');

const schema = buildSchema(`
  type Message { user: String! n: Int! text: String }
  type Query { ready: Boolean! }
  type Mutation { send(room: String!, user: String!, n: Int!, text: String): Boolean! }
  type Subscription { message(room: String!): Message! }
`);

const rooms = new EventEmitter().setMaxListeners(0);

const roots = {
  query: { ready: true },
  mutation: {
    send: ({ room, ...message }) => rooms.emit(room, message),
  },
  subscription: {
    message: ({ room }, { ended }) => {
      // Listens from here on, and not from the first message that is asked for.
      const messages = on(rooms, room, { signal: ended.signal });
      return (async function* () {
        try {
          for await (const [message] of messages) yield { message };
        } catch (error) {
          if (error.name !== 'AbortError') throw error;
        }
      })();
    },
  },
};

const port = Number(process.argv[2] ?? '3000');
const server = new WebSocketServer({ host: '127.0.0.1', port, path: '/graphql' });
useServer(
  {
    schema,
    roots,
    onConnect: ({ extra }) => {
      extra.ended = new AbortController();
    },
    context: ({ extra }) => ({ ended: extra.ended }),
    onDisconnect: ({ extra }) => extra.ended?.abort(),
  },
  server,
);
server.on('listening', () => console.error(`listening on ws://127.0.0.1:${port}/graphql`));
process.once('SIGTERM', () => process.exit(0));
