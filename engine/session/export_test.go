package session

// AlwaysDraft makes sessions guess whatever it costs.
func AlwaysDraft(o *Options) { o.alwaysDraft = true }
