// The interface of cdevice_cuda.py to nanoarrow's device library: one function that
// copies an array between devices, as a consumer and a producer in C do.

#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "nanoarrow/nanoarrow.h"
#include "nanoarrow/nanoarrow_device.h"

static char message[1500];

static const char *failed(const char *what, int code, const struct ArrowError *e) {
	snprintf(message, sizeof message, "%s: %d: %s", what, code, e->message);
	return message;
}

#define CHECK(call) \
	if ((code = (call)) != 0) { \
		wrong = failed(#call, code, &e); \
		goto end; \
	}

// Copies the array in to a device on a new stream, after in's sync_event. A copy on a
// GPU has a sync_event, too, and may still be in progress. The caller keeps in. Returns
// NULL, or an error message that is valid until the next call.
const char *copy_array(struct ArrowDeviceArray *in, struct ArrowSchema *schema, int32_t device_type, int64_t device_id, struct ArrowDeviceArray *out) {
	struct ArrowError e = {{0}};
	const char *wrong = NULL;
	int code;
	CUstream stream = NULL;
	CUcontext context = NULL;
	int cuda = in->device_type != ARROW_DEVICE_CPU || device_type != ARROW_DEVICE_CPU;
	struct ArrowDeviceArrayView view;
	ArrowDeviceArrayViewInit(&view);
	if (cuda) {
		CUdevice device;
		CHECK(cuInit(0));
		CHECK(cuDeviceGet(&device, 0));
		CHECK(cuDevicePrimaryCtxRetain(&context, device));
		CHECK(cuCtxPushCurrent(context));
		CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	}
	struct ArrowDevice *to = ArrowDeviceResolve(device_type, device_id);
	CHECK(to == NULL);
	CHECK(ArrowArrayViewInitFromSchema(&view.array_view, schema, &e));
	CHECK(ArrowDeviceArrayViewSetArrayAsync(&view, in, in->device_type != ARROW_DEVICE_CPU ? &stream : NULL, &e));
	if (in->sync_event != NULL)
		CHECK(view.device->synchronize_event(view.device, in->sync_event, &stream, &e));
	CHECK(ArrowDeviceArrayViewCopyAsync(&view, to, out, cuda ? &stream : NULL));
	if (cuda && device_type == ARROW_DEVICE_CPU)
		CHECK(cuStreamSynchronize(stream));  // nanoarrow 0.9 does not synchronize
end:
	ArrowDeviceArrayViewReset(&view);
	if (stream != NULL)
		cuStreamDestroy(stream);
	if (context != NULL) {
		CUcontext unused;
		cuCtxPopCurrent(&unused);
	}
	return wrong;
}
