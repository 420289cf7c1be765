// Reads the options: flags, or else the environment.
'use strict';

const { parseArgs } = require('node:util');

const MAX_TIMER_MS = 2 ** 31 - 1;

/** Every option with its variable, its default, and the text that --help shows. */
const OPTIONS = {
  host: { variable: 'HOST', value: '127.0.0.1', help: 'Listens on this address' },
  port: { variable: 'PORT', value: '3000', max: 65_535, help: 'Listens on this port; 0 takes a free one' },
  redis: { variable: 'REDIS_URL', value: '', help: 'Shares rooms with other nodes over this Redis, redis://host:port' },
  'ttl-ms': {
    variable: 'PRESENCE_TTL_MS',
    value: '30000',
    min: 1,
    max: MAX_TIMER_MS,
    help: 'Removes a member after this many milliseconds without a heartbeat',
  },
  'reaper-interval-ms': {
    variable: 'PRESENCE_REAPER_INTERVAL_MS',
    value: '3000',
    min: 1,
    max: MAX_TIMER_MS,
    help: 'Looks for such members every this many milliseconds',
  },
};

/** An option that cannot be used; the message names it and the remedy. */
class InvalidOption extends Error {}

/** Returns the settings, or `{help: true}` or `{version: true}` if one of these was asked for. */
function parse(args, environment) {
  const flags = parseFlags(args);
  if (flags.help || flags.version) return { help: flags.help, version: flags.version };
  const value = (name) => flags[name] ?? (environment[OPTIONS[name].variable] || OPTIONS[name].value);
  return {
    host: value('host'),
    port: integer('port', value('port')),
    redis: redisUrl(value('redis')),
    ttlMs: integer('ttl-ms', value('ttl-ms')),
    reaperIntervalMs: integer('reaper-interval-ms', value('reaper-interval-ms')),
  };
}

function parseFlags(args) {
  const options = { help: { type: 'boolean', short: 'h' }, version: { type: 'boolean' } };
  for (const name of Object.keys(OPTIONS)) options[name] = { type: 'string' };
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new InvalidOption(`${error.message}; see --help`);
  }
}

function integer(name, text) {
  const { variable, min = 0, max } = OPTIONS[name];
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < min || number > max) {
    throw new InvalidOption(`--${name} (${variable}): "${text}" is not a number from ${min} to ${max}`);
  }
  return number;
}

function redisUrl(text) {
  if (text !== '' && !/^rediss?:\/\/./.test(text)) {
    throw new InvalidOption(`--redis (REDIS_URL): "${text}" is not an address such as redis://127.0.0.1:6379`);
  }
  return text;
}

function help() {
  const lines = Object.entries(OPTIONS).map(([name, { variable, value, help: text }]) => {
    const shown = value === '' ? 'none' : value;
    return `  ${`--${name}`.padEnd(22)} ${text} [${variable}; default: ${shown}]`;
  });
  return ['Serves the presence protocol over Socket.IO.', '', ...lines].join('\n');
}

module.exports = { InvalidOption, help, parse };
