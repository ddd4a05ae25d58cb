package settings

import (
	"strings"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"neuron/app/enginetest"
	"neuron/app/ui/kit"
	"neuron/app/ui/uitest"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// TestANewVersionIsFetchedAndInstalledByClicks: and by nothing else.
func TestANewVersionIsFetchedAndInstalledByClicks(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	p.show(tabNetwork)
	n := p.newer
	says := func(text string) {
		t.Helper()
		d.Until("it says "+text, func() bool { return strings.Contains(n.state(updateOf(p)), text) })
	}
	visible := func(want ...*kit.Button) {
		t.Helper()
		for _, b := range []*kit.Button{n.check, n.fetch, n.install, n.news, n.dismiss} {
			shown := false
			for _, w := range want {
				shown = shown || w == b
			}
			if b.Visible() != shown {
				t.Errorf("%q visible: %t", b.Label(), b.Visible())
			}
		}
	}
	e.With(func(s *enginetest.State) {
		s.Update = localapi.Update{State: localapi.UpdateUnsupported, Version: "1.0.0", Reason: "no key"}
	})
	says("not available in this build")
	d.Until("no buttons", func() bool { return !n.check.Visible() })
	visible()
	e.With(func(s *enginetest.State) {
		s.Update = localapi.Update{State: localapi.UpdateUnknown, Version: "1.0.0"}
	})
	d.Until("it can be checked", func() bool { return n.check.Visible() })
	visible(n.check)
	test.Tap(n.check)
	d.Until("it is asked", func() bool { return e.Told("CheckUpdate") })
	r := localapi.Release{Version: "1.1.0", Date: "2026-11-30", Page: "https://neuron.example/1.1.0", Notes: map[string]string{"en": "It starts faster."}, Name: "neuron.deb", Bytes: 84e6}
	e.With(func(s *enginetest.State) {
		s.Update = localapi.Update{State: localapi.UpdateAvailable, Version: "1.0.0", Release: &r}
	})
	says("Neuron 1.1.0 is there; this is 1.0.0.")
	d.Until("it can be fetched", func() bool { return n.fetch.Visible() })
	visible(n.check, n.fetch, n.news, n.dismiss)
	d.Window.Resize(fyne.NewSize(980, 1180))
	d.Picture("settings-update-en")
	test.Tap(n.news)
	d.Until("what is new is told", func() bool { return len(d.Window.Canvas().Overlays().List()) > 0 })
	d.Picture("settings-update-news-en")
	kit.Escape(d.Window.Canvas())
	if e.Told("DownloadUpdate") || e.Told("InstallUpdate") {
		t.Fatal("something is done without a click")
	}
	test.Tap(n.fetch)
	says("are there")
	ready := r
	ready.File = "/data/update/neuron.deb"
	e.With(func(s *enginetest.State) { s.Update.State, s.Update.Release = localapi.UpdateReady, &ready })
	d.Until("it can be installed", func() bool { return n.install.Visible() && !n.fetch.Visible() })
	test.Tap(n.install)
	if e.Told("InstallUpdate") {
		t.Fatal("it is installed without a question")
	}
	n.page.updates.Install()
	d.Until("it says so", func() bool { return n.begun.Visible() && strings.Contains(n.begun.Text(), "installer runs") })
	// It fails after a while.
	failed := protocol.Errorf(protocol.CodeUnsupported, "the installer has ended without installing")
	failed.Detail = map[string]string{"log": "/data/logs/update.out", "said": "no room"}
	e.With(func(s *enginetest.State) { s.Update.Error = failed })
	d.Until("it says where to look", func() bool {
		return !n.begun.Visible() && n.problem.Visible() && strings.Contains(n.problem.Text(), "/data/logs/update.out")
	})
}

// updateOf is what the model has, with a state of its own before the first look.
func updateOf(p *Page) *localapi.Update {
	if u := p.updates.View().Update; u != nil {
		return u
	}
	return &localapi.Update{}
}
