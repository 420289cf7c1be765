// Serves FILES/www with Node's own modules on three ports of 127.0.0.1: HTTP/1.1, HTTPS with HTTP/1.1 and HTTP/2, and
// HTTP/2 with prior knowledge. HTTP_WORKERS processes share the ports. Ends on SIGTERM, SIGINT or SIGHUP.
'use strict';

const cluster = require('node:cluster');
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const path = require('node:path');

const { FILES, HTTP_PORT, HTTPS_PORT, H2C_PORT, HTTP_WORKERS } = process.env;
const KEEP_ALIVE_MS = 60_000;

if (cluster.isPrimary) {
  runPrimary();
} else {
  runWorker();
}

/** Starts the workers. If one ends unexpectedly, all are stopped: a measurement with fewer workers would be wrong. */
function runPrimary() {
  for (let started = 0; started < Number(HTTP_WORKERS); started += 1) cluster.fork();
  let isStopping = false;
  const stopWorkers = () => {
    for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGTERM');
  };
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    process.on(signal, () => {
      isStopping = true;
      stopWorkers();
    });
  }
  cluster.on('exit', (worker, code, signal) => {
    if (!isStopping) {
      console.error(`worker ${worker.process.pid} ended unexpectedly: ${signal ?? `exit code ${code}`}`);
      process.exitCode = 1;
      stopWorkers();
    }
  });
}

/** Serves the files in a worker process. */
function runWorker() {
  process.on('SIGTERM', () => process.exit(0));
  // A terminal sends these to all processes; the first one then ends the others.
  for (const signal of ['SIGINT', 'SIGHUP']) process.on(signal, () => {});
  const root = path.join(FILES, 'www');
  // Only the file names found here are served, so that no path leads out of the folder.
  const files = new Map(fs.readdirSync(root).map((name) => [`/${name}`, path.join(root, name)]));
  const answer = (request, response) => send(files.get(request.url), response);
  const tls = (name) => fs.readFileSync(path.join(FILES, 'tls', name));

  const plain = http.createServer(answer);
  plain.keepAliveTimeout = KEEP_ALIVE_MS;
  listen(plain, HTTP_PORT);
  const both = http2.createSecureServer(
    { allowHTTP1: true, cert: tls('cert.pem'), key: tls('key.pem') },
    answer,
  );
  both.keepAliveTimeout = KEEP_ALIVE_MS;
  listen(both, HTTPS_PORT);
  listen(http2.createServer(answer), H2C_PORT);
}

function listen(server, port) {
  server.listen({ host: '127.0.0.1', port: Number(port), backlog: 65_535 });
}

/** Reads the file for each request, as the other servers do, without blocking the process. */
function send(file, response) {
  if (file === undefined) {
    response.writeHead(404, { 'Content-Type': 'text/plain', 'Content-Length': 0 });
    response.end();
    return;
  }
  fs.readFile(file, (error, body) => {
    if (error) {
      console.error(error.message);
      response.writeHead(500, { 'Content-Length': 0 });
      response.end();
      return;
    }
    response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': body.length });
    response.end(body);
  });
}
