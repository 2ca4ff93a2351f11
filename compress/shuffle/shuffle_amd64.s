#include "textflag.h"

// Each function moves elements of 2, 4 or 8 bytes, 32 of them per step. The planes of bytes
// are n bytes apart, or stand at the addresses in planes. The functions
// need AVX2. Those with "Stream" in their name write past the caches, to an address that
// is a multiple of 32.

// The bytes of 4 elements of 4 bytes by their position, in each half of a register.
DATA position4<>+0(SB)/8, $0x0d0905010c080400
DATA position4<>+8(SB)/8, $0x0f0b07030e0a0602
GLOBL position4<>(SB), RODATA|NOPTR, $16

// The bytes of 8 elements of 2 bytes by their position.
DATA position2<>+0(SB)/8, $0x0e0c0a0806040200
DATA position2<>+8(SB)/8, $0x0f0d0b0907050301
GLOBL position2<>(SB), RODATA|NOPTR, $16

// The order that brings the words of both halves with the same position together.
DATA bothHalves<>+0(SB)/8, $0x0000000400000000
DATA bothHalves<>+8(SB)/8, $0x0000000500000001
DATA bothHalves<>+16(SB)/8, $0x0000000600000002
DATA bothHalves<>+24(SB)/8, $0x0000000700000003
GLOBL bothHalves<>(SB), RODATA|NOPTR, $32

#define ARGUMENTS \
	MOVQ dst+0(FP), DI \
	MOVQ src+8(FP), SI \
	MOVQ n+16(FP), DX \
	MOVQ steps+24(FP), CX

// PLANES2 begins a function of 2 planes, or of the first 2: their addresses in SI and R8,
// the position in them in AX.
#define PLANES2 \
	MOVQ dst+0(FP), DI \
	MOVQ planes+8(FP), DX \
	MOVQ steps+16(FP), CX \
	MOVQ (DX), SI \
	MOVQ 8(DX), R8 \
	XORL AX, AX

#define PLANES4 \
	PLANES2 \
	MOVQ 16(DX), R9 \
	MOVQ 24(DX), R10

#define PLANES8 \
	PLANES4 \
	MOVQ 32(DX), R11 \
	MOVQ 40(DX), R12 \
	MOVQ 48(DX), R13 \
	MOVQ 56(DX), BX

// SPLIT4 replaces 32 elements of 4 bytes in Y0 to Y3 by their bytes 0, 1, 2 and 3.
#define SPLIT4 \
	VPSHUFB Y14, Y0, Y0 \
	VPSHUFB Y14, Y1, Y1 \
	VPSHUFB Y14, Y2, Y2 \
	VPSHUFB Y14, Y3, Y3 \
	VPERMD Y0, Y15, Y0 \
	VPERMD Y1, Y15, Y1 \
	VPERMD Y2, Y15, Y2 \
	VPERMD Y3, Y15, Y3 \
	VPUNPCKLQDQ Y1, Y0, Y4 \
	VPUNPCKHQDQ Y1, Y0, Y5 \
	VPUNPCKLQDQ Y3, Y2, Y6 \
	VPUNPCKHQDQ Y3, Y2, Y7 \
	VPERM2I128 $0x20, Y6, Y4, Y0 \
	VPERM2I128 $0x20, Y7, Y5, Y1 \
	VPERM2I128 $0x31, Y6, Y4, Y2 \
	VPERM2I128 $0x31, Y7, Y5, Y3

// func shuffle2AVX2(dst, src *byte, n, steps int)
TEXT ·shuffle2AVX2(SB), NOSPLIT, $0-32
	ARGUMENTS
	VBROADCASTI128 position2<>(SB), Y14
shuffle2:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VPSHUFB Y14, Y0, Y0
	VPSHUFB Y14, Y1, Y1
	VPERMQ $0xd8, Y0, Y0    // bytes 0 of 16 elements, bytes 1
	VPERMQ $0xd8, Y1, Y1
	VPERM2I128 $0x20, Y1, Y0, Y2
	VPERM2I128 $0x31, Y1, Y0, Y3
	VMOVDQU Y2, (DI)
	VMOVDQU Y3, (DI)(DX*1)
	ADDQ $64, SI
	ADDQ $32, DI
	DECQ CX
	JNZ shuffle2
	VZEROUPPER
	RET

