// Checks what clients send. Types and ranges are those of the protocol.
'use strict';

const MAX_NAME_BYTES = 200;

/** A request that is refused; `code` is one of the protocol's codes. */
class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Returns `{roomId, userId, state}`. */
function parseJoin(request) {
  const { roomId, userId, state } = object('the argument', request);
  return {
    roomId: name('roomId', roomId),
    userId: name('userId', userId),
    state: state === undefined ? {} : object('state', state),
  };
}

/** Returns `{patch, epoch}`; each is undefined if the request has none. */
function parseHeartbeat(request) {
  const { patchState, epoch } = object('the argument', request ?? {});
  if (epoch !== undefined && !(Number.isSafeInteger(epoch) && epoch >= 0)) {
    throw new Refusal('invalid_argument', 'epoch is not an integer of at least 0');
  }
  return { patch: patchState === undefined ? undefined : object('patchState', patchState), epoch };
}

function object(field, value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Refusal('invalid_argument', `${field} is not an object`);
  }
  return value;
}

function name(field, value) {
  if (typeof value !== 'string') throw new Refusal('invalid_argument', `${field} is not a string`);
  const length = Buffer.byteLength(value);
  if (length < 1 || length > MAX_NAME_BYTES) {
    throw new Refusal('invalid_argument', `${field} has ${length} bytes: 1 to ${MAX_NAME_BYTES} are allowed`);
  }
  return value;
}

module.exports = { Refusal, parseHeartbeat, parseJoin };
