// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Browser is a headless Chromium with one page. Not for concurrent use.
type Browser struct {
	cmd     *exec.Cmd
	devtool *devtool
	session string
}

// StartBrowser starts the machine's Chromium, installing it when it is missing,
// with a profile in dir. script says whether pages may run scripts.
func StartBrowser(ctx context.Context, say func(format string, args ...any), dir string, script bool) (*Browser, error) {
	chromium := Program{"chromium", []string{"chromium", "fonts-dejavu-core"}}
	if err := EnsurePrograms(ctx, say, chromium); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--no-first-run", "--remote-debugging-pipe", "--user-data-dir="+dir, "about:blank")
	tool, err := startDevtool(cmd)
	if err != nil {
		return nil, fmt.Errorf("start Chromium: %w", err)
	}
	b := &Browser{cmd: cmd, devtool: tool}
	if err := b.attach(script); err != nil {
		return nil, errors.Join(fmt.Errorf("start Chromium: %w", err), b.Close())
	}
	return b, nil
}

// attach opens a page and turns on the events that Open waits for.
func (b *Browser) attach(script bool) error {
	var target struct{ TargetID string }
	if err := b.devtool.call("", "Target.createTarget", object{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := b.devtool.call("", "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	b.session = attached.SessionID
	return errors.Join(
		b.call("Page.enable", nil, nil),
		b.call("Log.enable", nil, nil),
		b.call("Emulation.setScriptExecutionDisabled", object{"value": !script}, nil),
	)
}

func (b *Browser) call(method string, params object, result any) error {
	return b.devtool.call(b.session, method, params, result)
}

// Open loads a page in a window of this width and waits until it is complete.
// What the browser complains about on the way is an error.
func (b *Browser) Open(url string, width int) error {
	metrics := object{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
	if err := b.call("Emulation.setDeviceMetricsOverride", metrics, nil); err != nil {
		return err
	}
	var navigated struct{ ErrorText string }
	if err := b.call("Page.navigate", object{"url": url}, &navigated); err != nil {
		return err
	}
	if navigated.ErrorText != "" {
		return fmt.Errorf("open %q: %s", url, navigated.ErrorText)
	}
	complaints, err := b.devtool.until("Page.loadEventFired")
	if err == nil && len(complaints) > 0 {
		err = fmt.Errorf("%q: the browser complains: %v", url, complaints)
	}
	return err
}

// Evaluate gives the value of an expression in the page, also where the page
// itself may run no script.
func (b *Browser) Evaluate(expression string, value any) error {
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	if err := b.call("Runtime.evaluate", object{"expression": expression, "returnByValue": true}, &answer); err != nil {
		return err
	}
	if answer.ExceptionDetails != nil {
		return fmt.Errorf("evaluate %q: %s", expression, answer.ExceptionDetails.Text)
	}
	return json.Unmarshal(answer.Result.Value, value)
}

// Screenshot writes the whole page as a PNG file.
func (b *Browser) Screenshot(file string) error {
	var shot struct{ Data string }
	if err := b.call("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": true}, &shot); err != nil {
		return err
	}
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		return err
	}
	return os.WriteFile(file, png, 0o644)
}

// Close ends the browser.
func (b *Browser) Close() error {
	_ = b.devtool.call("", "Browser.close", nil, nil) // it may be gone before it answers
	done := make(chan struct{})
	go func() {
		_ = b.cmd.Wait() // how it ended is of no interest
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = b.cmd.Process.Kill()
		<-done
	}
	return b.devtool.close()
}
