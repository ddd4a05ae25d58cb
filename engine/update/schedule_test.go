package update_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/update"
	"neuron/engine/update/feed"
)

// memoryNet answers without a network, so that hours are over in no time.
type memoryNet struct {
	mu    sync.Mutex
	body  []byte      // guarded by mu
	down  bool        // guarded by mu
	asked []time.Time // guarded by mu
	where []string    // guarded by mu
}

func (n *memoryNet) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked, n.where = append(n.asked, time.Now()), append(n.where, r.URL.String())
	if n.down {
		return nil, errors.New("no network")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(n.body)), ContentLength: int64(len(n.body)), Request: r}, nil
}

func (n *memoryNet) times() []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]time.Time{}, n.asked...)
}

// choices are settings that a test changes.
type choices struct {
	mu      sync.Mutex
	now     update.Settings // guarded by mu
	changed chan struct{}   // guarded by mu
}

func (c *choices) get() (update.Settings, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.changed
}

func (c *choices) set(s update.Settings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = s
	close(c.changed)
	c.changed = make(chan struct{})
}

func scheduled(t *testing.T, dir string) (*memoryNet, *choices, update.Options) {
	t.Helper()
	f := releaseOf([]byte("package"))
	f.Expires = f.Issued.Add(feed.MaxValid)
	raw, err := feed.Sign(f, releaseKey(1))
	must(t, err)
	n := &memoryNet{body: raw}
	c := &choices{now: update.Settings{Check: true}, changed: make(chan struct{})}
	return n, c, update.Options{
		Dir: dir, Keys: []ed25519.PublicKey{releaseKey(1).Public().(ed25519.PublicKey)}, Feed: "https://neuron.example/stable.json", Version: "1.0.0",
		OS: "linux", Arch: "amd64", Kind: feed.KindDeb, Settings: c.get, Transport: n,
	}
}

// TestOnceADay: the first check comes some minutes after the start, the others a
// day and some hours apart, and no restart adds one.
func TestOnceADay(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n, _, o := scheduled(t, dir)
		begun := time.Now()
		c := run(t, o)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if len(n.times()) != 0 {
			t.Fatal("it asks at once")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := n.times(); len(got) != 1 {
			t.Fatalf("asked %v", got)
		}
		if u := c.Update(); u.State != localapi.UpdateAvailable || !u.Auto {
			t.Errorf("%+v", u)
		}
		// Restarts every hour for five days.
		for range 5 * 24 {
			time.Sleep(time.Hour)
			synctest.Wait()
			c.stop()
			c = run(t, o)
		}
		got := n.times()
		for i := 1; i < len(got); i++ {
			if gap := got[i].Sub(got[i-1]); gap < 24*time.Hour {
				t.Errorf("asked twice within %s", gap)
			}
		}
		if len(got) < 4 || len(got) > 6 {
			t.Errorf("asked %d times in %s", len(got), time.Since(begun))
		}
	})
}

// TestComputersDoNotAskTogether: of those that start at the same moment.
func TestComputersDoNotAskTogether(t *testing.T) {
	dirs := make([]string, 20)
	for i := range dirs {
		dirs[i] = t.TempDir()
	}
	synctest.Test(t, func(t *testing.T) {
		minutes := map[time.Time]bool{}
		for _, dir := range dirs {
			n, _, o := scheduled(t, dir)
			c := run(t, o)
			defer func() {
				c.stop()
				if got := n.times(); len(got) == 1 {
					minutes[got[0].Truncate(time.Minute)] = true
				} else {
					t.Errorf("asked %v", got)
				}
				if dir == dirs[0] && len(minutes) < 4 {
					t.Errorf("all of 20 ask in %d minutes", len(minutes))
				}
			}()
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
	})
}

// TestWithoutANetwork it is tried again within hours, and told only as an error
// of the state.
func TestWithoutANetwork(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n, _, o := scheduled(t, dir)
		n.down = true
		c := run(t, o)
		time.Sleep(12 * time.Hour)
		synctest.Wait()
		got := n.times()
		if len(got) < 6 || len(got) > 12 {
			t.Errorf("asked %d times in twelve hours", len(got))
		}
		if u := c.Update(); u.State != localapi.UpdateUnknown || u.Error == nil || c.noted() != "" {
			t.Errorf("%+v, %s", u, c.noted())
		}
		n.mu.Lock()
		n.down = false
		n.mu.Unlock()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if u := c.Update(); u.State != localapi.UpdateAvailable || u.Error != nil {
			t.Errorf("%+v", u)
		}
	})
}

// TestARefusedListIsAskedForTheNextDay: a broken server gets no more visits.
func TestARefusedListIsAskedForTheNextDay(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n, _, o := scheduled(t, dir)
		n.body = []byte("{}")
		run(t, o)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := n.times(); len(got) != 1 {
			t.Errorf("asked %v", got)
		}
	})
}

// TestSwitchAndAddress: off asks nobody, on asks, another address is asked soon.
func TestSwitchAndAddress(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n, s, o := scheduled(t, dir)
		s.set(update.Settings{})
		c := run(t, o)
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if got := n.times(); len(got) != 0 {
			t.Errorf("asked %v while it is off", got)
		}
		if u := c.Update(); u.State != localapi.UpdateOff || u.Auto || !u.Next.IsZero() {
			t.Errorf("%+v", u)
		}
		// The user may look himself.
		u, err := c.CheckUpdate(t.Context())
		if err != nil || u.State != localapi.UpdateAvailable || !u.Next.IsZero() {
			t.Errorf("%+v, %v", u, err)
		}
		s.set(update.Settings{Check: true})
		time.Sleep(29 * time.Hour)
		synctest.Wait()
		if got := n.times(); len(got) != 2 {
			t.Errorf("asked %v after it was turned on", got)
		}
		s.set(update.Settings{Check: true, Feed: "https://mirror.example/list.json"})
		synctest.Wait()
		if u := c.Update(); u.State != localapi.UpdateUnknown || u.Release != nil {
			t.Errorf("what another address has told stays: %+v", u)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		if last := n.where[len(n.where)-1]; len(n.where) != 3 || last != "https://mirror.example/list.json" {
			t.Errorf("asked %v", n.where)
		}
	})
}

// TestAClockThatWasSetBack does not end the checks.
func TestAClockThatWasSetBack(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		_, _, o := scheduled(t, dir)
		time.Sleep(100 * 24 * time.Hour) // a clock that is ahead
		c := run(t, o)
		time.Sleep(time.Hour)
		c.stop()
	})
	synctest.Test(t, func(t *testing.T) { // begins at the same time as the first
		n, _, o := scheduled(t, dir)
		run(t, o)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := n.times(); len(got) != 1 {
			t.Errorf("asked %v", got)
		}
	})
}

// TestAServerThatHangs is given up.
func TestAServerThatHangs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		_, _, o := scheduled(t, dir)
		o.Transport = hanging{}
		c := run(t, o)
		begun := time.Now()
		if _, err := c.CheckUpdate(t.Context()); code(err) != "unavailable" || time.Since(begun) > time.Minute {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}
