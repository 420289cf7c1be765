// Command go-issue-client lets agents create issues in an issue daemon, checks that all of them are there, and prints the
// figures as JSON: a client of the protocol in another language than the daemon's.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

type figures struct {
	Creates   int     `json:"creates"`
	PerSecond float64 `json:"per_second"`
	P50us     float64 `json:"p50_us"`
	P99us     float64 `json:"p99_us"`
}

func main() {
	socket := flag.String("socket", "issues.sock", "the socket of the daemon")
	agents := flag.Int("agents", 8, "agents, each with a connection")
	ops := flag.Int("ops", 100, "creates of each agent")
	timeout := flag.Duration("timeout", 30*time.Second, "time for each answer")
	flag.Parse()
	found, err := run(*socket, *agents, *ops, *timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(found)
}

type issue struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// run creates the issues, and compares them with those that the daemon lists.
func run(socket string, agents, ops int, timeout time.Duration) (*figures, error) {
	type outcome struct {
		issues []issue
		times  []time.Duration
		err    error
	}
	outcomes := make(chan outcome)
	begun := time.Now()
	for agent := range agents {
		go func() {
			client := Client{Socket: socket, Actor: fmt.Sprintf("go-%d", agent), Timeout: timeout}
			defer client.Close()
			var done outcome
			for op := 0; op < ops && done.err == nil; op++ {
				title := fmt.Sprintf("issue %d of agent %d", op, agent)
				var created issue
				at := time.Now()
				done.err = client.Call("create", map[string]any{"title": title}, fmt.Sprintf("%d-%d", agent, op), &created)
				done.times = append(done.times, time.Since(at))
				if done.err == nil && created.Title != title {
					done.err = fmt.Errorf("%q was created as %q", title, created.Title)
				}
				done.issues = append(done.issues, created)
			}
			outcomes <- done
		}()
	}
	created := map[string]string{}
	var times []time.Duration
	var err error
	for range agents {
		done := <-outcomes
		if done.err != nil {
			err = done.err
		}
		times = append(times, done.times...)
		for _, one := range done.issues {
			created[one.ID] = one.Title
		}
	}
	seconds := time.Since(begun).Seconds()
	if err != nil {
		return nil, err
	}
	if len(created) != agents*ops {
		return nil, fmt.Errorf("%d ids for %d issues", len(created), agents*ops)
	}
	client := Client{Socket: socket, Actor: "go", Timeout: timeout}
	defer client.Close()
	args := map[string]any{}
	for more := true; more; {
		var page struct {
			Issues []issue
			Next   string
		}
		if err := client.Call("list", args, "", &page); err != nil {
			return nil, err
		}
		for _, one := range page.Issues {
			if title, ok := created[one.ID]; ok && title == one.Title {
				delete(created, one.ID)
			}
		}
		args["after"], more = page.Next, page.Next != ""
	}
	if len(created) > 0 {
		return nil, fmt.Errorf("%d issues are not in the list", len(created))
	}
	slices.Sort(times)
	at := func(share float64) float64 {
		return float64(times[int(float64(len(times)-1)*share)].Nanoseconds()) / 1000
	}
	return &figures{len(times), float64(len(times)) / seconds, at(0.5), at(0.99)}, nil
}
