// Where a loop of casts begins and ends: n blocks of 32 elements, n > 0.

#define ENTER \
	MOVQ dst+0(FP), DI \
	MOVQ src+8(FP), SI \
	MOVQ n+16(FP), CX

#define NEXT(in, out) \
	ADDQ $in, SI  \
	ADDQ $out, DI \
	DECQ CX       \
	JNZ  loop     \
	VZEROUPPER    \
	RET
