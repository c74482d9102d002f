// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// The field values that we ask, by NVML's numbers.
const (
	fieldECCL1           = 8
	fieldECCL2           = 10
	fieldECCDevice       = 12
	fieldRetiredSingle   = 29
	fieldRetiredDouble   = 30
	fieldRetiredPending  = 31
	fieldMemoryTemp      = 82
	fieldEnergy          = 83
	fieldNVLinkTx        = 138
	fieldNVLinkRx        = 139
	fieldRemapCorrected  = 142
	fieldRemapUncorrect  = 143
	fieldRemapPending    = 144
	fieldRemapFailed     = 145
	fieldPowerAverage    = 185
	fieldPowerInstant    = 186
	fieldScopeAllNVLinks = math.MaxUint32
)

// askFields asks many fields with one call. Fields that the card does not tell
// are not in the answer, which is nil without support for fields.
func askFields(a *asker, device uintptr, fields []uint32) map[uint32]uint64 {
	values := make([]nvmlFieldValue, len(fields))
	for i, field := range fields {
		values[i].fieldID = field
		if field == fieldNVLinkTx || field == fieldNVLinkRx {
			values[i].scopeID = fieldScopeAllNVLinks
		}
	}
	if err := a.call(fnFieldValues, device, uintptr(len(values)), uintptr(unsafe.Pointer(&values[0]))); err != nil {
		a.refused(err)
		return nil
	}
	told := make(map[uint32]uint64, len(values))
	for _, value := range values {
		if number, ok := value.number(); ok {
			told[value.fieldID] = number
		}
	}
	return told
}

// number reads a field's value; false when the card does not tell it.
func (v *nvmlFieldValue) number() (uint64, bool) {
	if v.code != 0 {
		return 0, false
	}
	raw := binary.NativeEndian.Uint64(v.value[:])
	switch v.valueType {
	case valueUint:
		return uint64(binary.NativeEndian.Uint32(v.value[:])), true
	case valueUlong, valueUlonglong:
		return raw, raw != noValue
	case valueLonglong:
		return raw, int64(raw) >= 0
	case valueInt:
		number := int32(binary.NativeEndian.Uint32(v.value[:]))
		return uint64(number), number >= 0
	case valueUshort:
		return uint64(binary.NativeEndian.Uint16(v.value[:])), true
	case valueDouble:
		number := math.Float64frombits(raw)
		return uint64(number), number >= 0
	}
	return 0, false
}
