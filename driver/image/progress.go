// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	units "github.com/docker/go-units"
)

// message is one object of the engine's pull and load streams. The text fields
// "error" and "progress" are going away (task-driver AN-4); error is read only
// where errorDetail is missing.
type message struct {
	Status         string `json:"status"`
	ID             string `json:"id"`
	Stream         string `json:"stream"`
	ErrorText      string `json:"error"`
	ProgressDetail struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	ErrorDetail struct {
		Message string `json:"message"`
	} `json:"errorDetail"`
}

// failed returns the error inside a message of a stream with status 200.
func (m message) failed() error {
	if m.ErrorDetail.Message != "" {
		return errors.New(m.ErrorDetail.Message)
	}
	if m.ErrorText != "" {
		return errors.New(m.ErrorText)
	}
	return nil
}

// eachMessage reads a stream to its end, to the first error in it, or to the
// first error of see. Objects may arrive in pieces.
func eachMessage(r io.Reader, see func(message)) error {
	dec := json.NewDecoder(r)
	for {
		var m message
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("engine's progress stream broke off: %w", err)
		}
		see(m)
		if err := m.failed(); err != nil {
			return err
		}
	}
}

// layerState is where one layer stands.
type layerState int

const (
	stateWaiting layerState = iota
	statePulling
	stateVerifying
	stateDownloaded
	stateExtracting
	stateDone
)

// layerStates maps the engine's words; other status lines are about no layer.
var layerStates = map[string]layerState{
	"Pulling fs layer":   stateWaiting,
	"Waiting":            stateWaiting,
	"Downloading":        statePulling,
	"Verifying Checksum": stateVerifying,
	"Download complete":  stateDownloaded,
	"Extracting":         stateExtracting,
	"Pull complete":      stateDone,
	"Already exists":     stateDone,
}

// layer is one layer's counts in bytes of the compressed layer; total is 0 until
// the engine tells it.
type layer struct {
	state              layerState
	fetched, extracted int64
	total              int64
}

// progress gathers the messages of one pull. Safe for concurrent use.
type progress struct {
	started time.Time

	mu     sync.Mutex // guards everything below
	layers map[string]*layer
	last   message   // newest message
	moved  time.Time // when last arrived
}

func newProgress(now time.Time) *progress {
	return &progress{started: now, moved: now, layers: map[string]*layer{}}
}

// see takes one message in.
func (p *progress) see(m message, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.moved = m, now
	state, ok := layerStates[m.Status]
	if !ok || m.ID == "" {
		return
	}
	l := p.layers[m.ID]
	if l == nil {
		l = &layer{}
		p.layers[m.ID] = l
	}
	l.advance(state, m.ProgressDetail.Current, m.ProgressDetail.Total)
}

// advance moves a layer on. What is complete counts in full.
func (l *layer) advance(state layerState, current, total int64) {
	l.state = state
	if total > 0 {
		l.total = total
	}
	switch state {
	case statePulling:
		l.fetched = current
	case stateExtracting:
		l.fetched, l.extracted = l.total, current
	case stateVerifying, stateDownloaded:
		l.fetched = l.total
	case stateDone:
		l.fetched, l.extracted = l.total, l.total
	case stateWaiting:
	}
}

// silence is how long nothing has moved. A pull whose layers are verified or unpacked is
// never silent (task-driver IM-10): engines say nothing of that for minutes, and the use of
// their disk stands still while they write much of it back; image_pull_timeout ends
// a pull that hangs there.
func (p *progress) silence(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unpacking() {
		p.moved = now
	}
	return now.Sub(p.moved)
}

// unpacking says that the engine works on its own disk. p.mu is held.
func (p *progress) unpacking() bool {
	finished := len(p.layers) > 0
	for _, l := range p.layers {
		if l.state == stateVerifying || l.state == stateExtracting {
			return true
		}
		if l.state < stateDownloaded {
			finished = false
		}
	}
	return finished
}

// lastMessage is the newest message in words.
func (p *progress) lastMessage() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.last.Status == "":
		return "nothing was received"
	case p.last.ID == "":
		return fmt.Sprintf("the last message was %q", p.last.Status)
	}
	return fmt.Sprintf("the last message was %q of %q", p.last.Status, p.last.ID)
}

// totals are the sums over all layers.
type totals struct {
	layers, done, waiting, pulling, extracting int
	fetched, extracted, total                  int64 // bytes
}

func (p *progress) sum() totals {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := totals{layers: len(p.layers)}
	for _, l := range p.layers {
		t.fetched += l.fetched
		t.extracted += l.extracted
		t.total += l.total
		switch l.state {
		case stateDone:
			t.done++
		case stateWaiting:
			t.waiting++
		case stateExtracting:
			t.extracting++
		case statePulling, stateVerifying, stateDownloaded:
			t.pulling++
		}
	}
	return t
}

// text is the line for people (task-driver IM-11), with the unpacking beside it
// once that has begun (IM-12).
func (p *progress) text(now time.Time) string {
	t := p.sum()
	line := fmt.Sprintf("Docker image pull progress: Pulled %d/%d (%s/%s) layers: %d waiting/%d pulling",
		t.done, t.layers, units.BytesSize(float64(t.fetched)), units.BytesSize(float64(t.total)), t.waiting, t.pulling+t.extracting)
	if t.extracting > 0 {
		line += fmt.Sprintf("/%d extracting (%s/%s)", t.extracting, units.BytesSize(float64(t.extracted)), units.BytesSize(float64(t.total)))
	}
	if left, ok := t.remaining(now.Sub(p.started)); ok {
		line += fmt.Sprintf(" - est %s remaining", left)
	}
	return line
}

// remaining extrapolates the download in whole seconds; false when nothing can
// be said yet.
func (t totals) remaining(elapsed time.Duration) (time.Duration, bool) {
	if t.fetched <= 0 || t.total <= t.fetched {
		return 0, false
	}
	left := elapsed.Seconds() / float64(t.fetched) * float64(t.total-t.fetched)
	return (time.Duration(left) * time.Second).Round(time.Second), true
}
