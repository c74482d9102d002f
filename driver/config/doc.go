// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package config holds the options of the task driver: those of the plugin
// block in the agent's configuration ([Plugin]) and those of a task's config
// block ([Task]). For each of them schema, defaults, struct and validation stand
// together in one file, and docs/configuration.md is tested against them.
//
// The way of a configuration: Nomad checks the HCL or JSON text against
// [PluginSpec] or [TaskSpec] and sends the values as MessagePack, absent ones as
// nil; [DecodePlugin] and [DecodeTask] decode and validate them. Validation is
// also what parses durations: a field XText holds the words of the user, X the
// value. Every fault is reported, each with its HCL path, joined by errors.Join.
//
// Nothing here looks at the host or talks to an engine, so that a valid
// configuration stays valid whatever the state of the machine.
package config
