//go:build !noasm

#include "textflag.h"

// Transposes of columns x rows blocks, at least one: columns of each block become rows,
// and columns of blocks become rows of blocks. For AVX2.

// R8 and R12 are the bytes from row to row, R9 and R13 three times those.
#define ENTER \
	MOVQ dstStep+8(FP), R12  \
	MOVQ srcStep+24(FP), R8  \
	LEAQ (R8)(R8*2), R9      \
	LEAQ (R12)(R12*2), R13

#define ROW \
	MOVQ dst+0(FP), DI       \
	MOVQ src+16(FP), SI      \
	MOVQ columns+32(FP), CX

// Prefetches the next cache lines of four rows of the source.
#define PREFETCH(from) \
	PREFETCHT0 127(from)       \
	PREFETCHT0 127(from)(R8*1) \
	PREFETCHT0 127(from)(R8*2) \
	PREFETCHT0 127(from)(R9*1)

// Advances by one block: bytes of the source, and rows of the destination.
#define NEXT(bytes, rows) \
	ADDQ $bytes, SI          \
	LEAQ (DI)(R12*rows), DI  \
	DECQ CX                  \
	JNZ  block

// Advances by one row of blocks, which is each rows of the source.
#define NEXT_ROW(bytes, each) \
	ADDQ $bytes, dst+0(FP)   \
	MOVQ src+16(FP), SI      \
	LEAQ (SI)(R8*each), SI   \
	MOVQ SI, src+16(FP)      \
	DECQ rows+40(FP)         \
	JNZ  row                 \
	VZEROUPPER               \
	RET

#define STORE4(to, a, b, c, d) \
	VMOVDQU a, (to)          \
	VMOVDQU b, (to)(R12*1)   \
	VMOVDQU c, (to)(R12*2)   \
	VMOVDQU d, (to)(R13*1)

// Interleaves the low and the high halves of two vectors.
#define MIX(low, high, x, y, to, also) \
	low  y, x, to   \
	high y, x, also

// Transposes eight rows of 8 words in X0 to X7, and stores them.
#define TRANSPOSE_WORDS \
	MIX(VPUNPCKLWD, VPUNPCKHWD, X0, X1, X8, X9)     \
	MIX(VPUNPCKLWD, VPUNPCKHWD, X2, X3, X10, X11)   \
	MIX(VPUNPCKLWD, VPUNPCKHWD, X4, X5, X12, X13)   \
	MIX(VPUNPCKLWD, VPUNPCKHWD, X6, X7, X14, X15)   \
	MIX(VPUNPCKLDQ, VPUNPCKHDQ, X8, X10, X0, X1)    \
	MIX(VPUNPCKLDQ, VPUNPCKHDQ, X9, X11, X2, X3)    \
	MIX(VPUNPCKLDQ, VPUNPCKHDQ, X12, X14, X4, X5)   \
	MIX(VPUNPCKLDQ, VPUNPCKHDQ, X13, X15, X6, X7)   \
	MIX(VPUNPCKLQDQ, VPUNPCKHQDQ, X0, X4, X8, X9)   \
	MIX(VPUNPCKLQDQ, VPUNPCKHQDQ, X1, X5, X10, X11) \
	MIX(VPUNPCKLQDQ, VPUNPCKHQDQ, X2, X6, X12, X13) \
	MIX(VPUNPCKLQDQ, VPUNPCKHQDQ, X3, X7, X14, X15) \
	LEAQ (DI)(R12*4), DX                            \
	STORE4(DI, X8, X9, X10, X11)                    \
	STORE4(DX, X12, X13, X14, X15)

// Loads four rows of 8 bytes, and interleaves them in pairs.
#define BYTES(from, x, y) \
	VMOVQ      (from), x        \
	VMOVQ      (from)(R8*1), X8 \
	VPUNPCKLBW X8, x, x         \
	VMOVQ      (from)(R8*2), y  \
	VMOVQ      (from)(R9*1), X9 \
	VPUNPCKLBW X9, y, y

