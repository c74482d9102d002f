// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// devtool speaks Chromium's DevTools protocol over two pipes: JSON messages that
// end with a NUL byte.
type devtool struct {
	in     *bufio.Reader
	out    *os.File
	read   *os.File
	lastID int
	events []devtoolMessage // that came while an answer was waited for
}

type object map[string]any

type devtoolMessage struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct{ Message string }
}

// devtoolLimit bounds the wait for one message.
const devtoolLimit = 30 * time.Second

// startDevtool starts a browser with pipes as its descriptors 3 and 4.
func startDevtool(cmd *exec.Cmd) (*devtool, error) {
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), ourOut.Close())
	}
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	err = errors.Join(cmd.Start(), theirIn.Close(), theirOut.Close())
	if err != nil {
		return nil, errors.Join(err, ourIn.Close(), ourOut.Close())
	}
	return &devtool{in: bufio.NewReader(ourIn), read: ourIn, out: ourOut}, nil
}

// call asks for a method and decodes its result unless that is nil.
func (d *devtool) call(session, method string, params object, result any) error {
	d.lastID++
	request := object{"id": d.lastID, "method": method}
	if params != nil {
		request["params"] = params
	}
	if session != "" {
		request["sessionId"] = session
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := d.out.Write(append(text, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		m, err := d.next()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", method, err)
		case m.ID != d.lastID:
			d.events = append(d.events, m)
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(m.Result, result)
		}
	}
}

// until waits for an event and gives the browser's complaints that came before.
func (d *devtool) until(event string) (complaints []string, err error) {
	for {
		var m devtoolMessage
		if len(d.events) > 0 {
			m, d.events = d.events[0], d.events[1:]
		} else if m, err = d.next(); err != nil {
			return complaints, fmt.Errorf("waiting for %s: %w", event, err)
		}
		switch m.Method {
		case event:
			return complaints, nil
		case "Log.entryAdded":
			var entry struct{ Entry struct{ Text string } }
			if err := json.Unmarshal(m.Params, &entry); err != nil {
				return complaints, err
			}
			complaints = append(complaints, entry.Entry.Text)
		}
	}
}

func (d *devtool) next() (devtoolMessage, error) {
	var m devtoolMessage
	if err := d.read.SetReadDeadline(time.Now().Add(devtoolLimit)); err != nil {
		return m, err
	}
	text, err := d.in.ReadBytes(0)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(text[:len(text)-1], &m)
}

func (d *devtool) close() error { return errors.Join(d.read.Close(), d.out.Close()) }
