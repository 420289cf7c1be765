package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
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

// pairedSurrogates matches a JSON string whose surrogate escapes are all paired. encoding/json replaces
// a lone surrogate with U+FFFD.
var pairedSurrogates = regexp.MustCompile(
	`^([^\\]|\\[^u]|\\u([^dD]|[dD][0-7])|\\u[dD][89abAB]..\\u[dD][c-fC-F])*$`)

// parseRequest parses a payload. It ignores NULs and JSON white space at both ends. It returns
// errIncomplete if more bytes could complete the payload, and another error if they could not.
//
// The payload is not decoded into a struct: encoding/json would accept keys in upper case, duplicate
// keys, and bytes that are not UTF-8.
func parseRequest(payload []byte) (request, error) {
	var r request
	payload = bytes.Trim(payload, "\x00 \t\r\n")
	switch {
	case len(payload) == 0:
		return r, nil
	case payload[0] != '{':
		return r, errors.New("it is not a JSON object")
	// Avoids a full parse for each piece of a payload that arrives in many pieces.
	case payload[len(payload)-1] != '}':
		return r, errIncomplete
	case !json.Valid(payload):
		return r, explain(payload)
	}
	members, err := scanMembers(payload)
	if err != nil {
		return r, err
	}
	return r, r.fill(members)
}

// explain returns the error of an object that is not valid JSON.
func explain(payload []byte) error {
	var value json.RawMessage
	switch err := json.NewDecoder(bytes.NewReader(payload)).Decode(&value); {
	case err == nil:
		return errors.New("there is data after the object")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errIncomplete
	default:
		return err
	}
}

// fill sets the fields from the known keys.
func (r *request) fill(members []member) error {
	seen := map[string]bool{}
	for _, m := range members {
		var err error
		if seen[m.name] {
			return fmt.Errorf("%s: the key occurs twice", m.name)
		}
		switch m.name {
		case "user_id":
			err = optional(m.value, &r.userID, integer)
		case "prompt":
			err = optional(m.value, &r.prompt, text)
		case "response_headers":
			err = optional(m.value, &r.responseHeaders, texts)
		default:
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		seen[m.name] = true
	}
	return nil
}

// optional converts a value, unless it is null.
func optional[T any](value []byte, to *T, convert func([]byte) (T, error)) error {
	if string(value) == "null" {
		return nil
	}
	converted, err := convert(value)
	if err == nil {
		*to = converted
	}
	return err
}

func integer(value []byte) (int64, error) {
	number, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, errors.New("it is not a 64-bit integer")
	}
	return number, nil
}

func text(value []byte) (string, error) {
	var decoded string
	switch {
	case value[0] != '"':
		return "", errors.New("it is not a string")
	case !utf8.Valid(value):
		return "", errors.New("it is not UTF-8")
	case !bytes.ContainsRune(value, '\\'):
		return string(value[1 : len(value)-1]), nil
	case !pairedSurrogates.Match(value):
		return "", errors.New("it contains a lone surrogate")
	}
	err := json.Unmarshal(value, &decoded)
	return decoded, err
}

func texts(value []byte) (map[string]string, error) {
	if value[0] != '{' {
		return nil, errors.New("it is not an object")
	}
	members, err := scanMembers(value)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string, len(members))
	for _, m := range members {
		if all[m.name], err = text(m.value); err != nil {
			return nil, fmt.Errorf("%q: %w", m.name, err)
		}
	}
	return all, nil
}
