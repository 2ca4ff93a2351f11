/* A library with the names of libcuda that records the arguments of its calls. */
#include <pthread.h>
#include <string.h>

typedef unsigned long word;

int fake_result;
const char *fake_call;
word fake_args[14];
char fake_text[256];
word fake_parameters[2];
char fake_struct[96];

#define RECORD(name) \
	fake_call = name; \
	word args[14] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n}; \
	memcpy(fake_args, args, sizeof args)

#define ARGS word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k, word l, word m, word n
#define PLAIN(name) int name(ARGS) { RECORD(#name); return fake_result; }
#define INT(name) int name(ARGS) { RECORD(#name); *(int *)a = -2; return fake_result; }
#define SECOND(name) int name(ARGS) { RECORD(#name); *(word *)b = 0x7700000012345678; return fake_result; }
#define SECOND_INT(name) int name(ARGS) { RECORD(#name); *(int *)b = -2; return fake_result; }
#define STRUCT(name, which, size) int name(ARGS) { RECORD(#name); *(word *)a = 0x7700000012345678; memcpy(fake_struct, (void *)which, size); return fake_result; }
#define HANDLE(name) int name(ARGS) { RECORD(#name); for (int x = 0; x < 64; x++) ((char *)a)[x] = x; return fake_result; }
#define WORD(name) int name(ARGS) { RECORD(#name); *(word *)a = 0x7700000012345678; return fake_result; }

PLAIN(cuInit)
INT(cuDriverGetVersion)
INT(cuDeviceGetCount)
INT(cuDeviceGet)
int cuDeviceGetName(ARGS) { RECORD("cuDeviceGetName"); strncpy((char *)a, "Fake GPU", b); return fake_result; }
#ifndef OLD
int cuDeviceGetUuid_v2(ARGS) { RECORD("cuDeviceGetUuid_v2"); memcpy((char *)a, "0123456789abcdef", 16); return fake_result; }
PLAIN(cuMemcpyPeerAsync)
#endif
INT(cuDeviceGetAttribute)
WORD(cuDeviceTotalMem_v2)
WORD(cuDevicePrimaryCtxRetain)
PLAIN(cuDevicePrimaryCtxRelease_v2)
PLAIN(cuCtxSetCurrent)
PLAIN(cuCtxSynchronize)
int cuMemGetInfo_v2(ARGS) { RECORD("cuMemGetInfo_v2"); *(word *)a = 1; *(word *)b = 1UL << 40; return fake_result; }
#ifndef BROKEN
WORD(cuMemAlloc_v2)
#endif
PLAIN(cuMemFree_v2)
WORD(cuMemHostAlloc)
PLAIN(cuMemFreeHost)
WORD(cuStreamCreateWithPriority)
PLAIN(cuStreamDestroy_v2)
PLAIN(cuStreamSynchronize)
PLAIN(cuMemcpyHtoDAsync_v2)
PLAIN(cuMemcpyDtoHAsync_v2)
PLAIN(cuMemcpyDtoDAsync_v2)
PLAIN(cuMemsetD8Async)
int cuModuleLoadDataEx(ARGS) {
	RECORD("cuModuleLoadDataEx");
	*(word *)a = 9;
	strncpy(fake_text, (char *)b, 255);
	int *options = (int *)d;
	void **values = (void **)e;
	if (c == 2 && options[0] == 5 && options[1] == 6)
		strncpy((char *)values[0], "ptxas says no\n", (word)values[1]);
	return fake_result;
}
PLAIN(cuModuleUnload)
int cuModuleGetFunction(ARGS) { RECORD("cuModuleGetFunction"); *(word *)a = 8; strncpy(fake_text, (char *)c, 255); return fake_result; }
int cuLaunchKernel(ARGS) {
	RECORD("cuLaunchKernel");
	void **parameters = (void **)j;
	fake_parameters[0] = *(word *)parameters[0];
	fake_parameters[1] = *(unsigned *)parameters[1];
	return fake_result;
}

