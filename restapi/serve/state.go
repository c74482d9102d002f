// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import "fmt"

// Status is what a process serves at one moment.
type Status struct {
	API     Endpoint
	Volumes Endpoint
}

// State of an endpoint.
type State string

// The states of an endpoint.
const (
	Off     State = "off"     // not configured
	Waiting State = "waiting" // taken or not usable now; tried again
	Serving State = "serving"
	Stopped State = "stopped"
)

// Endpoint is the API's port or the volume plugin's socket.
type Endpoint struct {
	State   State
	Address string // host:port or path of the socket; the real port once serving
	// Reason tells in one line why the endpoint waits, "127.0.0.1:3476 is taken
	// by process 812 (nvidia-docker-plugin)"; empty otherwise.
	Reason string
}

// String gives the address of a serving endpoint, else why it does not serve.
func (e Endpoint) String() string {
	switch e.State {
	case Serving:
		return e.Address
	case Waiting:
		return e.Reason
	default:
		return string(e.State)
	}
}

// TakenError says that another live process has the port or the socket.
type TakenError struct {
	Address string
	PID     int    // 0 when unknown
	Process string // the owner's name, empty when unknown
}

// Error tells who has it.
func (e *TakenError) Error() string {
	switch {
	case e.PID == 0:
		return fmt.Sprintf("%s is taken by another process", e.Address)
	case e.Process == "":
		return fmt.Sprintf("%s is taken by process %d", e.Address, e.PID)
	default:
		return fmt.Sprintf("%s is taken by process %d (%s)", e.Address, e.PID, e.Process)
	}
}
