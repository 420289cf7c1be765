package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A goldenCase is a payload and the answer that all streaming daemons give to it.
type goldenCase struct {
	Name       string
	Payload    string
	PayloadHex string `json:"payload_hex"`
	Messages   int
	Invalid    bool
	Answer     []string
}

func goldenCases(t *testing.T) []goldenCase {
	t.Helper()
	text, err := os.ReadFile("../fdpass.golden.json")
	must(t, err)
	var golden struct{ Cases []goldenCase }
	must(t, json.Unmarshal(text, &golden))
	if len(golden.Cases) == 0 {
		t.Fatal("the transcript has no cases")
	}
	for i, c := range golden.Cases {
		if c.PayloadHex != "" {
			payload, err := hex.DecodeString(c.PayloadHex)
			must(t, err)
			golden.Cases[i].Payload = string(payload)
		}
	}
	return golden.Cases
}

func TestEveryCaseOfTheTranscriptIsAnsweredByteForByteAndCountedIfInvalid(t *testing.T) {
	onBothTypes(t, func(t *testing.T, kind func(*config)) {
		daemons, invalid := map[int]*subject{}, map[int]int{}
		for _, c := range goldenCases(t) {
			if daemons[c.Messages] == nil {
				daemons[c.Messages] = start(t, func(cfg *config) {
					kind(cfg)
					cfg.messageCount = c.Messages
					cfg.messageDelay = time.Nanosecond
				})
			}
			d := daemons[c.Messages]
			if answer := d.answerTo(c.Payload); answer != strings.Join(c.Answer, "") {
				t.Errorf("%s: %q", c.Name, answer)
			}
			if c.Invalid {
				invalid[c.Messages]++
			}
			d.expect(handoffErrors(reasonInvalidJSON, invalid[c.Messages]))
		}
	})
}

func TestEachWriteOfTheTranscriptIsOneWrite(t *testing.T) {
	for _, c := range goldenCases(t) {
		r, err := parseRequest([]byte(c.Payload))
		if (err != nil) != c.Invalid {
			t.Errorf("%s: %v", c.Name, err)
		}
		if err != nil {
			r = request{}
		}
		a := newAnswer(c.Messages, 0)
		o := a.opening(r)
		if len(c.Answer) != c.Messages+1 {
			t.Fatalf("%s: %d writes", c.Name, len(c.Answer))
		}
		for n, expected := range c.Answer {
			if got := string(a.bytes(n, o)); got != expected {
				t.Errorf("%s, write %d: %q", c.Name, n, got)
			}
		}
	}
}

func TestPayloadsBeyondTheTranscript(t *testing.T) {
	for payload, valid := range map[string]bool{
		`{"response_headers":{"A":"\ud8"}}`:              false,
		`{"prompt":"` + "\xff" + `"}`:                    false,
		`{"user_id":1}}`:                                 false,
		`{"user_id":1}]}`:                                false,
		`{"prompt":"\\ud800 \uFFFD"}`:                    true,
		`{"x":1,"x":2}`:                                  true,
		`{"x" : [ "}" , {"y":"\""} ] , "prompt" : "a" }`: true,
	} {
		if _, err := parseRequest([]byte(payload)); (err == nil) != valid {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

func TestEveryProperPrefixOfAnObjectIsIncomplete(t *testing.T) {
	whole := `{"prompt":"a } b","response_headers":{"X":"}"},"user_id":1}`
	for end := 1; end < len(whole); end++ {
		if _, err := parseRequest([]byte(whole[:end])); !errors.Is(err, errIncomplete) {
			t.Errorf("%s: %v", whole[:end], err)
		}
	}
}

func TestEventsArriveOneByOneAndNoneIsEarly(t *testing.T) {
	const delay = 20 * time.Millisecond
	d := start(t, func(c *config) { c.messageDelay = delay })
	begin := time.Now()
	client := d.hand(payload)
	must(t, client.SetReadDeadline(time.Now().Add(testTimeout)))
	buffer, all, reads := make([]byte, 4096), "", 0
	for !strings.HasSuffix(all, "data: [DONE]\n\n") {
		n, err := client.Read(buffer)
		must(t, err)
		all += string(buffer[:n])
		reads++
		events := strings.Count(all, `"content"`)
		if due := time.Duration(max(events-1, 0)) * delay; time.Since(begin) < due {
			t.Fatalf("event %d was early", events)
		}
	}
	// 18 or 19, unless the test was suspended for many delays.
	if len(all) != 1226 || reads <= 6 {
		t.Errorf("%d bytes in %d reads", len(all), reads)
	}
}

func TestManyStreamsShareTicksAndNoneIsEarly(t *testing.T) {
	c := newClock(10 * time.Millisecond)
	for n := range 20 {
		open := int64(1 + 1000*(n%2))
		due := time.Now().Add(3 * time.Millisecond)
		must(t, c.wait(due, open))
		if time.Now().Before(due) {
			t.Errorf("early with %d streams", open)
		}
	}
	c.stop()
	if err := c.wait(time.Now().Add(time.Hour), 1); !errors.Is(err, reasonCanceled) {
		t.Errorf("a stopped clock waits: %v", err)
	}
}

func FuzzTheGreetingOfAnyPromptIsJSONWithThatPrompt(f *testing.F) {
	f.Add("say \"no\" \\ \x00\x1f\x7f\u2028 <&> é😀")
	f.Fuzz(func(t *testing.T, prompt string) {
		if !utf8.ValidString(prompt) {
			t.Skip()
		}
		event := string(greet(prompt))
		var decoded struct{ Content string }
		must(t, json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimSpace(event), "data: ")), &decoded))
		content := strings.TrimPrefix(decoded.Content, greeting)
		if len(prompt) > promptExcerpt {
			content = strings.TrimSuffix(content, "...")
		} else if content != prompt {
			t.Errorf("%q became %q", prompt, content)
		}
		if !strings.HasPrefix(prompt, content) {
			t.Errorf("%q became %q", prompt, content)
		}
	})
}