/* Optional functions. */
#ifndef OLD
int cuDeviceGetPCIBusId(ARGS) { RECORD("cuDeviceGetPCIBusId"); strncpy((char *)a, "0000:3B:00.0", b); return fake_result; }
INT(cuDeviceCanAccessPeer)
int cuDevicePrimaryCtxGetState(ARGS) { RECORD("cuDevicePrimaryCtxGetState"); *(int *)b = 4; *(int *)c = 1; return fake_result; }
PLAIN(cuDevicePrimaryCtxSetFlags_v2)
WORD(cuCtxCreate_v2)
PLAIN(cuCtxDestroy_v2)
WORD(cuCtxGetCurrent)
INT(cuCtxGetDevice)
int cuCtxGetStreamPriorityRange(ARGS) { RECORD("cuCtxGetStreamPriorityRange"); *(int *)a = 0; *(int *)b = -5; return fake_result; }
PLAIN(cuCtxEnablePeerAccess)
int cuMemGetAddressRange_v2(ARGS) { RECORD("cuMemGetAddressRange_v2"); *(word *)a = 1; *(word *)b = 1UL << 40; return fake_result; }
WORD(cuPointerGetAttribute)
WORD(cuMemAllocManaged)
PLAIN(cuMemAdvise)
PLAIN(cuMemPrefetchAsync)
PLAIN(cuMemHostRegister_v2)
PLAIN(cuMemHostUnregister)
WORD(cuMemHostGetDevicePointer_v2)
WORD(cuMemAllocAsync)
PLAIN(cuMemFreeAsync)
WORD(cuDeviceGetDefaultMemPool)
STRUCT(cuMemPoolCreate, b, 88)
PLAIN(cuMemPoolDestroy)
PLAIN(cuMemPoolTrimTo)
int cuMemPoolSetAttribute(ARGS) { RECORD("cuMemPoolSetAttribute"); memcpy(fake_struct, (void *)c, 8); return fake_result; }
int cuMemPoolGetAttribute(ARGS) { RECORD("cuMemPoolGetAttribute"); *(word *)c = 0x7700000012345678; return fake_result; }
int cuMemPoolSetAccess(ARGS) { RECORD("cuMemPoolSetAccess"); memcpy(fake_struct, (void *)b, 12); return fake_result; }
WORD(cuMemAllocFromPoolAsync)
INT(cuMemPoolExportToShareableHandle)
WORD(cuMemPoolImportFromShareableHandle)
HANDLE(cuMemPoolExportPointer)
STRUCT(cuMemPoolImportPointer, c, 64)
STRUCT(cuMemGetAllocationGranularity, b, 32)
STRUCT(cuMemCreate, c, 32)
PLAIN(cuMemRelease)
WORD(cuMemAddressReserve)
PLAIN(cuMemAddressFree)
PLAIN(cuMemMap)
PLAIN(cuMemUnmap)
int cuMemSetAccess(ARGS) { RECORD("cuMemSetAccess"); memcpy(fake_struct, (void *)c, 12); return fake_result; }
INT(cuMemExportToShareableHandle)
WORD(cuMemImportFromShareableHandle)
HANDLE(cuIpcGetMemHandle)
PLAIN(cuIpcCloseMemHandle)
HANDLE(cuIpcGetEventHandle)
SECOND_INT(cuStreamGetPriority)
SECOND(cuStreamGetCtx)
/* Runs the function on a thread that Go did not create, as the driver does. */
struct job { void (*run)(word); word with; };
static void *work(void *given) { struct job *j = given; j->run(j->with); return 0; }
int cuLaunchHostFunc(ARGS) {
	RECORD("cuLaunchHostFunc");
	if (fake_result) return fake_result;
	struct job todo = {(void (*)(word))b, c};
	pthread_t thread;
	if (pthread_create(&thread, 0, work, &todo)) return 304;
	return pthread_join(thread, 0) ? 304 : 0;
}
PLAIN(cuStreamBeginCapture_v2)
SECOND(cuStreamEndCapture)
WORD(cuGraphInstantiateWithFlags)
PLAIN(cuGraphLaunch)
PLAIN(cuGraphExecDestroy)
PLAIN(cuGraphDestroy)
INT(cuFuncGetAttribute)
int cuFuncGetParamInfo(ARGS) { RECORD("cuFuncGetParamInfo"); *(word *)c = 16; *(word *)d = 1UL << 33; return fake_result; }
PLAIN(cuFuncSetAttribute)
INT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
int cuOccupancyMaxPotentialBlockSize(ARGS) { RECORD("cuOccupancyMaxPotentialBlockSize"); *(int *)a = 264; *(int *)b = 768; return fake_result; }

/* These take 64 bytes by value, in the convention of the C compiler. */
typedef struct { char bytes[64]; } handle;
int cuIpcOpenMemHandle_v2(word a, handle given, unsigned flags) {
	fake_call = "cuIpcOpenMemHandle_v2";
	fake_args[0] = a; fake_args[1] = flags;
	*(word *)a = 0x7700000012345678;
	memcpy(fake_struct, &given, 64);
	return fake_result;
}
int cuIpcOpenEventHandle(word a, handle given) {
	fake_call = "cuIpcOpenEventHandle";
	fake_args[0] = a;
	*(word *)a = 0x7700000012345678;
	memcpy(fake_struct, &given, 64);
	return fake_result;
}
#endif

PLAIN(cuStreamQuery)
PLAIN(cuStreamWaitEvent)
WORD(cuEventCreate)
PLAIN(cuEventDestroy_v2)
PLAIN(cuEventRecord)
PLAIN(cuEventQuery)
PLAIN(cuEventSynchronize)
int cuEventElapsedTime(ARGS) { RECORD("cuEventElapsedTime"); *(float *)a = 1.5f; return fake_result; }
