package shell

import (
	"context"
	"time"
)

// ask looks whether the first-run questions are due, on the follower's
// goroutine: once per start of the window, as soon as the engine answers.
func (s *Shell) ask(ctx context.Context) {
	if s.makeWizard == nil || s.asked {
		return
	}
	client := s.env.Link.Client()
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	settings, err := client.Settings(ctx)
	if err != nil {
		s.logger.Debug("the settings cannot be read yet", "error", err)
		return
	}
	s.asked = true
	if !settings.SetUp {
		s.env.Do(s.begin)
	}
}

// begin shows the questions in the place of the pages.
func (s *Shell) begin() {
	if s.wizard != nil {
		return
	}
	if s.visible && s.opened[s.now.Name()] {
		s.now.Hide()
	}
	s.wizard = s.makeWizard(s.finish)
	s.place.Objects = nil
	s.place.Add(s.wizard.Content())
	s.root.Select(1)
	if s.visible {
		s.wizard.Show()
	}
}

// finish goes on with the pages.
func (s *Shell) finish() {
	w := s.wizard
	if w == nil {
		return
	}
	if s.visible {
		w.Hide()
	}
	s.wizard = nil
	w.Close()
	s.root.Select(0)
	s.place.Objects = nil
	s.enter()
	s.Open("share")
}
