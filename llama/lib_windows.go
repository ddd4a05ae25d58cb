package llama

import "golang.org/x/sys/windows"

// openLibrary takes an absolute path and looks for the library's own imports in
// its folder and in the system's, never in the working directory or PATH.
func openLibrary(path string) (uintptr, error) {
	h, err := windows.LoadLibraryEx(path, 0,
		windows.LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR|windows.LOAD_LIBRARY_SEARCH_DEFAULT_DIRS)
	return uintptr(h), err
}

func librarySymbol(lib uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(lib), name)
}
