// Package instance keeps each desktop program to one process per data folder:
// the second launch gives the first one a word and ends.
//
// Window and tray import it. It knows no screen and no engine; what a word
// means is the receiver's affair.
//
// The process that holds a lock file is the one. It listens on a Unix socket
// (Windows: on loopback) and writes where, with a token, into a file that this
// user alone can read. Whoever connects gets nothing: a good line is answered
// with "ok", all else with silence.
package instance

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
	"neuron/internal/desktop/folders"
	"neuron/internal/filelock"
)

// Kinds of programs.
const (
	Window = "window"
	Tray   = "tray"
)

// Words that can be given.
const (
	Show  = "show"  // bring the window to the front, opening it if need be
	Quit  = "quit"  // end in order
	Yield = "yield" // end if you cannot be seen: a tray of a session that is over
	// Restart: end in order and start anew; the programs' files were replaced.
	Restart = "restart"
)

// open begins a word that carries what is to be opened.
const open = "open:"

// Open is the word for a window that is to open what a command line has named,
// 4 KB at most.
func Open(target string) string { return open + url.QueryEscape(target) }

// Opened gives what a word wants to be opened; ok is false for other words.
func Opened(word string) (target string, ok bool) {
	escaped, ok := strings.CutPrefix(word, open)
	if !ok || len(escaped) > maxTarget {
		return "", false
	}
	target, err := url.QueryUnescape(escaped)
	return target, err == nil && url.QueryEscape(target) == escaped
}

// known reports whether a word can be given.
func known(word string) bool {
	_, opens := Opened(word)
	return opens || slices.Contains(words, word)
}

// ping asks whether somebody is there, and is told to nobody.
const ping = "ping"

var words = []string{Show, Quit, Yield, Restart, ping}

const (
	tokenBytes = 16
	// maxLine bounds what a client may send, maxFile the address file, in bytes.
	maxLine = maxTarget + 256
	maxFile = 4096
	// maxTarget bounds what is to be opened, in which each byte may take three.
	maxTarget = 3 * 4096
	// talk is how long one connection may take.
	talk     = 3 * time.Second
	maxTalks = 8
)

// Instance is this process as the one of its kind. It owns the goroutines that
// listen; Close waits for them.
type Instance struct {
	kind, token string
	files       files
	lock        *filelock.Lock
	ln          net.Listener
	heard       chan string
	stop        chan struct{} // closed by Close
	closing     sync.Once
	wg          sync.WaitGroup
}

// files are the names for one kind in one data folder.
type files struct{ lock, address, socket string }

func filesOf(data, kind string) files {
	base := filepath.Join(data, "run", kind)
	return files{lock: base + ".lock", address: base + ".json", socket: base + ".sock"}
}

// address is the content of the address file.
type address struct {
	Network string `json:"network"` // "unix" or "tcp"
	Address string `json:"address"`
	Token   string `json:"token"`
}

// Take makes this process the one of its kind. Errors: already_running (another
// process is), data_folder, unavailable (nothing can be listened on).
func Take(data, kind string) (*Instance, error) {
	f := filesOf(data, kind)
	if err := folders.Make(filepath.Dir(f.lock)); err != nil {
		return nil, err
	}
	lock, err := filelock.Try(f.lock)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, protocol.Errorf(protocol.CodeAlreadyRunning, "the %s runs already with this data folder", kind)
	}
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "lock the %s: %w", kind, err)
	}
	// Nobody else is alive: what lies there is of a process that crashed.
	os.Remove(f.address)
	ln, err := listen(f.socket)
	if err != nil {
		lock.Unlock()
		return nil, protocol.Errorf(protocol.CodeUnavailable, "listen for other launches: %w", err)
	}
	raw := make([]byte, tokenBytes)
	rand.Read(raw) // never fails (crypto/rand)
	i := &Instance{kind: kind, token: hex.EncodeToString(raw), files: f, lock: lock, ln: ln, heard: make(chan string, maxTalks), stop: make(chan struct{})}
	b, err := json.Marshal(address{Network: ln.Addr().Network(), Address: ln.Addr().String(), Token: i.token})
	if err == nil {
		err = atomicfile.Write(f.address, b)
	}
	if err != nil {
		ln.Close()
		lock.Unlock()
		return nil, protocol.Errorf(protocol.CodeDataFolder, "write where the %s listens: %w", kind, err)
	}
	i.wg.Go(i.accept)
	return i, nil
}

// Heard gives the words of other launches. Whoever took the instance reads it;
// words that nobody reads are lost after a while.
func (i *Instance) Heard() <-chan string { return i.heard }

