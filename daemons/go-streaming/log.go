package main

import (
	"fmt"
	"log"
	"os"
	"sync"
	"time"
)

const linesPerSecond = 5

// A limitedLog writes warnings to stderr, at most linesPerSecond: many bad handoffs must not cause as
// many lines.
type limitedLog struct {
	mutex      sync.Mutex
	second     int64
	lines      int
	suppressed int
	out        *log.Logger
}

func newLimitedLog() *limitedLog {
	return &limitedLog{out: log.New(os.Stderr, "streaming-daemon: ", 0)}
}

// warn writes a line, unless the limit of this second is reached.
func (l *limitedLog) warn(format string, arguments ...any) {
	suppressed, admitted := l.admit(time.Now().Unix())
	if !admitted {
		return
	}
	if suppressed > 0 {
		format += fmt.Sprintf(" (%d earlier lines were left out)", suppressed)
	}
	l.out.Printf(format, arguments...)
}

// admit reports whether a line may be written in this second, and the number of lines suppressed before
// it.
func (l *limitedLog) admit(second int64) (suppressed int, admitted bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.second != second {
		l.second, l.lines = second, 0
	}
	if l.lines == linesPerSecond {
		l.suppressed++
		return 0, false
	}
	l.lines++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}
