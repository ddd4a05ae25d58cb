package syserr_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"testing"

	"neuron/internal/syserr"
)

// TestAddrInUse asks the system itself: a port is taken twice.
func TestAddrInUse(t *testing.T) {
	t.Parallel()
	listen := func(addr string) (net.Listener, error) {
		return new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	}
	l, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = listen(l.Addr().String())
	if !syserr.AddrInUse(err) || !syserr.AddrInUse(fmt.Errorf("API: %w", err)) || syserr.DiskFull(err) {
		t.Errorf("a taken port: %v", err)
	}
	if _, err = listen("192.0.2.1:0"); err == nil || syserr.AddrInUse(err) {
		t.Errorf("an address of another computer: %v", err)
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, e := range full {
		err := fmt.Errorf("keep: %w", &fs.PathError{Op: "write", Path: "x", Err: e})
		if !syserr.DiskFull(err) || syserr.AddrInUse(err) {
			t.Errorf("%v is no full disk", err)
		}
	}
	for _, e := range []error{nil, errors.New("no space left on device"), fs.ErrPermission} {
		if syserr.DiskFull(e) || syserr.AddrInUse(e) {
			t.Errorf("%v", e)
		}
	}
}
