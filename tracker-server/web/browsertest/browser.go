// Package browsertest drives a headless Chromium for tests of pages: open,
// evaluate, wait, screenshot. Only tests import it. It knows nothing of what
// the pages show.
package browsertest

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// ShotsVariable names the environment variable with the folder for screenshots;
// without it none are written.
const ShotsVariable = "NEURON_SCREENSHOTS"

// patience bounds every wait for the browser.
const patience = 60 * time.Second

// Browser is a running Chromium. The test that started it ends it.
type Browser struct {
	t    testing.TB
	ws   *websocket.Conn
	gone chan struct{} // closed when the connection has ended

	mu      sync.Mutex // of writing, and of what follows
	next    int
	answers map[int]chan answer
}

type answer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start runs Chromium, or skips the test loudly where there is none.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("SKIPPED: no Chromium here (Debian: apt-get install chromium)")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
		"--disable-dev-shm-usage", "--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.WaitDelay = 5 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &Browser{t: t, gone: make(chan struct{}), answers: map[int]chan answer{}}
	var readers sync.WaitGroup
	t.Cleanup(func() {
		if b.ws != nil {
			b.quit()
		}
		cancel()
		readers.Wait()
		_ = cmd.Wait() // killed, as said
	})
	at := make(chan string, 1)
	readers.Add(1)
	go func() {
		defer readers.Done()
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if _, url, ok := strings.Cut(lines.Text(), "DevTools listening on "); ok {
				at <- url
				break
			}
		}
		_, _ = io.Copy(io.Discard, stderr)
	}()
	select {
	case url := <-at:
		if b.ws, _, err = websocket.DefaultDialer.Dial(url, nil); err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("Chromium does not say where it listens")
	}
	readers.Add(1)
	go func() {
		defer readers.Done()
		b.read()
	}()
	return b
}

// quit asks the browser to end, so that its children end with it; the
// connection ends then.
func (b *Browser) quit() {
	b.mu.Lock()
	err := b.ws.WriteJSON(map[string]any{"id": -1, "method": "Browser.close"})
	b.mu.Unlock()
	if err == nil {
		select {
		case <-b.gone:
		case <-time.After(5 * time.Second):
		}
	}
	b.ws.Close()
}

func (b *Browser) read() {
	defer close(b.gone)
	for {
		var m struct {
			ID int `json:"id"`
			answer
		}
		if err := b.ws.ReadJSON(&m); err != nil {
			b.mu.Lock()
			for id, ch := range b.answers {
				close(ch)
				delete(b.answers, id)
			}
			b.mu.Unlock()
			return
		}
		b.mu.Lock()
		ch := b.answers[m.ID]
		delete(b.answers, m.ID)
		b.mu.Unlock()
		if ch != nil {
			ch <- m.answer
		}
	}
}

// call sends a command and waits for its answer.
func (b *Browser) call(session, method string, params, result any) {
	b.t.Helper()
	if err := b.try(session, method, params, result); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

// try is call with an error for what the browser refuses.
func (b *Browser) try(session, method string, params, result any) error {
	b.t.Helper()
	ch := make(chan answer, 1)
	b.mu.Lock()
	b.next++
	id := b.next
	b.answers[id] = ch
	m := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	err := b.ws.WriteJSON(m)
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case a, ok := <-ch:
		switch {
		case !ok:
			return errors.New("Chromium has ended")
		case a.Error != nil:
			return errors.New(a.Error.Message)
		case result != nil:
			return json.Unmarshal(a.Result, result)
		}
		return nil
	case <-time.After(patience):
		return errors.New("no answer")
	}
}

// View is how a page is looked at.
type View struct {
	Width, Height int
	Dark          bool // the system's preference
	NoScript      bool
}

// Page is an open tab.
type Page struct {
	b       *Browser
	session string
	target  string
}

type params map[string]any

