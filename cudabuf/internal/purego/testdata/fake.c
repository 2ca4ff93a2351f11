/* A library with libcuda's names that records what it is called with. */
#include <string.h>

typedef unsigned long word;

int fake_result;
const char *fake_call;
word fake_args[11];
char fake_text[256];
word fake_parameters[2];

#define RECORD(name) \
	fake_call = name; \
	word args[11] = {a, b, c, d, e, f, g, h, i, j, k}; \
	memcpy(fake_args, args, sizeof args)

#define ARGS word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k
#define PLAIN(name) int name(ARGS) { RECORD(#name); return fake_result; }
#define INT(name) int name(ARGS) { RECORD(#name); *(int *)a = -2; return fake_result; }
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
int cuModuleLoadData(ARGS) { RECORD("cuModuleLoadData"); *(word *)a = 9; strncpy(fake_text, (char *)b, 255); return fake_result; }
PLAIN(cuModuleUnload)
int cuModuleGetFunction(ARGS) { RECORD("cuModuleGetFunction"); *(word *)a = 8; strncpy(fake_text, (char *)c, 255); return fake_result; }
int cuLaunchKernel(ARGS) {
	RECORD("cuLaunchKernel");
	void **parameters = (void **)j;
	fake_parameters[0] = *(word *)parameters[0];
	fake_parameters[1] = *(unsigned *)parameters[1];
	return fake_result;
}
