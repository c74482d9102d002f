// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package cli is the command line of gpu-docker. The commands are thin: each
// asks the packages below and prints what they know.
//
// The same binary has several roles. [RoleOf] tells which one a call means, from
// the program's name, Nomad's handshake cookie and the first argument; main hands
// over accordingly. Called as nvidia-docker it is the wrapper of nvidia-docker
// v1, which lives in the sub-package wrapper.
//
// Exit codes are stable: 0 done, 1 failed, 2 wrong usage. check and doctor give
// them a meaning of their own, which their help tells.
package cli
