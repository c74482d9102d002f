// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"errors"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// nvmlWords are NVML's own words for its return codes. v1 handed them to its
// clients as they are, so they are part of the wire text.
var nvmlWords = map[gpuhost.Code]string{
	gpuhost.CodeUninitialized:    "Uninitialized",
	gpuhost.CodeInvalidArgument:  "Invalid Argument",
	gpuhost.CodeNotSupported:     "Not Supported",
	gpuhost.CodeNoPermission:     "Insufficient Permissions",
	gpuhost.CodeNotFound:         "Not Found",
	gpuhost.CodeDriverNotLoaded:  "Driver Not Loaded",
	gpuhost.CodeTimeout:          "Timeout",
	gpuhost.CodeLibraryNotFound:  "NVML Shared Library Not Found",
	gpuhost.CodeFunctionNotFound: "Function Not Found",
	gpuhost.CodeGPUIsLost:        "GPU is lost",
	gpuhost.CodeResetRequired:    "GPU requires restart",
	gpuhost.CodeVersionMismatch:  "Driver/library version mismatch",
	gpuhost.CodeUnknown:          "Unknown Error",
}

// wireText is an error as clients of v1 know it: NVML's own words where NVML
// failed, else the error's text.
func wireText(err error) string {
	var failed *gpuhost.Error
	if errors.As(err, &failed) {
		if words, known := nvmlWords[failed.Code]; known {
			return "nvml: " + words
		}
	}
	return err.Error()
}
