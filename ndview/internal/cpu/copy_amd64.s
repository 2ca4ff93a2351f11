//go:build !noasm

#include "textflag.h"

// Strided and reversed units, for AVX2.

// func reverseBlocks(dst, src unsafe.Pointer, blocks int64, order unsafe.Pointer, width int64)
TEXT ·reverseBlocks(SB), NOSPLIT, $0-40
	MOVQ           dst+0(FP), DI
	MOVQ           src+8(FP), SI
	MOVQ           blocks+16(FP), CX
	MOVQ           order+24(FP), DX
	ADDQ           width+32(FP), SI
	VBROADCASTI128 (DX), Y15

loop:
	VMOVDQU -32(SI), Y0
	VPSHUFB Y15, Y0, Y0
	VPERMQ  $0x4E, Y0, Y0
	VMOVDQU Y0, (DI)
	SUBQ    $32, SI
	ADDQ    $32, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func takeEvery(dst, src unsafe.Pointer, blocks int64, orders unsafe.Pointer, step int64)
TEXT ·takeEvery(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ blocks+16(FP), CX
	MOVQ orders+24(FP), DX
	MOVQ step+32(FP), BX
	SHLQ $4, BX
	LEAQ (SI)(BX*1), R9

loop:
	VPXOR Y0, Y0, Y0
	XORQ  R8, R8

halves:
	VMOVDQU     (SI)(R8*1), X1
	VINSERTI128 $1, (R9)(R8*1), Y1, Y1
	VPSHUFB     (DX)(R8*2), Y1, Y1
	VPOR        Y1, Y0, Y0
	ADDQ        $16, R8
	CMPQ        R8, BX
	JNE         halves
	VMOVDQU     Y0, (DI)
	LEAQ        (SI)(BX*2), SI
	LEAQ        (R9)(BX*2), R9
	ADDQ        $32, DI
	DECQ        CX
	JNZ         loop
	VZEROUPPER
	RET

// func streamLines(dst, src unsafe.Pointer, n int64)
TEXT ·streamLines(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
loop:
	VMOVDQU  (SI), Y0
	VMOVDQU  32(SI), Y1
	VMOVNTDQ Y0, (DI)
	VMOVNTDQ Y1, 32(DI)
	ADDQ     $64, SI
	ADDQ     $64, DI
	DECQ     CX
	JNZ      loop
	VZEROUPPER
	RET

// func StreamFence()
TEXT ·StreamFence(SB), NOSPLIT, $0-0
	SFENCE
	RET

// The byte shuffles for numbers of 2, 4 and 8 bytes.
DATA byteOrders<>+0(SB)/8, $0x0607040502030001
DATA byteOrders<>+8(SB)/8, $0x0e0f0c0d0a0b0809
DATA byteOrders<>+16(SB)/8, $0x0405060700010203
DATA byteOrders<>+24(SB)/8, $0x0c0d0e0f08090a0b
DATA byteOrders<>+32(SB)/8, $0x0001020304050607
DATA byteOrders<>+40(SB)/8, $0x08090a0b0c0d0e0f
GLOBL byteOrders<>(SB), RODATA|NOPTR, $48

// func swapVectors(dst, src unsafe.Pointer, blocks, size int64): blocks of 128 bytes,
// at least one. For AVX2.
TEXT ·swapVectors(SB), NOSPLIT, $0-32
	MOVQ           dst+0(FP), DI
	MOVQ           src+8(FP), SI
	MOVQ           blocks+16(FP), CX
	MOVQ           size+24(FP), AX
	LEAQ           byteOrders<>(SB), DX
	SHRQ           $2, AX
	SHLQ           $4, AX
	VBROADCASTI128 (DX)(AX*1), Y15

loop:
	PREFETCHT0 1024(SI)
	PREFETCHT0 1088(SI)
	VMOVDQU    (SI), Y0
	VMOVDQU    32(SI), Y1
	VMOVDQU    64(SI), Y2
	VMOVDQU    96(SI), Y3
	VPSHUFB    Y15, Y0, Y0
	VPSHUFB    Y15, Y1, Y1
	VPSHUFB    Y15, Y2, Y2
	VPSHUFB    Y15, Y3, Y3
	VMOVDQU    Y0, (DI)
	VMOVDQU    Y1, 32(DI)
	VMOVDQU    Y2, 64(DI)
	VMOVDQU    Y3, 96(DI)
	ADDQ       $128, SI
	ADDQ       $128, DI
	DECQ       CX
	JNZ        loop
	VZEROUPPER
	RET
