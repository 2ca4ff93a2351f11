/* A library with the names of libnccl that records its calls. It computes nothing. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct comm { int rank, size, blocking; struct comm *parent; volatile int *aborted; } comm;
typedef struct { size_t size; unsigned magic, version; int blocking, cga, min_ctas, max_ctas; const char *net; int share; } config;

char fake_log[1 << 16];
int fake_live;             /* communicators */
volatile int fake_error;   /* the asynchronous error of every communicator */
volatile int fake_refuse;  /* what the next enqueued call returns */
volatile int fake_block;   /* enqueued calls wait until an abort */
volatile int fake_starting; /* how many more times a new communicator is in progress */
static volatile int lock;

static int note(const char *format, ...) {
	va_list list;
	va_start(list, format);
	while (__sync_lock_test_and_set(&lock, 1)) usleep(1);
	size_t n = strlen(fake_log);
	vsnprintf(fake_log + n, sizeof fake_log - n, format, list);
	__sync_lock_release(&lock);
	va_end(list);
	return 0;
}

#ifdef OLD
int ncclGetVersion(int *v) { *v = 22200; return 0; }
#else
int ncclGetVersion(int *v) { *v = 22809; return 0; }
#endif
int ncclGetUniqueId(char *id) { memset(id, 7, 128); return 0; }
const char *ncclGetLastError(comm *c) { return "the detail"; }

static int make(comm **out, int rank, int size, config *c, comm *parent) {
	if (c->size != 48 || c->magic != 0xcafebeef || c->version != 21805 || c->cga != INT32_MIN || c->min_ctas != INT32_MIN ||
	    c->max_ctas != INT32_MIN || c->net != NULL)
		return 4;
	comm *made = calloc(1, sizeof *made);
	made->rank = rank; made->size = size; made->blocking = c->blocking; made->parent = parent;
	made->aborted = parent ? parent->aborted : calloc(1, sizeof(int));
	__sync_fetch_and_add(&fake_live, 1);
	note("%s rank %d of %d blocking %d share %d\n", parent ? "split" : "init", rank, size, c->blocking, c->share);
	*out = made;
	return 7;
}
int ncclCommInitRankScalable(comm **out, int size, int rank, int n, const char *ids, config *c) {
	if (n != 1) return 4;
	for (int i = 0; i < 128; i++) if (ids[i] != 7) return 4;
	fake_starting = 2;
	return make(out, rank, size, c, NULL);
}
#ifndef BROKEN
int ncclCommSplit(comm *parent, int color, int key, comm **out, config *c) {
	fake_starting = 2;
	return color == 0 && key == parent->rank ? make(out, key, parent->size, c, parent) : 4;
}
#endif
int ncclCommGetAsyncError(comm *c, int *state) {
	if (fake_starting > 0) { fake_starting--; *state = 7; return 0; }
	*state = fake_error;
	return 0;
}
static int end(comm *c, const char *how) {
	note("%s %s\n", how, c->parent ? "main" : "parent");
	*c->aborted = strcmp(how, "abort") == 0;
	__sync_fetch_and_sub(&fake_live, 1);
	return 0; /* not freed: tests look for use after an abort */
}
int ncclCommDestroy(comm *c) { return end(c, "destroy"); }
int ncclCommAbort(comm *c) { return end(c, "abort"); }

int ncclGroupStart(void) { return note("group\n"); }
int ncclGroupEnd(void) { return note("end\n"); }

static int enqueue(comm *c, const char *format, ...) {
	char line[256];
	va_list list;
	va_start(list, format);
	vsnprintf(line, sizeof line, format, list);
	va_end(list);
	note("%d: %s\n", c->rank, line);
	int refused = fake_refuse;
	fake_refuse = 0;
	if (refused) return refused;
	while (fake_block && !*c->aborted) usleep(1000);
	return *c->aborted ? 3 : 0;
}
/* The distance of two addresses shows where parts begin. */
#define AT(a, b) ((long)((char *)(a) - (char *)(b)))
int ncclAllReduce(char *s, char *r, size_t n, int t, int op, comm *c, void *stream) { return enqueue(c, "all-reduce %zu type %d op %d in place %d", n, t, op, s == r); }
int ncclReduce(char *s, char *r, size_t n, int t, int op, int root, comm *c, void *stream) { return enqueue(c, "reduce %zu type %d op %d root %d to %s", n, t, op, root, r ? "memory" : "none"); }
int ncclReduceScatter(char *s, char *r, size_t n, int t, int op, comm *c, void *stream) { return enqueue(c, "reduce-scatter %zu type %d op %d", n, t, op); }
int ncclBroadcast(char *s, char *r, size_t n, int t, int root, comm *c, void *stream) { return enqueue(c, "broadcast %zu type %d root %d in place %d", n, t, root, s == r); }
int ncclAllGather(char *s, char *r, size_t n, int t, comm *c, void *stream) { return enqueue(c, "all-gather %zu type %d at %ld", n, t, AT(s, r)); }
int ncclSend(char *s, size_t n, int t, int peer, comm *c, void *stream) { return enqueue(c, "send %zu type %d to %d", n, t, peer); }
int ncclRecv(char *r, size_t n, int t, int peer, comm *c, void *stream) { return enqueue(c, "receive %zu type %d from %d", n, t, peer); }
