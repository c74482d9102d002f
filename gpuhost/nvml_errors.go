// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"time"
)

// Code is an NVML return code.
type Code uint32

// The NVML return codes that make a difference here.
const (
	CodeUninitialized    Code = 1
	CodeInvalidArgument  Code = 2
	CodeNotSupported     Code = 3
	CodeNoPermission     Code = 4
	CodeNotFound         Code = 6
	CodeInsufficientSize Code = 7
	CodeDriverNotLoaded  Code = 9
	CodeTimeout          Code = 10
	CodeLibraryNotFound  Code = 12
	CodeFunctionNotFound Code = 13
	CodeGPUIsLost        Code = 15
	CodeResetRequired    Code = 16
	CodeVersionMismatch  Code = 18
	CodeNoData           Code = 21
	CodeUnknown          Code = 999
)

// codeTexts are fixed texts: asking the library for them is no use when it is
// the library that failed (cases DEV-02).
var codeTexts = map[Code]string{
	CodeUninitialized:    "NVML is not initialised",
	CodeInvalidArgument:  "invalid argument",
	CodeNotSupported:     "not supported",
	CodeNoPermission:     "no permission",
	5:                    "already initialised",
	CodeNotFound:         "not found",
	CodeInsufficientSize: "insufficient size",
	8:                    "external power cables are not attached",
	CodeDriverNotLoaded:  "driver not loaded",
	CodeTimeout:          "timeout",
	11:                   "interrupt problem",
	CodeLibraryNotFound:  "NVML library not found",
	CodeFunctionNotFound: "function not found in this driver's library",
	14:                   "corrupted infoROM",
	CodeGPUIsLost:        "GPU is lost",
	CodeResetRequired:    "GPU requires a reset",
	17:                   "blocked by the operating system",
	CodeVersionMismatch:  "driver/library version mismatch",
	19:                   "in use by another client",
	20:                   "out of memory",
	CodeNoData:           "no data",
	22:                   "ECC is not available with this vGPU",
	23:                   "insufficient resources",
	24:                   "frequency not supported",
	25:                   "argument version mismatch",
	26:                   "deprecated function",
	27:                   "not ready",
	28:                   "GPU not found",
	29:                   "invalid state",
	CodeUnknown:          "unknown error",
}

// String gives the text with its number, "GPU is lost (code 15)".
func (c Code) String() string {
	text, known := codeTexts[c]
	if !known {
		text = "error"
	}
	return fmt.Sprintf("%s (code %d)", text, uint32(c))
}

// Error is a failed NVML call.
type Error struct {
	Call string // the function, "nvmlDeviceGetTemperature"
	Code Code
}

// Error gives the call and the code's text.
func (e *Error) Error() string { return e.Call + ": " + e.Code.String() }

// HungError is an NVML call that did not come back in time. It may still be
// running; it is not repeated before it has returned.
type HungError struct {
	Call  string
	Limit time.Duration
}

// Error names the call and how long it was waited for.
func (e *HungError) Error() string {
	return fmt.Sprintf("NVML does not answer (%s took longer than %s)", e.Call, e.Limit)
}

// codeOf is the NVML code in an error; CodeUnknown for any other error.
func codeOf(err error) Code {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Code
	}
	return CodeUnknown
}

// notTold says whether an error means that the card or its driver does not tell
// a value, which is an ordinary answer.
func notTold(err error) bool {
	var failed *Error
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Code {
	case CodeInvalidArgument, CodeNotSupported, CodeNoPermission, CodeFunctionNotFound, CodeNoData, 22, 24, 25, 26:
		return true
	}
	return false
}

// isFault says whether an error concerns the whole GPU: lost, reset required or
// hanging. Any further question to it is useless.
func isFault(err error) bool {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Code == CodeGPUIsLost || failed.Code == CodeResetRequired
	}
	var hung *HungError
	return errors.As(err, &hung)
}
