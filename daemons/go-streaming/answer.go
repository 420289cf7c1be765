package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	eventStart = `data: {"content":"`
	eventEnd   = "\"}\n\n"
	done       = "data: [DONE]\n\n"
	greeting   = "Hello from the streaming daemon. Prompt: "

	// The number of bytes of the prompt that the greeting repeats.
	promptExcerpt = 50
)

// lines are the texts of the events between the user ID and the end mark.
var lines = []string{
	"This answer comes from the mock backend.",
	"It computes nothing: waiting is its only work.",
	"Your socket was accepted by another process.",
	"It travelled here as a control message.",
	"From now on this daemon alone writes to it.",
	"Each line that you read is one event.",
	"Each event is one write to your socket.",
	"Between two events passes one fixed delay.",
	"Nobody is asked for a token while you wait.",
	"An idle stream should cost a few bytes.",
	"A thousand of them should cost no more each.",
	"If you stop reading, only you will wait.",
	"If you go away, your place becomes free.",
	"The next event is the last one with text.",
	"After it comes the mark that ends it all.",
}

// An answer holds what all streams of this process share: the number of events, the delay between
// them, and their text. A stream is messages + 1 writes: the head is write 0 and event k is write k.
type answer struct {
	messages int
	delay    time.Duration
	lines    [][]byte
	last     []byte
}

// plainHead is the head of a stream without additional headers. Nearly all streams share it.
var plainHead = []byte(head)

// An opening is the part of an answer that depends on the request: writes 0, 1 and 2.
type opening [3][]byte

// newAnswer renders the texts that all streams share.
func newAnswer(messages int, delay time.Duration) *answer {
	a := &answer{messages: messages, delay: delay, last: []byte(event("[DONE-CONTENT]") + done)}
	for _, line := range lines {
		a.lines = append(a.lines, []byte(event(line)))
	}
	return a
}

// opening renders the writes that depend on the request.
func (a *answer) opening(r request) *opening {
	first := plainHead
	if len(r.responseHeaders) > 0 {
		first = []byte(headWith(r.responseHeaders))
	}
	if a.messages == 0 {
		return &opening{slices.Concat(first, []byte(done))}
	}
	user := event("User ID: " + strconv.FormatInt(r.userID, 10))
	return &opening{first, greet(r.prompt), []byte(user)}
}

// bytes returns the bytes of write number n. The opening may be nil if n is greater than 2.
func (a *answer) bytes(n int, o *opening) []byte {
	switch {
	case n == a.messages && n > 0:
		return a.last
	case n < len(o):
		return o[n]
	default:
		return a.lines[(n-len(o))%len(a.lines)]
	}
}

// offset returns the time between the head and the due time of write number n.
func (a *answer) offset(n int) time.Duration {
	return time.Duration(max(n-1, 0)) * a.delay
}

// event returns one server-sent event. The content must not need escaping.
func event(content string) string {
	return eventStart + content + eventEnd
}

// greet returns the first event, which repeats the beginning of the prompt.
func greet(prompt string) []byte {
	end := excerptEnd(prompt)
	e := make([]byte, 0, 128)
	e = append(e, eventStart+greeting...)
	e = appendEscaped(e, prompt[:end])
	if end < len(prompt) {
		e = append(e, "..."...)
	}
	return append(e, eventEnd...)
}

// excerptEnd returns the length of the longest prefix of prompt that has at most promptExcerpt bytes
// and does not split a character.
func excerptEnd(prompt string) int {
	if len(prompt) <= promptExcerpt {
		return len(prompt)
	}
	end := promptExcerpt
	for !utf8.RuneStart(prompt[end]) {
		end--
	}
	return end
}

// appendEscaped appends text, escaped for a JSON string. encoding/json would also escape U+2028 and
// U+2029, which the other daemons do not.
func appendEscaped(to []byte, text string) []byte {
	for _, b := range []byte(text) {
		switch {
		case b == '"' || b == '\\':
			to = append(to, '\\', b)
		case b >= ' ':
			to = append(to, b)
		default:
			to = append(to, escapeControl(b)...)
		}
	}
	return to
}

func escapeControl(b byte) string {
	switch b {
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	default:
		return fmt.Sprintf(`\u%04x`, b)
	}
}
