package main

import (
	"neuron/app/ui/chat"
	"neuron/app/ui/diagnostics"
	"neuron/app/ui/earnings"
	"neuron/app/ui/models"
	"neuron/app/ui/network"
	"neuron/app/ui/page"
	"neuron/app/ui/settings"
	"neuron/app/ui/share"
	"neuron/app/ui/wizard"
)

// pages are the window's pages in the order of the navigation.
func pages(env *page.Env) []page.Page {
	return []page.Page{
		share.New(env), models.New(env), chat.New(env), earnings.New(env), network.New(env), settings.New(env), diagnostics.New(env),
	}
}

// questions are those of the first run.
func questions(env *page.Env) func(done func()) page.Page {
	return func(done func()) page.Page { return wizard.New(env, done) }
}
