package stage

// Pid is the process id of the living child, 0 without one.
func (t *Text) Pid() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.child == nil {
		return 0
	}
	return t.child.cmd.Process.Pid
}
