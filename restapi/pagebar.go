// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"fmt"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// bar is one reading as part of a whole.
type bar struct {
	Label   string
	Text    string
	Known   bool
	Percent uint64 // of the whole, at most 100
	Level   string // "warn" or "high" when it should be looked at, else empty
}

// hotCelsius is the full length of the bar for the temperature.
const hotCelsius = 100

// thresholds are the percentages from where a bar warns and alarms; never is beyond
// any bar.
type thresholds struct{ warn, high uint64 }

const never = 101

var (
	anything    = thresholds{never, never}
	ofMemory    = thresholds{90, 97}
	ofHeat      = thresholds{80, 88}
	ofPowerDraw = thresholds{98, never}
)

func gpuBars(g *gpuhost.GPU, r *gpuhost.Reading) []bar {
	return []bar{
		percentBar("Utilisation", r.GPUPercent),
		memoryBar(r.MemoryUsedBytes, globalBytes(g)),
		temperatureBar(r.TemperatureCelsius),
		shareBar("Power", scaled(r.PowerMilliwatts, kilo), scaled(g.PowerLimitMilliwatts, kilo), " W", ofPowerDraw),
	}
}

func memoryBar(used, total *uint64) bar {
	return shareBar("Memory", scaled(used, mebi), scaled(total, mebi), " MiB", ofMemory)
}

func percentBar(label string, v *uint64) bar {
	if v == nil {
		return bar{Label: label, Text: notAvailable}
	}
	return newBar(label, fmt.Sprintf("%d %%", *v), *v, anything)
}

func temperatureBar(v *uint64) bar {
	const label = "Temperature"
	if v == nil {
		return bar{Label: label, Text: notAvailable}
	}
	return newBar(label, fmt.Sprintf("%d °C", *v), *v*100/hotCelsius, ofHeat)
}

// shareBar shows a part of a whole; without the whole it is no bar.
func shareBar(label string, used, total *uint64, unit string, l thresholds) bar {
	if used == nil || total == nil || *total == 0 {
		return bar{Label: label, Text: number(used, unit)}
	}
	return newBar(label, share(used, total, unit), *used*100 / *total, l)
}

func newBar(label, text string, percent uint64, l thresholds) bar {
	b := bar{Label: label, Text: text, Known: true, Percent: min(percent, 100)}
	switch {
	case b.Percent >= l.high:
		b.Level = "high"
	case b.Percent >= l.warn:
		b.Level = "warn"
	}
	return b
}