// Open opens a URL and waits until it is loaded.
func (b *Browser) Open(url string, v View) *Page {
	b.t.Helper()
	p := &Page{b: b}
	var target struct {
		ID string `json:"targetId"`
	}
	b.call("", "Target.createTarget", params{"url": "about:blank"}, &target)
	var attached struct {
		ID string `json:"sessionId"`
	}
	b.call("", "Target.attachToTarget", params{"targetId": target.ID, "flatten": true}, &attached)
	p.session, p.target = attached.ID, target.ID
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	b.call(p.session, "Emulation.setDeviceMetricsOverride", params{"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": v.Width < 500}, nil)
	b.call(p.session, "Emulation.setEmulatedMedia", params{"features": []params{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call(p.session, "Page.enable", params{}, nil)
	// What went wrong in the page is kept, from the first script on.
	b.call(p.session, "Page.addScriptToEvaluateOnNewDocument", params{"source": `window.troubles = [];
		addEventListener('error', e => troubles.push(String(e.message)));
		addEventListener('securitypolicyviolation', e => troubles.push('policy: ' + e.violatedDirective + ' ' + e.blockedURI));`}, nil)
	b.call(p.session, "Emulation.setScriptExecutionDisabled", params{"value": v.NoScript}, nil)
	var nav struct {
		Error string `json:"errorText"`
	}
	b.call(p.session, "Page.navigate", params{"url": url}, &nav)
	if nav.Error != "" {
		b.t.Fatalf("open %s: %s", url, nav.Error)
	}
	p.Wait("document.readyState === 'complete' && location.href !== 'about:blank'")
	return p
}

// Close closes the tab.
func (p *Page) Close() {
	p.b.t.Helper()
	p.b.call("", "Target.closeTarget", params{"targetId": p.target}, nil)
}

// Eval evaluates an expression and stores its value in v, which may be nil.
func (p *Page) Eval(js string, v any) {
	p.b.t.Helper()
	if err := p.eval(js, v); err != nil {
		p.b.t.Fatalf("%s: %v", js, err)
	}
}

func (p *Page) eval(js string, v any) error {
	p.b.t.Helper()
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	if err := p.b.try(p.session, "Runtime.evaluate", params{"expression": js, "returnByValue": true, "awaitPromise": true}, &out); err != nil {
		return err
	}
	if out.Exception != nil {
		return fmt.Errorf("%s %s", out.Exception.Text, out.Exception.Exception.Description)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(out.Result.Value, v)
}

// Wait waits until an expression is true. It may be evaluated on the way from
// one page to the next: where it fails it is not true yet.
func (p *Page) Wait(js string) {
	p.b.t.Helper()
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var ok bool
		if last = p.eval("Boolean("+js+")", &ok); last == nil && ok {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	var dom string
	p.Eval("document.body.innerText.slice(0, 2000)", &dom)
	p.b.t.Fatalf("never true: %s (%v)\n%s", js, last, dom)
}

// Shot writes a screenshot of the whole page into the folder that ShotsVariable
// names, as name.png.
func (p *Page) Shot(name string) {
	p.b.t.Helper()
	folder := os.Getenv(ShotsVariable)
	if folder == "" {
		return
	}
	var size struct {
		W int `json:"w"`
		H int `json:"h"`
	}
	p.Eval("({w: innerWidth, h: Math.min(document.documentElement.scrollHeight, 12000)})", &size)
	var shot struct {
		Data string `json:"data"`
	}
	p.b.call(p.session, "Page.captureScreenshot", params{"format": "png", "captureBeyondViewport": true,
		"clip": params{"x": 0, "y": 0, "width": size.W, "height": size.H, "scale": 1}}, &shot)
	raw, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), raw, 0o644)
	}
	if err != nil {
		p.b.t.Fatal(fmt.Errorf("screenshot: %w", err))
	}
}

// Troubles are script errors and violations of the page's policy so far.
func (p *Page) Troubles() []string {
	p.b.t.Helper()
	var out []string
	p.Eval("window.troubles || []", &out)
	return out
}
