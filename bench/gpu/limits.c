// Measures driver calls from plain C: the limits of the cudabuf benchmarks. cudabuf.py
// compiles it on the GPU machine.
//
// Usage: limits speed.ptx [launch]. It prints one JSON object of microseconds per
// operation, each the median of ROUNDS; with launch, only that operation.

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEPTH 1000  // operations enqueued per synchronization
#define ROUNDS 200

static void check(CUresult r, const char *what) {
	if (r != CUDA_SUCCESS) {
		const char *name = "unknown";
		cuGetErrorName(r, &name);
		fprintf(stderr, "%s: %s\n", what, name);
		exit(1);
	}
}
#define CHECK(call) check(call, #call)

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static CUstream first, second;
static CUevent event;
static CUfunction kernel;
static CUdeviceptr memory[3];
static char host[1 << 20];

static void launch(void) {
	unsigned count = 1024;
	void *parameters[] = {&memory[0], &memory[1], &memory[2], &count};
	CHECK(cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, second, parameters, NULL));
}

static void record_and_wait(void) {
	CHECK(cuEventRecord(event, first));
	CHECK(cuStreamWaitEvent(second, event, 0));
}

static void make_stream(void) {
	CUstream s;
	CHECK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0));
	CHECK(cuStreamDestroy(s));
}

static void call(void) {
	int version;
	CHECK(cuDriverGetVersion(&version));
}

static void alloc_async(void) {
	CUdeviceptr p;
	CHECK(cuMemAllocAsync(&p, 1 << 20, second));
	CHECK(cuMemFreeAsync(p, second));
}

static void copy(size_t n, int to_device) {
	if (to_device)
		CHECK(cuMemcpyHtoDAsync(memory[0], host, n, second));
	else
		CHECK(cuMemcpyDtoHAsync(host, memory[0], n, second));
	CHECK(cuStreamSynchronize(second));
}

static void h2d_1(void) { copy(1 << 10, 1); }
static void h2d_64(void) { copy(64 << 10, 1); }
static void h2d_1024(void) { copy(1 << 20, 1); }
static void d2h_1(void) { copy(1 << 10, 0); }
static void d2h_64(void) { copy(64 << 10, 0); }
static void d2h_1024(void) { copy(1 << 20, 0); }

// Copies a batch of 64 KiB in n buffers with one allocation and one copy per buffer.
static void naive(int n) {
	CUdeviceptr there[96];
	for (int i = 0; i < n; i++) {
		CHECK(cuMemAlloc(&there[i], (64 << 10) / n));
		CHECK(cuMemcpyHtoD(there[i], host, (64 << 10) / n));
	}
	for (int i = 0; i < n; i++)
		CHECK(cuMemFree(there[i]));
}

static void naive_8columns(void) { naive(12); }
static void naive_64columns(void) { naive(96); }

static double measure(void (*work)(void), int depth) {
	double taken[ROUNDS];
	for (int round = -3; round < ROUNDS; round++) {
		double start = now();
		for (int i = 0; i < depth; i++)
			work();
		CHECK(cuStreamSynchronize(second));
		if (round >= 0)
			taken[round] = (now() - start) / depth;
	}
	qsort(taken, ROUNDS, sizeof *taken, ascending);
	return taken[ROUNDS / 2];
}

static char *read_text(const char *path) {
	FILE *f = fopen(path, "rb");
	if (f == NULL || fseek(f, 0, SEEK_END) != 0) {
		perror(path);
		exit(1);
	}
	long n = ftell(f);
	char *text = calloc(n + 1, 1);
	rewind(f);
	if (text == NULL || fread(text, 1, n, f) != (size_t)n) {
		perror(path);
		exit(1);
	}
	fclose(f);
	return text;
}

int main(int argc, char **argv) {
	int only = argc == 3 && strcmp(argv[2], "launch") == 0;
	if (argc != 2 && !only) {
		fprintf(stderr, "usage: limits speed.ptx [launch]\n");
		return 2;
	}
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, read_text(argv[1])));
	CHECK(cuModuleGetFunction(&kernel, module, "add_float32"));
	CHECK(cuStreamCreateWithPriority(&first, CU_STREAM_NON_BLOCKING, 0));
	CHECK(cuStreamCreateWithPriority(&second, CU_STREAM_NON_BLOCKING, 0));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	memset(host, 1, sizeof host);  // otherwise all its pages are the zero page
	for (int i = 0; i < 3; i++) {
		CHECK(cuMemAlloc(&memory[i], 1 << 20));
		CHECK(cuMemsetD8(memory[i], 0, 1 << 20));
	}
	printf("{\"launch\": %.4f", measure(launch, DEPTH));
	if (only) {
		printf("}\n");
		return 0;
	}
	printf(", \"event\": %.4f", measure(record_and_wait, DEPTH));
	printf(", \"stream\": %.4f", measure(make_stream, 10));
	printf(", \"call\": %.5f", measure(call, DEPTH));
	printf(", \"alloc_async\": %.4f", measure(alloc_async, 100));
	printf(", \"h2d_1KiB\": %.4f, \"h2d_64KiB\": %.4f, \"h2d_1024KiB\": %.4f", measure(h2d_1, 10), measure(h2d_64, 10), measure(h2d_1024, 10));
	printf(", \"naive_8columns\": %.4f, \"naive_64columns\": %.4f", measure(naive_8columns, 1), measure(naive_64columns, 1));
	printf(", \"d2h_1KiB\": %.4f, \"d2h_64KiB\": %.4f, \"d2h_1024KiB\": %.4f}\n", measure(d2h_1, 10), measure(d2h_64, 10), measure(d2h_1024, 10));
	return 0;
}
