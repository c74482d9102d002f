// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

// Ahead has the engine's log files of a container open from the first one on: a
// task may fill several and end before a Shipper is there, and the engine keeps
// only the last ones. Nil is a valid Ahead that has none.
type Ahead struct {
	path  string
	files *watchedFiles
}

// Expect waits, without a goroutine of its own, for the log of a container that
// was created and has not been started. path is where the engine will write it;
// its folder must exist. Give the result to a Shipper, or close it.
func Expect(w *Watcher, path string) (*Ahead, error) {
	files, err := watchLogFiles(w, path)
	if err != nil {
		return nil, err
	}
	return &Ahead{path, files}, nil
}

// Close lets the files go, unless a Shipper has taken them.
func (a *Ahead) Close() {
	if files := a.take(); files != nil {
		files.close()
	}
}

// take gives the files to whoever calls first.
func (a *Ahead) take() *watchedFiles {
	if a == nil {
		return nil
	}
	files := a.files
	a.files = nil
	return files
}
