// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package accounting

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// maxFileBytes is from where a file is renamed to ".1", which replaces an older
// one: two files of about 16 MiB, some 60,000 records, are kept.
const maxFileBytes = 16 << 20

// recordFile appends records to a file.
type recordFile struct {
	path string

	mu sync.Mutex // one writer at a time
}

func (f *recordFile) add(r *Record) error {
	if f.path == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.rotate(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

func (f *recordFile) rotate() error {
	info, err := os.Stat(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Size() < maxFileBytes {
		return nil
	}
	if err := os.Rename(f.path, f.path+".1"); err != nil {
		return fmt.Errorf("making room for records: %w", err)
	}
	return nil
}