// AHEAD prefetches a cache line of the source one page ahead: the processor's own
// prefetching ends with the page.
#define AHEAD(at) PREFETCHT0 4096+at(SI)

// func shuffle4AVX2(dst, src *byte, n, steps int)
TEXT ·shuffle4AVX2(SB), NOSPLIT, $0-32
	ARGUMENTS
	LEAQ (DI)(DX*2), R8
	VBROADCASTI128 position4<>(SB), Y14
	VMOVDQU bothHalves<>(SB), Y15
shuffle4:
	AHEAD(0)
	AHEAD(64)
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	SPLIT4
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, (DI)(DX*1)
	VMOVDQU Y2, (R8)
	VMOVDQU Y3, (R8)(DX*1)
	ADDQ $128, SI
	ADDQ $32, DI
	ADDQ $32, R8
	DECQ CX
	JNZ shuffle4
	VZEROUPPER
	RET

// HALVES puts the lower 4 bytes of 8 elements of 8 bytes into low, the upper ones into
// high.
#define HALVES(at, low, high) \
	VMOVDQU at(SI), Y8 \
	VMOVDQU at+32(SI), Y9 \
	VSHUFPS $0x88, Y9, Y8, low \
	VSHUFPS $0xdd, Y9, Y8, high \
	VPERMQ $0xd8, low, low \
	VPERMQ $0xd8, high, high

// func shuffle8AVX2(dst, src *byte, n, steps int)
TEXT ·shuffle8AVX2(SB), NOSPLIT, $0-32
	ARGUMENTS
	LEAQ (DI)(DX*4), R8
	LEAQ (DX)(DX*2), R9
	VBROADCASTI128 position4<>(SB), Y14
	VMOVDQU bothHalves<>(SB), Y15
shuffle8:
	AHEAD(0)
	AHEAD(64)
	AHEAD(128)
	AHEAD(192)
	HALVES(0, Y0, Y10)
	HALVES(64, Y1, Y11)
	HALVES(128, Y2, Y12)
	HALVES(192, Y3, Y13)
	SPLIT4
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, (DI)(DX*1)
	VMOVDQU Y2, (DI)(DX*2)
	VMOVDQU Y3, (DI)(R9*1)
	VMOVDQA Y10, Y0
	VMOVDQA Y11, Y1
	VMOVDQA Y12, Y2
	VMOVDQA Y13, Y3
	SPLIT4
	VMOVDQU Y0, (R8)
	VMOVDQU Y1, (R8)(DX*1)
	VMOVDQU Y2, (R8)(DX*2)
	VMOVDQU Y3, (R8)(R9*1)
	ADDQ $256, SI
	ADDQ $32, DI
	ADDQ $32, R8
	DECQ CX
	JNZ shuffle8
	VZEROUPPER
	RET

#define UNSHUFFLE2(loop, STORE) \
	PLANES2 \
loop: \
	VMOVDQU (SI)(AX*1), Y0 \
	VMOVDQU (R8)(AX*1), Y1 \
	VPUNPCKLBW Y1, Y0, Y2 \
	VPUNPCKHBW Y1, Y0, Y3 \
	VPERM2I128 $0x20, Y3, Y2, Y0 \
	VPERM2I128 $0x31, Y3, Y2, Y1 \
	STORE Y0, (DI) \
	STORE Y1, 32(DI) \
	ADDQ $32, AX \
	ADDQ $64, DI \
	DECQ CX \
	JNZ loop \
	VZEROUPPER

// func unshuffle2AVX2(dst *byte, planes *[8]*byte, steps int)
TEXT ·unshuffle2AVX2(SB), NOSPLIT, $0-24
	UNSHUFFLE2(unshuffle2, VMOVDQU)
	RET

// func unshuffle2Stream(dst *byte, planes *[8]*byte, steps int)
TEXT ·unshuffle2Stream(SB), NOSPLIT, $0-24
	UNSHUFFLE2(stream2, VMOVNTDQ)
	SFENCE
	RET

