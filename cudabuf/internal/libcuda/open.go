//go:build linux

package libcuda

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Override is the environment variable with the path of the library. If it is
// set, no other path is tried.
const Override = "QUIVER_LIBCUDA"

// searchPaths are locations that the dynamic loader does not search: those of
// WSL, NixOS and container platforms.
var searchPaths = []string{
	"/usr/lib/wsl/lib/libcuda.so.1",
	"/run/opengl-driver/lib/libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
}

// Open opens libcuda and looks its functions up. Without a library it returns
// an error wrapping driver.ErrNoDriver that names the paths tried. If a
// required function is missing, the error names it.
func Open() (driver.API, error) {
	candidates := append([]string{"libcuda.so.1"}, searchPaths...)
	if path := os.Getenv(Override); path != "" {
		candidates = []string{path}
	}
	var tried []string
	for _, path := range candidates {
		library, err := openLibrary(path)
		if err == nil {
			return newDriver(path, library)
		}
		tried = append(tried, describeOpenError(path, err))
	}
	return nil, fmt.Errorf("%w: tried %s; LD_LIBRARY_PATH is %q. Install the NVIDIA driver, or set %s to the path of libcuda.so.1",
		driver.ErrNoDriver, strings.Join(tried, ", "), os.Getenv("LD_LIBRARY_PATH"), Override)
}

// describeOpenError returns the path with the reason why it was not opened. If
// the file exists, the reason is the loader's message, such as a wrong
// architecture or a missing dependency.
func describeOpenError(path string, err error) string {
	if !strings.Contains(path, "/") {
		return fmt.Sprintf("%s in the dynamic loader's path (%v)", path, err)
	}
	if _, missing := os.Stat(path); errors.Is(missing, fs.ErrNotExist) {
		return path + " (no such file)"
	}
	return fmt.Sprintf("%s (%v)", path, err)
}

// newDriver looks up all functions in the open library at path.
func newDriver(path string, library uintptr) (*Driver, error) {
	d := &Driver{path: path}
	for s := range symbolCount {
		for _, name := range s.exportNames() {
			if d.entries[s] = lookupSymbol(library, name); d.entries[s] != 0 {
				break
			}
		}
		if d.entries[s] == 0 && !symbols[s].optional {
			return nil, fmt.Errorf("%s lacks %s: not a CUDA driver, or too old", path, strings.Join(s.exportNames(), " and "))
		}
	}
	return d, nil
}

// symbol is a function of libcuda, and its index in Driver.entries.
type symbol int

const (
	cuInit symbol = iota
	cuDriverGetVersion
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetUuid
	cuDeviceGetPCIBusId
	cuDeviceGetAttribute
	cuDeviceTotalMem
	cuDeviceCanAccessPeer
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuDevicePrimaryCtxGetState
	cuDevicePrimaryCtxSetFlags
	cuCtxCreate
	cuCtxDestroy
	cuCtxSetCurrent
	cuCtxGetCurrent
	cuCtxGetDevice
	cuCtxSynchronize
	cuCtxGetStreamPriorityRange
	cuCtxEnablePeerAccess
	cuMemGetInfo
	cuMemAlloc
	cuMemFree
	cuMemAllocManaged
	cuMemAdvise
	cuMemPrefetchAsync
	cuMemGetAddressRange
	cuPointerGetAttribute
	cuMemHostAlloc
	cuMemFreeHost
	cuMemHostRegister
	cuMemHostUnregister
	cuMemHostGetDevicePointer
	cuMemAllocAsync
	cuMemFreeAsync
	cuDeviceGetDefaultMemPool
	cuMemPoolCreate
	cuMemPoolDestroy
	cuMemPoolTrimTo
	cuMemPoolSetAttribute
	cuMemPoolGetAttribute
	cuMemPoolSetAccess
	cuMemAllocFromPoolAsync
	cuMemPoolExportToShareableHandle
	cuMemPoolImportFromShareableHandle
	cuMemPoolExportPointer
	cuMemPoolImportPointer
	cuMemGetAllocationGranularity
	cuMemCreate
	cuMemRelease
	cuMemAddressReserve
	cuMemAddressFree
	cuMemMap
	cuMemUnmap
	cuMemSetAccess
	cuMemExportToShareableHandle
	cuMemImportFromShareableHandle
	cuIpcGetMemHandle
	cuIpcOpenMemHandle
	cuIpcCloseMemHandle
	cuIpcGetEventHandle
	cuIpcOpenEventHandle
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemcpyPeerAsync
	cuMemsetD8Async
	cuStreamCreateWithPriority
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamQuery
	cuStreamWaitEvent
	cuStreamGetPriority
	cuStreamGetCtx
	cuLaunchHostFunc
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventQuery
	cuEventSynchronize
	cuEventElapsedTime
	cuStreamBeginCapture
	cuStreamEndCapture
	cuGraphInstantiate
	cuGraphLaunch
	cuGraphExecDestroy
	cuGraphDestroy
	cuModuleLoadDataEx
	cuModuleUnload
	cuModuleGetFunction
	cuFuncGetAttribute
	cuFuncSetAttribute
	cuFuncGetParamInfo
	cuOccupancyMaxActiveBlocksPerMultiprocessor
	cuOccupancyMaxPotentialBlockSize
	cuLaunchKernel
	symbolCount
)

