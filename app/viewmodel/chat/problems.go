package chat

import (
	"neuron/app/chat/store"
	"neuron/app/chat/thread"
	"neuron/engine/protocol"
	"neuron/internal/desktop/words"
)

// Problem is what went wrong with an answer, and the ways out.
type Problem struct {
	Text, Remedy string
	Ways         []Way
}

// Way is something to do about a problem.
type Way string

// The ways.
const (
	WayAgain    Way = "again"    // Regenerate
	WayPublic   Way = "public"   // RegeneratePublic
	WayNewChat  Way = "new_chat" // NewChat
	WayParams   Way = "params"   // the sheet with the parameters
	WayModels   Way = "models"   // the page with that name, and so on
	WayNetwork  Way = "network"
	WaySettings Way = "settings"
	WayEarnings Way = "earnings"
)

// problem puts an answer's error in words. Ways are told for the last answer,
// while none is being written.
func (m *Model) problem(msg *thread.Message, last bool) *Problem {
	w, e := m.o.Words, msg.Error
	p := &Problem{}
	p.Text, p.Remedy = w.Code(e.Code, e.Message)
	ways := waysOut(e.Code)
	if msg.Private && (e.Code == protocol.CodeNoRoute || e.Code == protocol.CodeKVBudget || e.Code == protocol.CodeForbidden) {
		p.Text, p.Remedy = w.T("chat.private_refused"), w.T("chat.private_refused_remedy")
		ways = []Way{WayAgain, WayPublic, WayNetwork}
	}
	if fits := e.Detail["fits"]; fits != "" {
		p.Remedy = w.T("chat.fits", "Tokens", fits)
	}
	if e.Hop != nil {
		p.Text += " " + w.T("chat.at_hop", "Hop", *e.Hop+1)
	}
	if last {
		p.Ways = ways
	}
	return p
}

// waysOut says what can help with a code. Trying again is offered unless it must
// fail in the same way.
func waysOut(c protocol.Code) []Way {
	switch c {
	case protocol.CodeContextExceeded, protocol.CodeRequestTooLarge:
		return []Way{WayNewChat, WayParams}
	case protocol.CodeKVBudget:
		return []Way{WayAgain, WayParams, WayNewChat}
	case protocol.CodeModelUnknown, protocol.CodeModelInvalid, protocol.CodeModelUncut, protocol.CodeTemplateInvalid, protocol.CodeDoesNotFit:
		return []Way{WayModels}
	case protocol.CodeNoRoute, protocol.CodeUnavailable:
		return []Way{WayAgain, WayNetwork}
	case protocol.CodeBudget:
		return []Way{WayAgain, WayEarnings}
	case protocol.CodeInvalidRequest, protocol.CodeUnsupported:
		return []Way{WayParams}
	case protocol.CodeUnauthorized, protocol.CodeForbidden, protocol.CodeDiskFull, protocol.CodeDataFolder, protocol.CodePortInUse:
		return []Way{WayAgain, WaySettings}
	}
	return []Way{WayAgain}
}

// Label is what stands on the button of a way.
func (m *Model) Label(way Way) string { return m.o.Words.T("chat.way_" + string(way)) }

// notices are about the file of the chats; the worst is told.
type notices struct {
	save   error  // the last write failed
	memory error  // no file can be had
	aside  string // where a damaged file lies
	// rescued: the file was taken away and is written again.
	rescued bool
	seen    bool // what is told below has been read
}

func (n *notices) view(w *words.Words) *Notice {
	say := func(id string, err error) *Notice {
		e := protocol.AsError(err)
		if store.Damaged(err) {
			return &Notice{w.T(id), w.T("chat.damaged_remedy")}
		}
		text, remedy := w.Code(e.Code, e.Message)
		return &Notice{w.T(id) + " " + text, remedy}
	}
	switch {
	case n.save != nil:
		return say("chat.not_saved", n.save)
	case n.memory != nil:
		return say("chat.only_memory", n.memory)
	case n.seen:
	case n.rescued:
		return &Notice{w.T("chat.rescued"), w.T("chat.rescued_remedy")}
	case n.aside != "":
		return &Notice{w.T("chat.set_aside"), w.T("chat.set_aside_remedy", "File", n.aside)}
	}
	return nil
}

// DismissNotice takes away the notice about a damaged file.
func (m *Model) DismissNotice() { m.notice(func(n *notices) { n.seen = true }) }
