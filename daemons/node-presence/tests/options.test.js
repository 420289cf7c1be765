'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');

const options = require('../src/options.js');

test('a flag overrides a variable, and a variable overrides the default', () => {
  assert.deepEqual(options.parse(['--port', '1'], { PORT: '2', PRESENCE_TTL_MS: '500' }), {
    host: '127.0.0.1',
    port: 1,
    redis: '',
    ttlMs: 500,
    reaperIntervalMs: 3_000,
  });
});

for (const [args, part] of [
  [['--port', '65536'], '--port (PORT): "65536" is not a number from 0 to 65535'],
  [['--ttl-ms', '0'], '"0" is not a number from 1 to'],
  [['--ttl-ms', '1e3'], '"1e3" is not a number'],
  [['--redis', 'localhost'], 'is not an address such as redis://'],
  [['--colour'], "Unknown option '--colour'"],
]) {
  test(`${args.join(' ')} is refused with the remedy`, () => {
    assert.throws(
      () => options.parse(args, {}),
      (error) => error instanceof options.InvalidOption && error.message.includes(part),
    );
  });
}

test('the help names every variable', () => {
  for (const name of ['HOST', 'PORT', 'REDIS_URL', 'PRESENCE_TTL_MS', 'PRESENCE_REAPER_INTERVAL_MS']) {
    assert.ok(options.help().includes(name), name);
  }
});
