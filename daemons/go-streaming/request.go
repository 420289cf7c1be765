package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"unicode/utf8"
)

// payloadLimit is the maximum length of a payload in bytes. A longer one is refused.
const payloadLimit = 128 * 1024

// depthLimit is the maximum depth of objects and lists, the payload itself included.
const depthLimit = 127

var (
	// escapes matches one escape, or a surrogate pair; its group is half of one.
	escapes = regexp.MustCompile(`(?s)\\(?:u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|(u[dD][89a-fA-F])|.)`)
	// stringsAndBrackets matches one string, which may have no end, or one bracket.
	stringsAndBrackets = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"?|[\[\]{}]`)
)

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
	// encoding/json would replace such bytes and escapes.
	case !utf8.Valid(payload):
		return request{}, errors.New("it is not UTF-8")
	case hasHalfPair(payload):
		return request{}, errors.New("an escape is half a surrogate pair")
	case isTooDeep(payload):
		return request{}, errors.New("it is nested too deeply")
	}
	// Not a struct, for which encoding/json would also accept keys in upper case.
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(payload, &keys); err != nil {
		return request{}, explain(payload, err)
	}
	return newRequest(keys)
}

// hasHalfPair reports whether an escape is half a surrogate pair.
func hasHalfPair(payload []byte) bool {
	if !bytes.Contains(payload, []byte(`\u`)) {
		return false
	}
	isHalf := func(match [][]byte) bool { return match[1] != nil }
	return slices.ContainsFunc(escapes.FindAllSubmatch(payload, -1), isHalf)
}

// isTooDeep reports whether objects and lists are nested more deeply than depthLimit.
func isTooDeep(payload []byte) bool {
	if bytes.Count(payload, []byte("{"))+bytes.Count(payload, []byte("[")) <= depthLimit {
		return false
	}
	depth := 0
	for _, part := range stringsAndBrackets.FindAll(payload, -1) {
		switch part[0] {
		case '{', '[':
			depth++
		case '}', ']':
			depth = max(depth-1, 0)
		}
		if depth > depthLimit {
			return true
		}
	}
	return false
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
	// Raw, because of equal names the last one counts, whatever the others are.
	var headers map[string]json.RawMessage
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
	for name, raw := range headers {
		var value string
		// encoding/json would turn null into an empty text.
		if raw[0] != '"' {
			return request{}, fmt.Errorf("response_headers: %q is not a string", name)
		}
		if err := json.Unmarshal(raw, &value); err != nil {
			return request{}, fmt.Errorf("response_headers: %q: %w", name, err)
		}
		r.responseHeaders[name] = value
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
