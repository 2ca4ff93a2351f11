/* A library with the names of libnvrtc whose images list the arguments of the calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	char text[4096], log[256], lowered[16][64];
	const char *names[16];
	int count, empty;
} program;

int fake_live;

static void note(program *p, const char *what, const char *value) {
	snprintf(p->text + strlen(p->text), sizeof p->text - strlen(p->text), "%s %s\n", what, value);
}

#ifdef OLD
int nvrtcVersion(int *major, int *minor) { *major = 11; *minor = 3; return 0; }
#else
int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 9; return 0; }
#endif
int nvrtcGetNumSupportedArchs(int *n) { *n = 3; return 0; }
int nvrtcGetSupportedArchs(int *archs) { archs[0] = 75; archs[1] = 90; archs[2] = 120; return 0; }

int nvrtcCreateProgram(program **out, const char *source, const char *name, int n, const char **texts, const char **headers) {
	program *p = calloc(1, sizeof *p);
	if (strstr(source, "no program")) { free(p); return 2; }
	note(p, "name", name);
	note(p, "source", source);
	for (int i = 0; i < n; i++) { note(p, "header", headers[i]); note(p, "is", texts[i]); }
	__sync_fetch_and_add(&fake_live, 1);
	*out = p;
	return 0;
}
int nvrtcDestroyProgram(program **p) { free(*p); *p = 0; __sync_fetch_and_sub(&fake_live, 1); return 0; }

int nvrtcAddNameExpression(program *p, const char *name) {
	if (strlen(name) == 0) return 3;
	note(p, "expression", name);
	snprintf(p->lowered[p->count], sizeof p->lowered[0], "%s", name);
	p->count++;
	return 0;
}
int nvrtcCompileProgram(program *p, int n, const char **options) {
	for (int i = 0; i < n; i++) {
		note(p, "option", options[i]);
		if (!strcmp(options[i], "-dlto")) p->empty = 1;
		if (!strcmp(options[i], "--wrong")) { strcpy(p->log, "unrecognized option --wrong\n"); return 5; }
	}
	if (strstr(p->text, "does not compile")) { strcpy(p->log, "it does not compile\n"); return 6; }
	if (strstr(p->text, "warns")) strcpy(p->log, "a warning\n");
	return 0;
}
int nvrtcGetLoweredName(program *p, const char *name, const char **lowered) {
	for (int i = 0; i < p->count; i++)
		if (strcmp(name, "no::such") && !strcmp(p->lowered[i], name)) {
			char s[64];
			snprintf(s, sizeof s, "_Z%.50s", name);
			strcpy(p->lowered[i], s);
			*lowered = p->lowered[i];
			return 0;
		}
	return 10;
}
int nvrtcGetProgramLogSize(program *p, size_t *n) { *n = strlen(p->log) + 1; return 0; }
int nvrtcGetProgramLog(program *p, char *log) { strcpy(log, p->log); return 0; }
int nvrtcGetPTXSize(program *p, size_t *n) { *n = p->empty ? 1 : strlen(p->text) + 1; return 0; }
int nvrtcGetPTX(program *p, char *ptx) { strcpy(ptx, p->empty ? "" : p->text); return 0; }
int nvrtcGetCUBINSize(program *p, size_t *n) { *n = p->empty ? 0 : 4 + strlen(p->text); return 0; }
#ifndef BROKEN
int nvrtcGetCUBIN(program *p, char *cubin) { memcpy(cubin, "\177B\0\n", 4); memcpy(cubin + 4, p->text, strlen(p->text)); return 0; }
#endif
