// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package serve composes what one process serves to its host: the REST API on
// TCP port 3476 and the volume plugin on its unix socket. The task driver and
// "gpu-docker serve" share it.
//
// Only one process of a host can own the port, and only one the socket. A
// process that finds one taken says by whom, in its log and in [Server.Status],
// goes on with everything else, and takes over within a second of the owner's
// end. A taken port is therefore never an error of [Start].
//
// The two are independent: a foreign program on the port does not cost the host
// its volumes.
package serve
