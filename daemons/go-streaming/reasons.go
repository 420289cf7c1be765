package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// A reason is an error of a handoff or a stream. Its value is the label in the metrics.
type reason string

const (
	reasonTimeout      reason = "timeout"
	reasonCanceled     reason = "canceled"
	reasonDisconnected reason = "client_disconnected"
	reasonNetwork      reason = "network"
	reasonOther        reason = "other"

	// For handoffs only.
	reasonEmpty            reason = "empty"
	reasonTooLarge         reason = "too_large"
	reasonTruncated        reason = "truncated"
	reasonNoDescriptor     reason = "no_descriptor"
	reasonNotAStreamSocket reason = "not_a_stream_socket"
	reasonOutOfDescriptors reason = "out_of_descriptors"

	// Never counted here: all daemons have the same reasons, so that one query works for each.
	reasonPeerRefused    reason = "peer_refused"
	reasonBackend        reason = "backend"
	reasonBackendTimeout reason = "backend_timeout"

	// For handoffs that lead to a stream nevertheless.
	reasonInvalidJSON        reason = "invalid_json"
	reasonSurplusDescriptors reason = "surplus_descriptors"
)

var streamReasons = []reason{
	reasonTimeout, reasonCanceled, reasonDisconnected, reasonNetwork, reasonOther,
	reasonBackend, reasonBackendTimeout,
}

var handoffReasons = []reason{
	reasonTimeout, reasonCanceled, reasonDisconnected, reasonNetwork, reasonOther,
	reasonEmpty, reasonTooLarge, reasonTruncated, reasonNoDescriptor, reasonNotAStreamSocket,
	reasonOutOfDescriptors, reasonPeerRefused, reasonInvalidJSON, reasonSurplusDescriptors,
}

// explanations are the texts of the log for each reason.
var explanations = map[reason]string{
	reasonTimeout:            "the payload did not arrive within the receive timeout",
	reasonCanceled:           "the daemon stopped before the payload arrived",
	reasonDisconnected:       "the sender disconnected before the payload was read",
	reasonNetwork:            "reading the handoff connection failed",
	reasonOther:              "the handoff connection could not be watched",
	reasonTooLarge:           "the payload is longer than 128 KiB",
	reasonTruncated:          "descriptors were lost in transit: is the limit of open files reached?",
	reasonNoDescriptor:       "the message contains no descriptor",
	reasonNotAStreamSocket:   "the descriptor is not a stream socket",
	reasonOutOfDescriptors:   "no free descriptor: raise the limit of open files (ulimit -n)",
	reasonInvalidJSON:        "the payload is not a JSON object with the known keys; defaults are used",
	reasonSurplusDescriptors: "the message contains more than one descriptor; the first is used",
}

// Error returns the explanation of the reason.
func (r reason) Error() string {
	if explanation, known := explanations[r]; known {
		return explanation
	}
	return string(r)
}

// asReason returns the reason in the chain of err, or reasonOther.
func asReason(err error) reason {
	var r reason
	if errors.As(err, &r) {
		return r
	}
	return reasonOther
}

// reasonOf returns the reason for a socket error: reasonDisconnected if the peer has disconnected, else
// reasonNetwork.
func reasonOf(err error) reason {
	if errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) {
		return reasonDisconnected
	}
	return reasonNetwork
}
