#include "textflag.h"

// Squares in so many columns of so many rows of them, at least one: columns of
// each become its rows, and columns of squares rows of squares. For AVX2.

// R8 and R12 are the steps from row to row, R9 and R13 three of them.
#define ENTER \
	MOVQ dstStep+8(FP), R12  \
	MOVQ srcStep+24(FP), R8  \
	LEAQ (R8)(R8*2), R9      \
	LEAQ (R12)(R12*2), R13

#define ROW \
	MOVQ dst+0(FP), DI       \
	MOVQ src+16(FP), SI      \
	MOVQ columns+32(FP), CX

// What the lines of four rows of the source go on in will be wanted next.
#define AHEAD(from) \
	PREFETCHT0 127(from)       \
	PREFETCHT0 127(from)(R8*1) \
	PREFETCHT0 127(from)(R8*2) \
	PREFETCHT0 127(from)(R9*1)

// The next square has so many bytes of the source, and rows of the destination.
#define NEXT(bytes, rows) \
	ADDQ $bytes, SI          \
	LEAQ (DI)(R12*rows), DI  \
	DECQ CX                  \
	JNZ  square

// The next row of squares is as many rows of the source on.
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

// What is low in two vectors, in turns, and what is high.
#define MIX(low, high, x, y, to, also) \
	low  y, x, to   \
	high y, x, also

// Eight rows of 8 words in X0 to X7 become columns, which are stored.
#define TURN_WORDS \
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

// Four rows of 8 bytes, two and two in turns.
#define BYTES(from, x, y) \
	VMOVQ      (from), x        \
	VMOVQ      (from)(R8*1), X8 \
	VPUNPCKLBW X8, x, x         \
	VMOVQ      (from)(R8*2), y  \
	VMOVQ      (from)(R9*1), X9 \
	VPUNPCKLBW X9, y, y

// turnBytes has squares of 16 rows of 8 bytes.
// func turnBytes(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)
TEXT ·turnBytes(SB), NOSPLIT, $0-48
	ENTER
row:
	ROW
	LEAQ (SI)(R8*4), BX
	LEAQ (SI)(R8*8), R10
	LEAQ (BX)(R8*8), R11
	AHEAD(SI)
	AHEAD(BX)
	AHEAD(R10)
	AHEAD(R11)
square:
	LEAQ (SI)(R8*4), BX
	LEAQ (SI)(R8*8), R10
	LEAQ (BX)(R8*8), R11
	BYTES(SI, X0, X1)
	BYTES(BX, X2, X3)
	BYTES(R10, X4, X5)
	BYTES(R11, X6, X7)
	TURN_WORDS
	NEXT(8, 8)
	MOVQ R8, R10
	SHLQ $3, R10
	ADDQ R10, src+16(FP)
	NEXT_ROW(16, 8)

// turnWords has squares of 8 rows of 8 units of 2 bytes.
// func turnWords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)
TEXT ·turnWords(SB), NOSPLIT, $0-48
	ENTER
row:
	ROW
	LEAQ (SI)(R8*4), BX
	AHEAD(SI)
	AHEAD(BX)
square:
	LEAQ    (SI)(R8*4), BX
	VMOVDQU (SI), X0
	VMOVDQU (SI)(R8*1), X1
	VMOVDQU (SI)(R8*2), X2
	VMOVDQU (SI)(R9*1), X3
	VMOVDQU (BX), X4
	VMOVDQU (BX)(R8*1), X5
	VMOVDQU (BX)(R8*2), X6
	VMOVDQU (BX)(R9*1), X7
	TURN_WORDS
	NEXT(16, 8)
	NEXT_ROW(16, 8)

// turnDoubleWords has squares of 8 rows of 4 units of 4 bytes. Each half of a
// vector takes 4 of the rows.
// func turnDoubleWords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)
TEXT ·turnDoubleWords(SB), NOSPLIT, $0-48
	ENTER
row:
	ROW
	LEAQ (SI)(R8*4), BX
	AHEAD(SI)
	AHEAD(BX)
square:
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

// turnQuadWords has squares of 4 rows of 2 units of 8 bytes.
// func turnQuadWords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)
TEXT ·turnQuadWords(SB), NOSPLIT, $0-48
	ENTER
row:
	ROW
	AHEAD(SI)
square:
	VMOVDQU     (SI), X0
	VMOVDQU     (SI)(R8*1), X1
	VINSERTI128 $1, (SI)(R8*2), Y0, Y0
	VINSERTI128 $1, (SI)(R9*1), Y1, Y1
	MIX(VPUNPCKLQDQ, VPUNPCKHQDQ, Y0, Y1, Y2, Y3)
	VMOVDQU     Y2, (DI)
	VMOVDQU     Y3, (DI)(R12*1)
	NEXT(16, 2)
	NEXT_ROW(32, 4)

// turnPairs has squares of 4 rows of 1 unit of 16 bytes.
// func turnPairs(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)
TEXT ·turnPairs(SB), NOSPLIT, $0-48
	ENTER
row:
	ROW
	AHEAD(SI)
square:
	VMOVDQU     (SI), X0
	VMOVDQU     (SI)(R8*2), X1
	VINSERTI128 $1, (SI)(R8*1), Y0, Y0
	VINSERTI128 $1, (SI)(R9*1), Y1, Y1
	VMOVDQU     Y0, (DI)
	VMOVDQU     Y1, 32(DI)
	NEXT(16, 1)
	NEXT_ROW(64, 4)

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
