// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// prometheusPackage brings the server and promtool.
var prometheusPackage = Program{"promtool", []string{"prometheus"}}

// Prometheus is a running server that scrapes one target every second.
type Prometheus struct {
	proc *Process
	base string // URL
}

// Series is one value that a query gives.
type Series struct {
	Metric map[string]string
	Value  float64
}

// StartPrometheus starts the distribution's Prometheus with its data in dir.
// scrape are the lines of its scrape configuration behind "scrape_configs:".
func StartPrometheus(ctx context.Context, say func(format string, args ...any), dir, scrape string) (*Prometheus, error) {
	if err := EnsureQuietPrograms(ctx, say, prometheusPackage); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := "global:\n  scrape_interval: 1s\nscrape_configs:\n" + scrape
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	proc, err := StartProcess(filepath.Join(dir, "prometheus.log"), nil, "prometheus", "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	if err != nil {
		return nil, err
	}
	p := &Prometheus{proc: proc, base: "http://" + address}
	err = Eventually(ctx, 30*time.Second, func() error {
		if proc.Ended() {
			return Final(fmt.Errorf("it ended: %s", proc.LogTail(5)))
		}
		_, err := p.Query(ctx, "up")
		return err
	})
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("start Prometheus: %w", err)
	}
	return p, nil
}

// Close ends the server.
func (p *Prometheus) Close() { p.proc.Stop(syscall.SIGTERM, 10*time.Second) }

// Query asks for what an expression gives now.
func (p *Prometheus) Query(ctx context.Context, expression string) ([]Series, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/api/v1/query?query="+url.QueryEscape(expression), nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	return decodeVector(expression, body)
}

func decodeVector(expression string, body []byte) ([]Series, error) {
	var told struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any // time, and the number as text
			}
		}
	}
	if err := json.Unmarshal(body, &told); err != nil {
		return nil, fmt.Errorf("query %q: %w: %s", expression, err, body)
	}
	if told.Status != "success" {
		return nil, fmt.Errorf("query %q: %s", expression, told.Error)
	}
	var all []Series
	for _, r := range told.Data.Result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("query %q: %w", expression, err)
		}
		all = append(all, Series{Metric: r.Metric, Value: value})
	}
	return all, nil
}

// CheckMetrics lets promtool judge the text of a scrape.
func CheckMetrics(ctx context.Context, say func(format string, args ...any), text string) error {
	if err := EnsureQuietPrograms(ctx, say, prometheusPackage); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		return fmt.Errorf("promtool check metrics: %w: %s", err, out)
	}
	return nil
}
