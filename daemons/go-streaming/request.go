package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// payloadLimit is the maximum length of a payload in bytes. A longer one is refused.
const payloadLimit = 128 * 1024

// A request is the decoded payload of a handoff. Its three keys are optional.
type request struct {
	userID          int64
	prompt          string
	responseHeaders map[string]string
}

// errIncomplete reports that a payload is the beginning of a JSON object. On a stream socket the rest may
// still arrive.
var errIncomplete = errors.New("it is incomplete")

// parseRequest parses a payload. It ignores NULs and JSON white space at both ends. It returns
// errIncomplete if more bytes could complete the payload, and another error if they could not.
func parseRequest(payload []byte) (request, error) {
	payload = bytes.Trim(payload, "\x00 \t\r\n")
	switch {
	case len(payload) == 0:
		return request{}, nil
	case payload[0] != '{':
		return request{}, errors.New("it is not a JSON object")
	// Avoids a full parse for each piece of a payload that arrives in many pieces.
	case payload[len(payload)-1] != '}':
		return request{}, errIncomplete
	// encoding/json would replace such bytes.
	case !utf8.Valid(payload):
		return request{}, errors.New("it is not UTF-8")
	}
	// Not a struct, for which encoding/json would also accept keys in upper case.
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(payload, &keys); err != nil {
		return request{}, explain(payload, err)
	}
	return newRequest(keys)
}

// explain returns errIncomplete if the payload is the beginning of a JSON object, else err. Only the
// decoder tells both apart.
func explain(payload []byte, err error) error {
	var object json.RawMessage
	if errors.Is(json.NewDecoder(bytes.NewReader(payload)).Decode(&object), io.ErrUnexpectedEOF) {
		return errIncomplete
	}
	return err
}

// newRequest converts the values of the known keys.
func newRequest(keys map[string]json.RawMessage) (request, error) {
	var r request
	// Pointers, because encoding/json would turn null into an empty text.
	var headers map[string]*string
	err := errors.Join(
		convert(keys, "user_id", &r.userID),
		convert(keys, "prompt", &r.prompt),
		convert(keys, "response_headers", &headers),
	)
	if err != nil {
		return request{}, err
	}
	if len(headers) > 0 {
		r.responseHeaders = make(map[string]string, len(headers))
	}
	for name, value := range headers {
		if value == nil {
			return request{}, fmt.Errorf("response_headers: %q is null", name)
		}
		r.responseHeaders[name] = *value
	}
	return r, nil
}

// convert decodes the value of a key, unless the key is absent or null.
func convert(keys map[string]json.RawMessage, key string, to any) error {
	value, ok := keys[key]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(value, to); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