// Close lets another process take over. Idempotent.
func (i *Instance) Close() {
	i.closing.Do(func() {
		close(i.stop)
		os.Remove(i.files.address)
		i.ln.Close() // removes the socket
		i.wg.Wait()
		i.lock.Unlock()
	})
}

// accept hears out maxTalks clients at a time; others wait in the system's
// queue.
func (i *Instance) accept() {
	free := make(chan struct{}, maxTalks)
	for {
		select {
		case free <- struct{}{}:
		case <-i.stop:
			return
		}
		c, err := i.ln.Accept()
		if err == nil {
			i.wg.Go(func() {
				defer func() { <-free }()
				i.talk(c)
			})
			continue
		}
		<-free
		select {
		case <-i.stop:
			return
		case <-time.After(100 * time.Millisecond): // out of files: not for ever
		}
	}
}

// talk hears one word.
func (i *Instance) talk(c net.Conn) {
	defer c.Close()
	over := make(chan struct{})
	defer close(over)
	i.wg.Go(func() {
		select {
		case <-i.stop:
			c.Close()
		case <-over:
		}
	})
	c.SetDeadline(time.Now().Add(talk))
	line, err := bufio.NewReader(io.LimitReader(c, maxLine)).ReadString('\n')
	if err != nil {
		return
	}
	word, ok := parseLine(line, i.kind, i.token)
	if !ok {
		return
	}
	if word == ping {
		fmt.Fprintln(c, "ok")
		return
	}
	select {
	case i.heard <- word:
		fmt.Fprintln(c, "ok")
	case <-time.After(talk):
	case <-i.stop:
	}
}

// parseLine reads "neuron KIND TOKEN WORD\n".
func parseLine(line, kind, token string) (word string, ok bool) {
	line, ended := strings.CutSuffix(line, "\n")
	parts := strings.Split(line, " ")
	if !ended || len(parts) != 4 || parts[0] != "neuron" || parts[1] != kind {
		return "", false
	}
	if subtle.ConstantTimeCompare([]byte(parts[2]), []byte(token)) != 1 || !known(parts[3]) {
		return "", false
	}
	return parts[3], true
}

// Send gives a word to the process of that kind. Errors: not_found when none
// runs, timeout when it does not answer.
func Send(ctx context.Context, data, kind, word string) error {
	if !known(word) {
		return protocol.Errorf(protocol.CodeInvalidRequest, "%.40q is no word for a %s", word, kind)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*talk)
	defer cancel()
	none := func(err error) error {
		return protocol.Errorf(protocol.CodeNotFound, "no %s runs with this data folder: %w", kind, err)
	}
	a, err := readAddress(filesOf(data, kind).address)
	if err != nil {
		return none(err)
	}
	c, err := new(net.Dialer).DialContext(ctx, a.Network, a.Address)
	if err != nil {
		return none(err)
	}
	defer c.Close()
	end, _ := ctx.Deadline() // it has one
	c.SetDeadline(end)
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if _, err := fmt.Fprintf(c, "neuron %s %s %s\n", kind, a.Token, word); err != nil {
		return none(err)
	}
	answer := make([]byte, 3)
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "ok\n" {
		return protocol.Errorf(protocol.CodeTimeout, "the %s does not answer: %w", kind, err)
	}
	return nil
}

// Running reports whether a process of that kind has taken the data folder and
// answers. It takes no lock, which would keep another one from starting.
func Running(data, kind string) bool { return Send(context.Background(), data, kind, ping) == nil }

func readAddress(path string) (*address, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	return parseAddress(b)
}

// parseAddress checks the bytes of an address file: nothing but this computer
// is ever spoken to, whoever wrote them.
func parseAddress(b []byte) (*address, error) {
	bad := errors.New("the file with the address is damaged")
	var a address
	if len(b) > maxFile || json.Unmarshal(b, &a) != nil {
		return nil, bad
	}
	if raw, err := hex.DecodeString(a.Token); err != nil || len(raw) != tokenBytes {
		return nil, bad
	}
	switch a.Network {
	case "unix":
		if !filepath.IsAbs(a.Address) || len(a.Address) > maxSocket || strings.ContainsRune(a.Address, 0) {
			return nil, bad
		}
	case "tcp":
		host, _, err := net.SplitHostPort(a.Address)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			return nil, bad
		}
	default:
		return nil, bad
	}
	return &a, nil
}

// maxSocket is the longest path of a Unix socket that every system takes.
const maxSocket = 100
