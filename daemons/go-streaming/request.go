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

// A payload may be this long; a longer one is refused.
const payloadLimit = 128 * 1024

// A request is what the payload of a handoff asks for: three keys, all optional.
type request struct {
	userID          int64
	prompt          string
	responseHeaders map[string]string
}

// errBeginning says that a payload is the beginning of a JSON object. On a stream socket the rest
// may be on its way.
var errBeginning = errors.New("it ends in the middle")

// pairedSurrogates matches a JSON string in which each escape of half a character is followed by the
// other half. encoding/json puts U+FFFD in the place of one that is alone.
var pairedSurrogates = regexp.MustCompile(
	`^([^\\]|\\[^u]|\\u([^dD]|[dD][0-7])|\\u[dD][89abAB]..\\u[dD][c-fC-F])*$`)

// parseRequest parses a payload, without the NULs at both of its ends and the white space that JSON
// allows there. What no further byte could turn into a request is an error other than errBeginning.
//
// The payload is not decoded into a struct: encoding/json would take keys in any case, the last of
// several equal ones, and bytes that are no UTF-8.
func parseRequest(payload []byte) (request, error) {
	var r request
	payload = bytes.Trim(payload, "\x00 \t\r\n")
	switch {
	case len(payload) == 0:
		return r, nil
	case payload[0] != '{':
		return r, errors.New("it is not a JSON object")
	// Spares a full parse for each piece of a payload that arrives in many.
	case payload[len(payload)-1] != '}':
		return r, errBeginning
	case !json.Valid(payload):
		return r, explain(payload)
	}
	members, err := membersOf(payload)
	if err != nil {
		return r, err
	}
	return r, r.fill(members)
}

// explain says what is wrong with an object that is no valid JSON.
func explain(payload []byte) error {
	var value json.RawMessage
	switch err := json.NewDecoder(bytes.NewReader(payload)).Decode(&value); {
	case err == nil:
		return errors.New("something follows the object")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errBeginning
	default:
		return err
	}
}

// fill takes over the known keys.
func (r *request) fill(members []member) error {
	seen := map[string]bool{}
	for _, m := range members {
		var err error
		if seen[m.name] {
			return fmt.Errorf("%s stands there twice", m.name)
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

// optional converts a value that is not null.
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
		return 0, errors.New("it is no integer of 64 bits")
	}
	return number, nil
}

func text(value []byte) (string, error) {
	var decoded string
	switch {
	case value[0] != '"':
		return "", errors.New("it is no string")
	case !utf8.Valid(value):
		return "", errors.New("it is not UTF-8")
	case !bytes.ContainsRune(value, '\\'):
		return string(value[1 : len(value)-1]), nil
	case !pairedSurrogates.Match(value):
		return "", errors.New("it contains half a character")
	}
	err := json.Unmarshal(value, &decoded)
	return decoded, err
}

func texts(value []byte) (map[string]string, error) {
	if value[0] != '{' {
		return nil, errors.New("it is no object")
	}
	members, err := membersOf(value)
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