// symbols holds the exported names of each call. cuda.h maps the name of a call
// to its newest version by macro, such as cuMemAlloc to cuMemAlloc_v2. CUDA 13
// maps some names to versions with other parameters. This table names the
// version whose parameters this package passes. The first exported name is
// used.
//
// Calls are optional unless opening a device, copying and running kernels need
// them.
var symbols = [symbolCount]struct {
	call     string
	names    []string
	optional bool
}{
	cuInit:                             {call: "cuInit"},
	cuDriverGetVersion:                 {call: "cuDriverGetVersion"},
	cuDeviceGetCount:                   {call: "cuDeviceGetCount"},
	cuDeviceGet:                        {call: "cuDeviceGet"},
	cuDeviceGetName:                    {call: "cuDeviceGetName"},
	cuDeviceGetUuid:                    {call: "cuDeviceGetUuid", names: []string{"cuDeviceGetUuid_v2", "cuDeviceGetUuid"}, optional: true},
	cuDeviceGetPCIBusId:                {call: "cuDeviceGetPCIBusId", optional: true},
	cuDeviceGetAttribute:               {call: "cuDeviceGetAttribute"},
	cuDeviceTotalMem:                   {call: "cuDeviceTotalMem", names: []string{"cuDeviceTotalMem_v2"}},
	cuDeviceCanAccessPeer:              {call: "cuDeviceCanAccessPeer", optional: true},
	cuDevicePrimaryCtxRetain:           {call: "cuDevicePrimaryCtxRetain"},
	cuDevicePrimaryCtxRelease:          {call: "cuDevicePrimaryCtxRelease", names: []string{"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"}},
	cuDevicePrimaryCtxGetState:         {call: "cuDevicePrimaryCtxGetState", optional: true},
	cuDevicePrimaryCtxSetFlags:         {call: "cuDevicePrimaryCtxSetFlags", names: []string{"cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxSetFlags"}, optional: true},
	cuCtxCreate:                        {call: "cuCtxCreate", names: []string{"cuCtxCreate_v2"}, optional: true},
	cuCtxDestroy:                       {call: "cuCtxDestroy", names: []string{"cuCtxDestroy_v2"}, optional: true},
	cuCtxSetCurrent:                    {call: "cuCtxSetCurrent"},
	cuCtxGetCurrent:                    {call: "cuCtxGetCurrent", optional: true},
	cuCtxGetDevice:                     {call: "cuCtxGetDevice", optional: true},
	cuCtxSynchronize:                   {call: "cuCtxSynchronize"},
	cuCtxGetStreamPriorityRange:        {call: "cuCtxGetStreamPriorityRange", optional: true},
	cuCtxEnablePeerAccess:              {call: "cuCtxEnablePeerAccess", optional: true},
	cuMemGetInfo:                       {call: "cuMemGetInfo", names: []string{"cuMemGetInfo_v2"}},
	cuMemAlloc:                         {call: "cuMemAlloc", names: []string{"cuMemAlloc_v2"}},
	cuMemFree:                          {call: "cuMemFree", names: []string{"cuMemFree_v2"}},
	cuMemAllocManaged:                  {call: "cuMemAllocManaged", optional: true},
	cuMemAdvise:                        {call: "cuMemAdvise", optional: true},
	cuMemPrefetchAsync:                 {call: "cuMemPrefetchAsync", optional: true},
	cuMemGetAddressRange:               {call: "cuMemGetAddressRange", names: []string{"cuMemGetAddressRange_v2"}, optional: true},
	cuPointerGetAttribute:              {call: "cuPointerGetAttribute", optional: true},
	cuMemHostAlloc:                     {call: "cuMemHostAlloc"},
	cuMemFreeHost:                      {call: "cuMemFreeHost"},
	cuMemHostRegister:                  {call: "cuMemHostRegister", names: []string{"cuMemHostRegister_v2"}, optional: true},
	cuMemHostUnregister:                {call: "cuMemHostUnregister", optional: true},
	cuMemHostGetDevicePointer:          {call: "cuMemHostGetDevicePointer", names: []string{"cuMemHostGetDevicePointer_v2"}, optional: true},
	cuMemAllocAsync:                    {call: "cuMemAllocAsync", optional: true},
	cuMemFreeAsync:                     {call: "cuMemFreeAsync", optional: true},
	cuDeviceGetDefaultMemPool:          {call: "cuDeviceGetDefaultMemPool", optional: true},
	cuMemPoolCreate:                    {call: "cuMemPoolCreate", optional: true},
	cuMemPoolDestroy:                   {call: "cuMemPoolDestroy", optional: true},
	cuMemPoolTrimTo:                    {call: "cuMemPoolTrimTo", optional: true},
	cuMemPoolSetAttribute:              {call: "cuMemPoolSetAttribute", optional: true},
	cuMemPoolGetAttribute:              {call: "cuMemPoolGetAttribute", optional: true},
	cuMemPoolSetAccess:                 {call: "cuMemPoolSetAccess", optional: true},
	cuMemAllocFromPoolAsync:            {call: "cuMemAllocFromPoolAsync", optional: true},
	cuMemPoolExportToShareableHandle:   {call: "cuMemPoolExportToShareableHandle", optional: true},
	cuMemPoolImportFromShareableHandle: {call: "cuMemPoolImportFromShareableHandle", optional: true},
	cuMemPoolExportPointer:             {call: "cuMemPoolExportPointer", optional: true},
	cuMemPoolImportPointer:             {call: "cuMemPoolImportPointer", optional: true},
	cuMemGetAllocationGranularity:      {call: "cuMemGetAllocationGranularity", optional: true},
	cuMemCreate:                        {call: "cuMemCreate", optional: true},
	cuMemRelease:                       {call: "cuMemRelease", optional: true},
	cuMemAddressReserve:                {call: "cuMemAddressReserve", optional: true},
	cuMemAddressFree:                   {call: "cuMemAddressFree", optional: true},
	cuMemMap:                           {call: "cuMemMap", optional: true},
	cuMemUnmap:                         {call: "cuMemUnmap", optional: true},
	cuMemSetAccess:                     {call: "cuMemSetAccess", optional: true},
	cuMemExportToShareableHandle:       {call: "cuMemExportToShareableHandle", optional: true},
	cuMemImportFromShareableHandle:     {call: "cuMemImportFromShareableHandle", optional: true},
	cuIpcGetMemHandle:                  {call: "cuIpcGetMemHandle", optional: true},
	cuIpcOpenMemHandle:                 {call: "cuIpcOpenMemHandle", names: []string{"cuIpcOpenMemHandle_v2"}, optional: true},
	cuIpcCloseMemHandle:                {call: "cuIpcCloseMemHandle", optional: true},
	cuIpcGetEventHandle:                {call: "cuIpcGetEventHandle", optional: true},
	cuIpcOpenEventHandle:               {call: "cuIpcOpenEventHandle", optional: true},
	cuMemcpyHtoDAsync:                  {call: "cuMemcpyHtoDAsync", names: []string{"cuMemcpyHtoDAsync_v2"}},
	cuMemcpyDtoHAsync:                  {call: "cuMemcpyDtoHAsync", names: []string{"cuMemcpyDtoHAsync_v2"}},
	cuMemcpyDtoDAsync:                  {call: "cuMemcpyDtoDAsync", names: []string{"cuMemcpyDtoDAsync_v2"}},
	cuMemcpyPeerAsync:                  {call: "cuMemcpyPeerAsync", optional: true},
	cuMemsetD8Async:                    {call: "cuMemsetD8Async"},
	cuStreamCreateWithPriority:         {call: "cuStreamCreateWithPriority"},
	cuStreamDestroy:                    {call: "cuStreamDestroy", names: []string{"cuStreamDestroy_v2"}},
	cuStreamSynchronize:                {call: "cuStreamSynchronize"},
	cuStreamQuery:                      {call: "cuStreamQuery"},
	cuStreamWaitEvent:                  {call: "cuStreamWaitEvent"},
	cuStreamGetPriority:                {call: "cuStreamGetPriority", optional: true},
	cuStreamGetCtx:                     {call: "cuStreamGetCtx", optional: true},
	cuLaunchHostFunc:                   {call: "cuLaunchHostFunc", optional: true},
	cuEventCreate:                      {call: "cuEventCreate"},
	cuEventDestroy:                     {call: "cuEventDestroy", names: []string{"cuEventDestroy_v2"}},
	cuEventRecord:                      {call: "cuEventRecord"},
	cuEventQuery:                       {call: "cuEventQuery"},
	cuEventSynchronize:                 {call: "cuEventSynchronize"},
	cuEventElapsedTime:                 {call: "cuEventElapsedTime"},
	cuStreamBeginCapture:               {call: "cuStreamBeginCapture", names: []string{"cuStreamBeginCapture_v2"}, optional: true},
	cuStreamEndCapture:                 {call: "cuStreamEndCapture", optional: true},
	cuGraphInstantiate:                 {call: "cuGraphInstantiate", names: []string{"cuGraphInstantiateWithFlags"}, optional: true},
	cuGraphLaunch:                      {call: "cuGraphLaunch", optional: true},
	cuGraphExecDestroy:                 {call: "cuGraphExecDestroy", optional: true},
	cuGraphDestroy:                     {call: "cuGraphDestroy", optional: true},
	cuModuleLoadDataEx:                 {call: "cuModuleLoadDataEx"},
	cuModuleUnload:                     {call: "cuModuleUnload"},
	cuModuleGetFunction:                {call: "cuModuleGetFunction"},
	cuFuncGetAttribute:                 {call: "cuFuncGetAttribute", optional: true},
	cuFuncSetAttribute:                 {call: "cuFuncSetAttribute", optional: true},
	cuFuncGetParamInfo:                 {call: "cuFuncGetParamInfo", optional: true},
	cuOccupancyMaxActiveBlocksPerMultiprocessor: {call: "cuOccupancyMaxActiveBlocksPerMultiprocessor", optional: true},
	cuOccupancyMaxPotentialBlockSize:            {call: "cuOccupancyMaxPotentialBlockSize", optional: true},
	cuLaunchKernel:                              {call: "cuLaunchKernel"},
}

// exportNames returns the names to look a symbol up by.
func (s symbol) exportNames() []string {
	if names := symbols[s].names; len(names) > 0 {
		return names
	}
	return []string{symbols[s].call}
}
