// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// sameContent says whether two files are one, or have the same bytes.
func sameContent(a, b string) (bool, error) {
	fa, err := os.Open(a)
	if err != nil {
		return false, fmt.Errorf("compare files: %w", err)
	}
	defer fa.Close()
	fb, err := os.Open(b)
	if err != nil {
		return false, fmt.Errorf("compare files: %w", err)
	}
	defer fb.Close()
	sa, err := fa.Stat()
	if err != nil {
		return false, fmt.Errorf("compare files: %w", err)
	}
	sb, err := fb.Stat()
	if err != nil {
		return false, fmt.Errorf("compare files: %w", err)
	}
	if os.SameFile(sa, sb) {
		return true, nil
	}
	if sa.Size() != sb.Size() {
		return false, nil
	}
	return sameBytes(fa, fb)
}

func sameBytes(a, b io.Reader) (bool, error) {
	bufA, bufB := make([]byte, copyBufferBytes), make([]byte, copyBufferBytes)
	for {
		na, errA := io.ReadFull(a, bufA)
		nb, errB := io.ReadFull(b, bufB)
		if !bytes.Equal(bufA[:na], bufB[:nb]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			ended := (errA == io.EOF || errA == io.ErrUnexpectedEOF) && (errB == io.EOF || errB == io.ErrUnexpectedEOF)
			if ended {
				return true, nil
			}
			return false, fmt.Errorf("compare files: %w, %w", errA, errB)
		}
	}
}
