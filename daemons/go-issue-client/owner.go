package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// hashed matches the name of a socket that is not beside its database (PROTOCOL.md, Transport).
var hashed = regexp.MustCompile(`^[0-9a-f]{16}\.sock$`)

// checkFolder returns an error if another user can have put a socket into a folder that is not the database's own. Links
// are not followed, because others can make one in /tmp.
func checkFolder(socket string) error {
	if !hashed.MatchString(filepath.Base(socket)) {
		return nil
	}
	folder := filepath.Dir(socket)
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("the socket's folder %s is not this user's alone: remove it, or set XDG_RUNTIME_DIR to a folder of this user", folder)
	}
	return nil
}

// checkPeer returns an error unless a daemon of this user or of root has the other end (SO_PEERCRED, unix(7)).
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var failure error
	if err := raw.Control(func(fd uintptr) {
		peer, failure = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failure != nil {
		return failure
	}
	if user := int(peer.Uid); user != 0 && user != os.Geteuid() {
		return fmt.Errorf("user %d listens there, and not this one: nothing was sent", user)
	}
	return nil
}
