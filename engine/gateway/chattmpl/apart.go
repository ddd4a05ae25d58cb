package chattmpl

import "slices"

// Apart gives each call a message of its own with its answer behind it: templates
// of answers in channels show the first call of a message alone, and take an
// answer for that of the call before it.
func Apart(msgs []Message) []Message {
	var out []Message
	for i := 0; i < len(msgs); i++ {
		m := msgs[i]
		if len(m.ToolCalls) < 2 {
			out = append(out, m)
			continue
		}
		end := i + 1
		for end < len(msgs) && msgs[end].Role == "tool" {
			end++
		}
		answers := slices.Clone(msgs[i+1 : end])
		for n, call := range m.ToolCalls {
			one := m
			one.ToolCalls = []ToolCall{call}
			if n > 0 {
				one.Content, one.NoContent = "", true
			}
			out = append(out, one)
			if at := slices.IndexFunc(answers, func(a Message) bool { return a.ToolCallID == call.ID }); at >= 0 {
				out = append(out, answers[at])
				answers = slices.Delete(answers, at, at+1)
			}
		}
		out = append(out, answers...) // of calls that nobody has made
		i = end - 1
	}
	return out
}