// transposeBytes has blocks of 16 rows of 8 bytes.
// func transposeBytes(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)
TEXT ·transposeBytes(SB), NOSPLIT, $0-48
	ENTER
row:
	ROW
	LEAQ (SI)(R8*4), BX
	LEAQ (SI)(R8*8), R10
	LEAQ (BX)(R8*8), R11
	PREFETCH(SI)
	PREFETCH(BX)
	PREFETCH(R10)
	PREFETCH(R11)
block:
	LEAQ (SI)(R8*4), BX
	LEAQ (SI)(R8*8), R10
	LEAQ (BX)(R8*8), R11
	BYTES(SI, X0, X1)
	BYTES(BX, X2, X3)
	BYTES(R10, X4, X5)
	BYTES(R11, X6, X7)
	TRANSPOSE_WORDS
	NEXT(8, 8)
	MOVQ R8, R10
	SHLQ $3, R10
	ADDQ R10, src+16(FP)
	NEXT_ROW(16, 8)

// transposeWords has blocks of 8 rows of 8 units of 2 bytes.
// func transposeWords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)
TEXT ·transposeWords(SB), NOSPLIT, $0-48
	ENTER
row:
	ROW
	LEAQ (SI)(R8*4), BX
	PREFETCH(SI)
	PREFETCH(BX)
block:
	LEAQ    (SI)(R8*4), BX
	VMOVDQU (SI), X0
	VMOVDQU (SI)(R8*1), X1
	VMOVDQU (SI)(R8*2), X2
	VMOVDQU (SI)(R9*1), X3
	VMOVDQU (BX), X4
	VMOVDQU (BX)(R8*1), X5
	VMOVDQU (BX)(R8*2), X6
	VMOVDQU (BX)(R9*1), X7
	TRANSPOSE_WORDS
	NEXT(16, 8)
	NEXT_ROW(16, 8)

// transposeDwords has blocks of 8 rows of 4 units of 4 bytes. Each half of a
// vector holds 4 of the rows.
// func transposeDwords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)
TEXT ·transposeDwords(SB), NOSPLIT, $0-48
	ENTER
row:
	ROW
	LEAQ (SI)(R8*4), BX
	PREFETCH(SI)
	PREFETCH(BX)
block:
	LEAQ        (SI)(R8*4), BX
	VMOVDQU     (SI), X0
	VMOVDQU     (SI)(R8*1), X1
	VMOVDQU     (SI)(R8*2), X2
	VMOVDQU     (SI)(R9*1), X3
	VINSERTI128 $1, (BX), Y0, Y0
	VINSERTI128 $1, (BX)(R8*1), Y1, Y1
	VINSERTI128 $1, (BX)(R8*2), Y2, Y2
	VINSERTI128 $1, (BX)(R9*1), Y3, Y3
	MIX(VPUNPCKLDQ, VPUNPCKHDQ, Y0, Y1, Y4, Y5)
	MIX(VPUNPCKLDQ, VPUNPCKHDQ, Y2, Y3, Y6, Y7)
	MIX(VPUNPCKLQDQ, VPUNPCKHQDQ, Y4, Y6, Y0, Y1)
	MIX(VPUNPCKLQDQ, VPUNPCKHQDQ, Y5, Y7, Y2, Y3)
	STORE4(DI, Y0, Y1, Y2, Y3)
	NEXT(16, 4)
	NEXT_ROW(32, 8)

// func copyRows(dst unsafe.Pointer, step int64, src unsafe.Pointer, lines, rows int64)
TEXT ·copyRows(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DX
	MOVQ step+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ rows+32(FP), BX
row:
	MOVQ DX, DI
	MOVQ lines+24(FP), CX
line:
	MOVOU (SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVOU X0, (DI)
	MOVOU X1, 16(DI)
	MOVOU X2, 32(DI)
	MOVOU X3, 48(DI)
	ADDQ  $64, SI
	ADDQ  $64, DI
	DECQ  CX
	JNZ   line
	ADDQ  R8, DX
	DECQ  BX
	JNZ   row
	RET
