package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxStreamDuration is the maximum duration of a stream. It keeps every due time within 64 bits of
// nanoseconds.
const maxStreamDuration = 366 * 24 * time.Hour

// A config is the configuration of the daemon, after validation of the options.
type config struct {
	socketPath     string
	socketMode     uint32
	isSeqpacket    bool
	backlog        int
	maxConnections int64
	metricsAddr    string // "": serve no metrics
	pprofAddr      string // "": serve no profiles
	messageCount   int
	messageDelay   time.Duration
	writeTimeout   time.Duration
	shutdownGrace  time.Duration
}

// kind returns the type of the handoff socket, as the kernel's constant.
func (c *config) kind() int {
	if c.isSeqpacket {
		return unix.SOCK_SEQPACKET
	}
	return unix.SOCK_STREAM
}

// options are the values of the command line and the environment.
type options struct {
	config
	benchmark bool
	version   bool
}

// variables are the environment variables of the options. A flag takes precedence over its variable.
var variables = map[string]string{
	"socket":           "DAEMON_SOCKET_PATH",
	"socket-mode":      "DAEMON_SOCKET_MODE",
	"socket-type":      "DAEMON_SOCKET_TYPE",
	"backlog":          "DAEMON_BACKLOG",
	"max-connections":  "DAEMON_MAX_CONNECTIONS",
	"backend-provider": "DAEMON_BACKEND_PROVIDER",
	"metrics-addr":     "DAEMON_METRICS_ADDR",
	"metrics-enabled":  "DAEMON_METRICS_ENABLED",
	"message-count":    "DAEMON_MESSAGE_COUNT",
	"message-delay":    "DAEMON_MESSAGE_DELAY",
	"write-timeout":    "DAEMON_WRITE_TIMEOUT",
	"shutdown-grace":   "DAEMON_SHUTDOWN_GRACE",
	"benchmark":        "DAEMON_BENCHMARK",
}

// parseOptions reads the command line and the environment. An error states the problem and the remedy.
// After -help, the help has been written to out and the error is flag.ErrHelp.
func parseOptions(arguments []string, lookup func(string) (string, bool), out io.Writer) (*options, error) {
	o := &options{config: config{
		socketPath:     "/var/run/streaming-daemon.sock",
		socketMode:     0o660,
		isSeqpacket:    true,
		backlog:        math.MaxInt32,
		maxConnections: 100_000,
		metricsAddr:    "127.0.0.1:9090",
		messageCount:   18,
		messageDelay:   50 * time.Millisecond,
		writeTimeout:   30 * time.Second,
		shutdownGrace:  30 * time.Second,
	}}
	metricsEnabled := true
	flags := o.flags(&metricsEnabled)
	if err := parseFlags(flags, arguments, out); err != nil {
		return nil, err
	}
	if err := applyVariables(flags, lookup); err != nil {
		return nil, err
	}
	if !metricsEnabled || o.benchmark {
		o.metricsAddr = ""
	}
	return o, o.check()
}

func (o *options) flags(metricsEnabled *bool) *flag.FlagSet {
	flags := flag.NewFlagSet("streaming-daemon", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	add := func(name, usage, value string, parse func(string) error) {
		flags.Func(name, usage+" (default "+value+")", parse)
	}
	add("socket", "create the handoff socket at this `path`", o.socketPath, setter(&o.socketPath, parsePath))
	add("socket-mode", "set the permissions of the socket file, in `octal`", "0660", setter(&o.socketMode, parseMode))
	add("socket-type", "set the `type` of the handoff socket: seqpacket or stream", "seqpacket", setter(&o.isSeqpacket, parseType))
	add("backlog", "let this `number` of handoffs wait to be accepted", "as many as net.core.somaxconn allows",
		setter(&o.backlog, parseBacklog))
	add("max-connections", "limit the `number` of open streams; further ones are answered with 503", "100000",
		setter(&o.maxConnections, parseMaxConnections))
	add("backend-provider", "choose the source of the events by `name`: mock", backendName, checkBackend)
	add("metrics-addr", "serve /metrics and /healthz on this `host:port`", o.metricsAddr, setter(&o.metricsAddr, parseAddress))
	add("pprof-addr", "serve /debug/pprof/ on this `host:port`", "empty: serve no profiles", setter(&o.pprofAddr, parseOptionalAddress))
	add("message-count", "send this `number` of events per stream; 0 sends only the head and the end mark", "18",
		setter(&o.messageCount, parseMessageCount))
	add("message-delay", "wait this `time` between two events, such as 50ms or 5625ms", "50ms", setter(&o.messageDelay, parseDuration))
	add("write-timeout", "fail a stream if one write to the client takes longer than this `time`", "30s", setter(&o.writeTimeout, parseTimeout))
	add("shutdown-grace", "let streams finish for up to this `time` after SIGTERM, SIGINT or SIGHUP; a second signal ends them at once", "30s",
		setter(&o.shutdownGrace, parseDuration))
	flags.Var(newSwitch(metricsEnabled), "metrics-enabled", "serve /metrics and /healthz (default true)")
	flags.Var(newSwitch(&o.benchmark), "benchmark", "serve no metrics, and print a summary at the end")
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
	return flags
}

func parseFlags(flags *flag.FlagSet, arguments []string, out io.Writer) error {
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printHelp(flags, out)
		return err
	case err != nil:
		return fmt.Errorf("%w\n%s", err, hint(flags, err))
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: -help lists the options", flags.Arg(0))
	}
	return nil
}

