package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// tableSize is the size of this process's table of descriptors (proc(5), FDSize).
func tableSize(t *testing.T) uint64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc here")
	}
	size, err := strconv.ParseUint(string(regexp.MustCompile(`FDSize:\s+(\d+)`).FindSubmatch(status)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func TestTheDescriptorTableIsEnlargedInAdvance(t *testing.T) {
	openFiles, err := raiseOpenFiles()
	if err != nil {
		t.Fatal(err)
	}
	wanted := min(4*tableSize(t), openFiles)
	preallocateFDTable(wanted)
	if size := tableSize(t); size < wanted {
		t.Errorf("the table has %d entries, wanted %d", size, wanted)
	}
}
