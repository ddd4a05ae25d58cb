//go:build !windows

package llama

// bool (*llama_progress_callback)(float progress, void * user_data);
func progressCallback(fraction float32, _ uintptr) uintptr { return progressed(fraction) }
