// Common parts of casts. n is the number of blocks of 32 elements, n > 0.

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

#define STORE2 \
	VMOVDQU Y0, (DI)  \
	VMOVDQU Y1, 32(DI)

#define STORE4 \
	STORE2 \
	VMOVDQU Y2, 64(DI) \
	VMOVDQU Y3, 96(DI)

#define STORE8 \
	STORE4 \
	VMOVDQU Y4, 128(DI) \
	VMOVDQU Y5, 160(DI) \
	VMOVDQU Y6, 192(DI) \
	VMOVDQU Y7, 224(DI)

// Loads two, four or eight vectors with op, from addresses step bytes apart.
#define BY2(op, step) \
	op (SI), Y0     \
	op step(SI), Y1

#define BY4(op, step) \
	BY2(op, step)     \
	op 2*step(SI), Y2 \
	op 3*step(SI), Y3

#define BY8(op, step) \
	BY4(op, step)     \
	op 4*step(SI), Y4 \
	op 5*step(SI), Y5 \
	op 6*step(SI), Y6 \
	op 7*step(SI), Y7

#define LOAD8 \
	BY8(VMOVDQU, 32)

// The low halves of 64-bit elements in y and z, in order, in y.
#define LOWER(y, z) \
	VSHUFPS $0x88, z, y, y \
	VPERMQ  $0xD8, y, y

// The low halves of 32 64-bit elements in Y0 to Y7, in Y0, Y2, Y4 and Y6.
#define LOWER4 \
	LOWER(Y0, Y1) \
	LOWER(Y2, Y3) \
	LOWER(Y4, Y5) \
	LOWER(Y6, Y7)
