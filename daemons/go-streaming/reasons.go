package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// A reason says what was wrong with a handoff or a stream; its text is the label in the metrics.
type reason string

const (
	reasonTimeout      reason = "timeout"
	reasonCanceled     reason = "canceled"
	reasonDisconnected reason = "client_disconnected"
	reasonNetwork      reason = "network"
	reasonOther        reason = "other"

	// Of handoffs alone.
	reasonEmpty            reason = "empty"
	reasonTooLarge         reason = "too_large"
	reasonTruncated        reason = "truncated"
	reasonNoDescriptor     reason = "no_descriptor"
	reasonNotAStreamSocket reason = "not_a_stream_socket"
	reasonOutOfDescriptors reason = "out_of_descriptors"

	// Of handoffs that bring a stream all the same.
	reasonInvalidJSON        reason = "invalid_json"
	reasonSurplusDescriptors reason = "surplus_descriptors"
)

var streamReasons = []reason{
	reasonTimeout, reasonCanceled, reasonDisconnected, reasonNetwork, reasonOther,
}

var handoffReasons = append([]reason{
	reasonEmpty, reasonTooLarge, reasonTruncated, reasonNoDescriptor, reasonNotAStreamSocket,
	reasonOutOfDescriptors, reasonInvalidJSON, reasonSurplusDescriptors,
}, streamReasons...)

// explanations are what the log says, besides the label, where that helps.
var explanations = map[reason]string{
	reasonTimeout:            "the payload did not arrive within the receive timeout",
	reasonCanceled:           "the daemon stopped before the payload arrived",
	reasonDisconnected:       "the sender was gone before the payload was read",
	reasonNetwork:            "reading the handoff connection failed",
	reasonOther:              "the handoff connection could not be watched",
	reasonTooLarge:           "the payload is longer than 128 KiB",
	reasonTruncated:          "descriptors were lost on the way: is the limit of open files reached?",
	reasonNoDescriptor:       "the message brought no descriptor",
	reasonNotAStreamSocket:   "the descriptor is no stream socket",
	reasonOutOfDescriptors:   "no free descriptor: raise the limit of open files (ulimit -n)",
	reasonInvalidJSON:        "the payload is no JSON object with the known keys; defaults are used",
	reasonSurplusDescriptors: "the message brought more than one descriptor; the first is used",
}

// Error makes a reason an error.
func (r reason) Error() string {
	if explanation, known := explanations[r]; known {
		return explanation
	}
	return string(r)
}

// reasonOf tells a peer that has left from other failures of a socket.
func reasonOf(err error) reason {
	if errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) {
		return reasonDisconnected
	}
	return reasonNetwork
}
