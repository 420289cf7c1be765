// Serves the presence protocol over Socket.IO until SIGTERM, SIGINT or SIGHUP.
'use strict';

const options = require('./options.js');

async function main() {
  const settings = options.parse(process.argv.slice(2), process.env);
  if (settings.help) return console.log(options.help());
  if (settings.version) return console.log(version());
  const { start } = require('./server.js');
  const server = await start(settings);
  console.error(`listening on http://${settings.host}:${server.port}`);
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    // A second signal ends the process at once.
    process.once(signal, () => server.close().then(() => process.exit(0), fail));
  }
}

function version() {
  const own = require('../package.json').version;
  const socketIo = require('socket.io/package.json').version;
  return `node-presence ${own} (socket.io ${socketIo}, Node.js ${process.versions.node})`;
}

function fail(error) {
  console.error(`node-presence: ${error.message}`);
  process.exit(error instanceof options.InvalidOption ? 2 : 1);
}

main().catch(fail);