// hint returns the variable of the flag that caused the error.
func hint(flags *flag.FlagSet, err error) string {
	text := "-help lists the options"
	flags.VisitAll(func(f *flag.Flag) {
		if variable := variables[f.Name]; variable != "" && strings.Contains(err.Error(), " -"+f.Name+":") {
			text = "the environment variable is " + variable
		}
	})
	return text
}

func printHelp(flags *flag.FlagSet, out io.Writer) {
	fmt.Fprintln(out, "Receives client sockets over a Unix socket (SCM_RIGHTS) and responds to each with server-sent events.")
	fmt.Fprintln(out, "\nA flag takes precedence over its environment variable.")
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(out, "\n  -%s %s\n", f.Name, value)
		fmt.Fprintf(out, "        %s\n", usage)
		if variable := variables[f.Name]; variable != "" {
			fmt.Fprintf(out, "        variable: %s\n", variable)
		}
	})
}

// applyVariables sets the options from the environment, except for those set on the command line.
func applyVariables(flags *flag.FlagSet, lookup func(string) (string, bool)) error {
	typed := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { typed[f.Name] = true })
	var errs []error
	flags.VisitAll(func(f *flag.Flag) {
		value, isSet := lookup(variables[f.Name])
		if variables[f.Name] == "" || !isSet || typed[f.Name] {
			return
		}
		if err := f.Value.Set(value); err != nil {
			errs = append(errs, fmt.Errorf("invalid value %q for %s (-%s): %w", value, variables[f.Name], f.Name, err))
		}
	})
	return errors.Join(errs...)
}

// check validates the options that depend on each other.
func (o *options) check() error {
	if o.messageCount > 0 && o.messageDelay > maxStreamDuration/time.Duration(o.messageCount) {
		return errors.New("-message-count × -message-delay (DAEMON_MESSAGE_COUNT, DAEMON_MESSAGE_DELAY): " +
			"a stream may last at most a year (366 days); lower one of them")
	}
	return nil
}

// setter returns a function that parses a text and stores the result.
func setter[T any](to *T, parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		value, err := parse(text)
		if err == nil {
			*to = value
		}
		return err
	}
}

func parsePath(text string) (string, error) {
	if text == "" {
		return "", errors.New("name a path, for instance /var/run/streaming-daemon.sock")
	}
	if text[0] == '@' {
		return "", errors.New("abstract sockets (@…) are not supported: name a file, for instance /run/streaming-daemon.sock")
	}
	return text, nil
}

func parseMode(text string) (uint32, error) {
	mode, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
	if err != nil || mode > 0o777 {
		return 0, errors.New("write the permissions in octal, for instance 0660")
	}
	return uint32(mode), nil
}

func parseType(text string) (isSeqpacket bool, err error) {
	switch text {
	case "seqpacket":
		return true, nil
	case "stream":
		return false, nil
	default:
		return false, errors.New("write seqpacket or stream")
	}
}

func parseBacklog(text string) (int, error) {
	return parseNumber[int](text, 1, math.MaxInt32)
}

func parseMaxConnections(text string) (int64, error) {
	return parseNumber[int64](text, 1, math.MaxInt64)
}

func parseMessageCount(text string) (int, error) {
	return parseNumber[int](text, 0, math.MaxInt32)
}

func parseNumber[T int | int64](text string, least, most int64) (T, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < least || number > most {
		return 0, fmt.Errorf("write a whole number from %d to %d", least, most)
	}
	return T(number), nil
}

func checkBackend(text string) error {
	if text != backendName {
		return errors.New("this daemon has only the backend mock; write mock")
	}
	return nil
}

func parseAddress(text string) (string, error) {
	if !isAddress(text) {
		return "", errors.New("write host and port, for instance 127.0.0.1:9090 (0.0.0.0 for every address of this machine); " +
			"to serve no metrics, set DAEMON_METRICS_ENABLED=false")
	}
	return text, nil
}

// isAddress reports whether a text contains a host and a port. Go treats an empty host as all addresses.
func isAddress(text string) bool {
	host, _, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return false
	}
	_, err = net.ResolveTCPAddr("tcp", text)
	return err == nil
}

func parseOptionalAddress(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if !isAddress(text) {
		return "", errors.New("write host and port, for instance 127.0.0.1:6060 (0.0.0.0 for every address of this machine), or leave it empty")
	}
	return text, nil
}

func parseDuration(text string) (time.Duration, error) {
	duration, err := time.ParseDuration(text)
	if err != nil || duration < 0 {
		return 0, errors.New("write a duration, for instance 50ms, 5625ms, 1m30s or 0")
	}
	return duration, nil
}

func parseTimeout(text string) (time.Duration, error) {
	duration, err := parseDuration(text)
	if err == nil && duration == 0 {
		return 0, errors.New("the time must be longer than 0; the default is 30s")
	}
	return duration, err
}

// A boolSwitch is an option that is on or off. Without a value it is on.
type boolSwitch struct{ on *bool }

func newSwitch(on *bool) boolSwitch { return boolSwitch{on} }

// IsBoolFlag tells package flag that the value is optional.
func (boolSwitch) IsBoolFlag() bool { return true }

// String returns an empty string: the usage contains the default.
func (boolSwitch) String() string { return "" }

// Set accepts the words that all daemons accept.
func (s boolSwitch) Set(text string) error {
	word := strings.ToLower(text)
	*s.on = slices.Contains([]string{"1", "true", "t", "yes", "y", "on"}, word)
	if !*s.on && !slices.Contains([]string{"0", "false", "f", "no", "n", "off"}, word) {
		return errors.New("write true or false")
	}
	return nil
}