// JOIN4 replaces bytes 0, 1, 2 and 3 of 32 elements in Y0 to Y3 by the elements 0 to 3
// and 16 to 19 in Y0, and so on.
#define JOIN4 \
	VPUNPCKLBW Y1, Y0, Y4 \
	VPUNPCKHBW Y1, Y0, Y5 \
	VPUNPCKLBW Y3, Y2, Y6 \
	VPUNPCKHBW Y3, Y2, Y7 \
	VPUNPCKLWD Y6, Y4, Y0 \
	VPUNPCKHWD Y6, Y4, Y1 \
	VPUNPCKLWD Y7, Y5, Y2 \
	VPUNPCKHWD Y7, Y5, Y3

#define UNSHUFFLE4(loop, STORE) \
	PLANES4 \
loop: \
	VMOVDQU (SI)(AX*1), Y0 \
	VMOVDQU (R8)(AX*1), Y1 \
	VMOVDQU (R9)(AX*1), Y2 \
	VMOVDQU (R10)(AX*1), Y3 \
	JOIN4 \
	VPERM2I128 $0x20, Y1, Y0, Y4 \
	VPERM2I128 $0x20, Y3, Y2, Y5 \
	VPERM2I128 $0x31, Y1, Y0, Y6 \
	VPERM2I128 $0x31, Y3, Y2, Y7 \
	STORE Y4, (DI) \
	STORE Y5, 32(DI) \
	STORE Y6, 64(DI) \
	STORE Y7, 96(DI) \
	ADDQ $32, AX \
	ADDQ $128, DI \
	DECQ CX \
	JNZ loop \
	VZEROUPPER

// func unshuffle4AVX2(dst *byte, planes *[8]*byte, steps int)
TEXT ·unshuffle4AVX2(SB), NOSPLIT, $0-24
	UNSHUFFLE4(unshuffle4, VMOVDQU)
	RET

// func unshuffle4Stream(dst *byte, planes *[8]*byte, steps int)
TEXT ·unshuffle4Stream(SB), NOSPLIT, $0-24
	UNSHUFFLE4(stream4, VMOVNTDQ)
	SFENCE
	RET

// PAIRS4 stores 4 elements of 8 bytes at first(DI), and 4 at 128+first(DI). Their lower
// 4 bytes are in low, as JOIN4 returns them, the upper ones in high.
#define PAIRS4(first, low, high, STORE) \
	VPUNPCKLDQ high, low, Y4 \
	VPUNPCKHDQ high, low, Y5 \
	VPERM2I128 $0x20, Y5, Y4, Y6 \
	VPERM2I128 $0x31, Y5, Y4, Y7 \
	STORE Y6, first(DI) \
	STORE Y7, 128+first(DI)

#define UNSHUFFLE8(loop, STORE) \
	PLANES8 \
loop: \
	VMOVDQU (R11)(AX*1), Y0 \
	VMOVDQU (R12)(AX*1), Y1 \
	VMOVDQU (R13)(AX*1), Y2 \
	VMOVDQU (BX)(AX*1), Y3 \
	JOIN4 \
	VMOVDQA Y0, Y10 \
	VMOVDQA Y1, Y11 \
	VMOVDQA Y2, Y12 \
	VMOVDQA Y3, Y13 \
	VMOVDQU (SI)(AX*1), Y0 \
	VMOVDQU (R8)(AX*1), Y1 \
	VMOVDQU (R9)(AX*1), Y2 \
	VMOVDQU (R10)(AX*1), Y3 \
	JOIN4 \
	PAIRS4(0, Y0, Y10, STORE) \
	PAIRS4(32, Y1, Y11, STORE) \
	PAIRS4(64, Y2, Y12, STORE) \
	PAIRS4(96, Y3, Y13, STORE) \
	ADDQ $32, AX \
	ADDQ $256, DI \
	DECQ CX \
	JNZ loop \
	VZEROUPPER

// func unshuffle8AVX2(dst *byte, planes *[8]*byte, steps int)
TEXT ·unshuffle8AVX2(SB), NOSPLIT, $0-24
	UNSHUFFLE8(unshuffle8, VMOVDQU)
	RET

// func unshuffle8Stream(dst *byte, planes *[8]*byte, steps int)
TEXT ·unshuffle8Stream(SB), NOSPLIT, $0-24
	UNSHUFFLE8(stream8, VMOVNTDQ)
	SFENCE
	RET
