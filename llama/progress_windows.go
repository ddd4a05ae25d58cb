package llama

// bool (*llama_progress_callback)(float progress, void * user_data);
//
// A Go callback on Windows cannot read a float argument, so the fraction is not
// known here: the receiver gets -1 and can still stop the load.
func progressCallback(_ uintptr) uintptr { return progressed(-1) }
