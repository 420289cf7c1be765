package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// Client sends one request at a time to an issue daemon. It connects again after a timeout: the late answer would be taken
// for that of the next request.
type Client struct {
	Socket  string
	Actor   string
	Timeout time.Duration // for a request with its answer; 0 waits without end

	conn   net.Conn
	reader *bufio.Reader
	sent   uint64
}

// Refused is the answer to a request that failed.
type Refused struct {
	Code    string
	Message string
}

func (refused *Refused) Error() string { return refused.Code + ": " + refused.Message }

type request struct {
	Operation string `json:"operation"`
	Args      any    `json:"args"`
	RequestID uint64 `json:"request_id"`
	Actor     string `json:"actor"`
	Deadline  int64  `json:"deadline_ms,omitempty"`
	Key       string `json:"idempotency_key,omitempty"`
}

type answer struct {
	Success   bool            `json:"success"`
	RequestID uint64          `json:"request_id"`
	Data      json.RawMessage `json:"data"`
	Code      string          `json:"code"`
	Error     string          `json:"error"`
}

// Call performs an operation and stores its data in result, unless that is nil. A request with a key may be sent again
// after an error: the daemon performs it once.
func (client *Client) Call(operation string, args any, key string, result any) error {
	if err := client.connect(); err != nil {
		return err
	}
	client.sent++
	sent := request{operation, args, client.sent, client.Actor, 0, key}
	var deadline time.Time
	if client.Timeout > 0 {
		deadline = time.Now().Add(client.Timeout)
		sent.Deadline = deadline.UnixMilli()
	}
	got, err := client.exchange(&sent, deadline)
	if err != nil {
		client.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("no answer to %s within %v: %w", operation, client.Timeout, err)
		}
		return fmt.Errorf("%s: %w", operation, err)
	}
	if !got.Success {
		return &Refused{got.Code, got.Error}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(got.Data, result)
}

// Close ends the connection. The next call opens another one.
func (client *Client) Close() {
	if client.conn != nil {
		client.conn.Close()
		client.conn = nil
	}
}

// connect opens a connection to a daemon that this user can trust.
func (client *Client) connect() error {
	if client.conn != nil {
		return nil
	}
	if err := checkFolder(client.Socket); err != nil {
		return err
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: client.Socket, Net: "unix"})
	if err != nil {
		return err
	}
	if err := checkPeer(conn); err != nil {
		conn.Close()
		return fmt.Errorf("%s: %w", client.Socket, err)
	}
	client.conn, client.reader = conn, bufio.NewReader(conn)
	return nil
}

func (client *Client) exchange(sent *request, deadline time.Time) (*answer, error) {
	if err := client.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	line, err := json.Marshal(sent)
	if err != nil {
		return nil, err
	}
	if _, err = client.conn.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	if line, err = client.reader.ReadBytes('\n'); err != nil {
		return nil, err
	}
	var got answer
	if err = json.Unmarshal(line, &got); err != nil {
		return nil, err
	}
	if got.RequestID != sent.RequestID {
		return nil, fmt.Errorf("the answer is that of request %d", got.RequestID)
	}
	return &got, nil
}
