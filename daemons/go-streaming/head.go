package main

import (
	"maps"
	"slices"
	"strings"
)

// head begins every answer.
const head = "HTTP/1.1 200 OK\r\n" +
	"Content-Type: text/event-stream\r\n" +
	"Cache-Control: no-cache\r\n" +
	"Connection: close\r\n" +
	"X-Accel-Buffering: no\r\n" +
	"\r\n"

// refusal is the whole answer to a handoff above the limit.
const refusal = "HTTP/1.1 503 Service Unavailable\r\n" +
	"Retry-After: 1\r\n" +
	"Connection: close\r\n" +
	"Content-Length: 0\r\n" +
	"\r\n"

// reservedNames are the headers that the daemon sets itself, and those that would change the meaning of
// the body.
var reservedNames = []string{
	"content-type", "cache-control", "connection", "x-accel-buffering",
	"transfer-encoding", "content-length", "content-encoding",
}

// headWith returns the head with the permitted headers added, sorted by the bytes of their names.
func headWith(headers map[string]string) string {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if isAllowed(name, headers[name]) {
			lines.WriteString(name + ": " + headers[name] + "\r\n")
		}
	}
	return strings.TrimSuffix(head, "\r\n") + lines.String() + "\r\n"
}

func isAllowed(name, value string) bool {
	isReserved := func(reserved string) bool { return strings.EqualFold(name, reserved) }
	return isToken(name) && !slices.ContainsFunc(reservedNames, isReserved) &&
		!strings.ContainsFunc(value, isForbidden)
}

// isForbidden reports whether r must not occur in a header value: a control character other than a tab.
func isForbidden(r rune) bool {
	return r < ' ' && r != '\t' || r == 0x7f
}

// isToken reports whether name is a token as defined in RFC 9110 §5.6.2.
func isToken(name string) bool {
	isOther := func(r rune) bool {
		isLetter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		isDigit := '0' <= r && r <= '9'
		return !isLetter && !isDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	return name != "" && !strings.ContainsFunc(name, isOther)
}
