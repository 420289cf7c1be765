package main

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

func parse(variables map[string]string, arguments ...string) (*options, error) {
	lookup := func(name string) (string, bool) {
		value, isSet := variables[name]
		return value, isSet
	}
	return parseOptions(arguments, lookup, new(strings.Builder))
}

func TestTheDefaultsAreTheDocumentedOnes(t *testing.T) {
	o, err := parse(nil)
	must(t, err)
	if o.socketPath != "/var/run/streaming-daemon.sock" || o.socketMode != 0o660 || !o.isSeqpacket ||
		o.maxConnections != 100_000 || o.messageCount != 18 || o.messageDelay != 50*time.Millisecond ||
		o.metricsAddr != "127.0.0.1:9090" || o.pprofAddr != "" || o.writeTimeout != 30*time.Second || o.benchmark {
		t.Errorf("%+v", o)
	}
}

func TestFlagsTakePrecedenceOverTheirVariables(t *testing.T) {
	for name, c := range map[string]struct{ variable, value, flag string }{
		"socket":          {"DAEMON_SOCKET_PATH", "/a", "/b"},
		"socket-mode":     {"DAEMON_SOCKET_MODE", "0600", "0666"},
		"socket-type":     {"DAEMON_SOCKET_TYPE", "seqpacket", "stream"},
		"backlog":         {"DAEMON_BACKLOG", "5", "6"},
		"max-connections": {"DAEMON_MAX_CONNECTIONS", "5", "6"},
		"metrics-addr":    {"DAEMON_METRICS_ADDR", "127.0.0.1:5", "127.0.0.1:6"},
		"metrics-enabled": {"DAEMON_METRICS_ENABLED", "no", "true"},
		"message-count":   {"DAEMON_MESSAGE_COUNT", "5", "6"},
		"message-delay":   {"DAEMON_MESSAGE_DELAY", "5625ms", "1ns"},
		"write-timeout":   {"DAEMON_WRITE_TIMEOUT", "5s", "6s"},
		"shutdown-grace":  {"DAEMON_SHUTDOWN_GRACE", "5s", "0"},
		"benchmark":       {"DAEMON_BENCHMARK", "yes", "false"},
	} {
		byFlag, err := parse(nil, "-"+name+"="+c.flag)
		must(t, err)
		byVariable, err := parse(map[string]string{c.variable: c.value})
		must(t, err)
		both, err := parse(map[string]string{c.variable: c.value}, "-"+name+"="+c.flag)
		must(t, err)
		if *both != *byFlag || *byVariable == *byFlag {
			t.Errorf("%s: %+v, %+v, %+v", name, byFlag, byVariable, both)
		}
		if variables[name] != c.variable {
			t.Errorf("%s has the variable %s", name, variables[name])
		}
	}
	// The remaining option has only one valid value.
	if _, err := parse(map[string]string{"DAEMON_BACKEND_PROVIDER": "mock"}, "-backend-provider=mock"); err != nil {
		t.Error(err)
	}
	if len(variables) != 13 {
		t.Errorf("%d variables", len(variables))
	}
}

func TestAPprofAddressNeedsAHost(t *testing.T) {
	if _, err := parse(nil, "-pprof-addr", ":6060"); err == nil || !strings.Contains(err.Error(), "127.0.0.1:6060") {
		t.Errorf("%v", err)
	}
	for _, address := range []string{"", "127.0.0.1:6060", "0.0.0.0:6060", "[::]:6060"} {
		_, err := parse(nil, "-pprof-addr", address)
		must(t, err)
	}
}

func TestAnInvalidValueIsReportedWithOptionVariableAndRemedy(t *testing.T) {
	for _, c := range []struct{ name, value, remedy string }{
		{"socket", "", "/var/run"},
		{"socket", "@a", "abstract sockets"},
		{"socket-mode", "rw", "0660"},
		{"socket-mode", "7777", "0660"},
		{"socket-mode", "", "0660"},
		{"socket-type", "dgram", "seqpacket or stream"},
		{"backlog", "0", "from 1"},
		{"max-connections", "0", "from 1"},
		{"max-connections", "many", "whole number"},
		{"metrics-addr", "9090", "127.0.0.1:9090"},
		{"metrics-addr", "", "DAEMON_METRICS_ENABLED=false"},
		{"metrics-addr", ":9090", "127.0.0.1:9090"},
		{"backend-provider", "openai", "write mock"},
		{"metrics-enabled", "5", "true or false"},
		{"message-count", "-1", "from 0"},
		{"message-count", "1e3", "whole number"},
		{"message-delay", "5", "50ms"},
		{"message-delay", "-5s", "50ms"},
		{"message-delay", "2562047h", "lower one"},
		{"write-timeout", "0", "30s"},
		{"shutdown-grace", "soon", "1m30s"},
		{"benchmark", "perhaps", "true or false"},
	} {
		_, typed := parse(nil, "-"+c.name+"="+c.value)
		_, set := parse(map[string]string{variables[c.name]: c.value})
		for _, err := range []error{typed, set} {
			if err == nil {
				t.Errorf("-%s=%s is accepted", c.name, c.value)
				continue
			}
			for _, word := range []string{"-" + c.name, variables[c.name], c.remedy} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s is not in: %v", word, err)
				}
			}
		}
	}
}

func TestBenchmarkAndMetricsEnabledFalseTurnTheMetricsOff(t *testing.T) {
	for _, argument := range []string{"-benchmark", "-metrics-enabled=false"} {
		o, err := parse(nil, argument)
		must(t, err)
		if o.metricsAddr != "" {
			t.Errorf("%s: %s", argument, o.metricsAddr)
		}
	}
}

func TestTheHelpNamesEveryVariable(t *testing.T) {
	var help strings.Builder
	_, err := parseOptions([]string{"-h"}, os.LookupEnv, &help)
	if !errors.Is(err, flag.ErrHelp) {
		t.Errorf("%v", err)
	}
	for name, variable := range variables {
		if !strings.Contains(help.String(), "-"+name+" ") || !strings.Contains(help.String(), variable+"\n") {
			t.Errorf("-%s, %s are not in\n%s", name, variable, help.String())
		}
	}
}
