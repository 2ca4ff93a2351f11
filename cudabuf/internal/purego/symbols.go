package purego

// symbol is one function of libcuda, an index into Driver.entry.
type symbol int

const (
	cuInit symbol = iota
	cuDriverGetVersion
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetUuid
	cuDeviceGetAttribute
	cuDeviceTotalMem
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxSetCurrent
	cuCtxSynchronize
	cuMemGetInfo
	cuMemAlloc
	cuMemFree
	cuMemHostAlloc
	cuMemFreeHost
	cuStreamCreateWithPriority
	cuStreamDestroy
	cuStreamSynchronize
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemcpyPeerAsync
	cuMemsetD8Async
	cuModuleLoadData
	cuModuleUnload
	cuModuleGetFunction
	cuLaunchKernel
	symbolCount
)

// symbols names what libcuda exports for each call. cuda.h maps the plain name
// of a call to its newest form by macro (cuMemAlloc to cuMemAlloc_v2); the form
// with the parameters that this package passes is named here. Of several names
// the first that is there serves.
var symbols = [symbolCount]struct {
	call     string
	names    []string
	optional bool
}{
	cuInit:                     {call: "cuInit"},
	cuDriverGetVersion:         {call: "cuDriverGetVersion"},
	cuDeviceGetCount:           {call: "cuDeviceGetCount"},
	cuDeviceGet:                {call: "cuDeviceGet"},
	cuDeviceGetName:            {call: "cuDeviceGetName"},
	cuDeviceGetUuid:            {call: "cuDeviceGetUuid", names: []string{"cuDeviceGetUuid_v2", "cuDeviceGetUuid"}, optional: true},
	cuDeviceGetAttribute:       {call: "cuDeviceGetAttribute"},
	cuDeviceTotalMem:           {call: "cuDeviceTotalMem", names: []string{"cuDeviceTotalMem_v2"}},
	cuDevicePrimaryCtxRetain:   {call: "cuDevicePrimaryCtxRetain"},
	cuDevicePrimaryCtxRelease:  {call: "cuDevicePrimaryCtxRelease", names: []string{"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"}},
	cuCtxSetCurrent:            {call: "cuCtxSetCurrent"},
	cuCtxSynchronize:           {call: "cuCtxSynchronize"},
	cuMemGetInfo:               {call: "cuMemGetInfo", names: []string{"cuMemGetInfo_v2"}},
	cuMemAlloc:                 {call: "cuMemAlloc", names: []string{"cuMemAlloc_v2"}},
	cuMemFree:                  {call: "cuMemFree", names: []string{"cuMemFree_v2"}},
	cuMemHostAlloc:             {call: "cuMemHostAlloc"},
	cuMemFreeHost:              {call: "cuMemFreeHost"},
	cuStreamCreateWithPriority: {call: "cuStreamCreateWithPriority"},
	cuStreamDestroy:            {call: "cuStreamDestroy", names: []string{"cuStreamDestroy_v2"}},
	cuStreamSynchronize:        {call: "cuStreamSynchronize"},
	cuMemcpyHtoDAsync:          {call: "cuMemcpyHtoDAsync", names: []string{"cuMemcpyHtoDAsync_v2"}},
	cuMemcpyDtoHAsync:          {call: "cuMemcpyDtoHAsync", names: []string{"cuMemcpyDtoHAsync_v2"}},
	cuMemcpyDtoDAsync:          {call: "cuMemcpyDtoDAsync", names: []string{"cuMemcpyDtoDAsync_v2"}},
	cuMemcpyPeerAsync:          {call: "cuMemcpyPeerAsync", optional: true},
	cuMemsetD8Async:            {call: "cuMemsetD8Async"},
	cuModuleLoadData:           {call: "cuModuleLoadData"},
	cuModuleUnload:             {call: "cuModuleUnload"},
	cuModuleGetFunction:        {call: "cuModuleGetFunction"},
	cuLaunchKernel:             {call: "cuLaunchKernel"},
}

// exports lists the names to look a symbol up by.
func (s symbol) exports() []string {
	if names := symbols[s].names; len(names) > 0 {
		return names
	}
	return []string{symbols[s].call}
}
