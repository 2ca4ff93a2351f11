#include "textflag.h"

// Sums, for processors with AVX2.

// Addresses of x, and of the three rows that follow it, and how far those are that the
// cache is to fetch.
#define ROWS \
	MOVQ acc+0(FP), DI     \
	MOVQ x+8(FP), SI       \
	MOVQ pitch+16(FP), AX  \
	MOVQ ahead+24(FP), R11 \
	MOVQ n+32(FP), CX      \
	LEAQ (SI)(AX*1), R8    \
	LEAQ (R8)(AX*1), R9    \
	LEAQ (R9)(AX*1), R10

// FETCH has the cache fetch what is ahead of each row, or what is there where that is 0.
#define FETCH \
	PREFETCHT0 (SI)(R11*1) \
	PREFETCHT0 (R8)(R11*1) \
	PREFETCHT0 (R9)(R11*1) \
	PREFETCHT0 (R10)(R11*1)

#define NEXT_ROWS \
	ADDQ $32, SI  \
	ADDQ $32, R8  \
	ADDQ $32, R9  \
	ADDQ $32, R10 \
	ADDQ $64, DI  \
	DECQ CX       \
	JNZ  loop     \
	VZEROUPPER    \
	RET

// WIDEN4 adds four floats of each of four rows to doubles.
#define WIDEN4(off, at, sum) \
	VCVTPS2PD off(SI), sum    \
	VCVTPS2PD off(R8), Y8     \
	VCVTPS2PD off(R9), Y9     \
	VCVTPS2PD off(R10), Y10   \
	VADDPD    Y8, sum, sum    \
	VADDPD    Y10, Y9, Y9     \
	VADDPD    Y9, sum, sum    \
	VADDPD    at(DI), sum, sum \
	VMOVUPD   sum, at(DI)

// func sums32(lanes, x unsafe.Pointer, n int), of n blocks of 16 floats. Lanes
// are 4 doubles.
TEXT ·sums32(SB), NOSPLIT, $0-24
	MOVQ  lanes+0(FP), DI
	MOVQ  x+8(FP), SI
	MOVQ  n+16(FP), CX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3

loop:
	VCVTPS2PD (SI), Y4
	VCVTPS2PD 16(SI), Y5
	VCVTPS2PD 32(SI), Y6
	VCVTPS2PD 48(SI), Y7
	VADDPD    Y4, Y0, Y0
	VADDPD    Y5, Y1, Y1
	VADDPD    Y6, Y2, Y2
	VADDPD    Y7, Y3, Y3
	ADDQ      $64, SI
	DECQ      CX
	JNZ       loop
	VADDPD    Y1, Y0, Y0
	VADDPD    Y3, Y2, Y2
	VADDPD    Y2, Y0, Y0
	VMOVUPD   Y0, (DI)
	VZEROUPPER
	RET

// func add32x4(acc, x unsafe.Pointer, pitch, ahead, n int), of n blocks of 8 floats in
// each of 4 rows, pitch bytes apart.
TEXT ·add32x4(SB), NOSPLIT, $0-40
	ROWS

loop:
	FETCH
	WIDEN4(0, 0, Y0)
	WIDEN4(16, 32, Y1)
	NEXT_ROWS

// func add32(acc, x unsafe.Pointer, n int), of n blocks of 8 floats.
TEXT ·add32(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VCVTPS2PD (SI), Y0
	VCVTPS2PD 16(SI), Y1
	VADDPD    (DI), Y0, Y0
	VADDPD    32(DI), Y1, Y1
	VMOVUPD   Y0, (DI)
	VMOVUPD   Y1, 32(DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func narrow(out, x unsafe.Pointer, n int), of n blocks of 4 doubles, to floats.
TEXT ·narrow(SB), NOSPLIT, $0-24
	MOVQ out+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VCVTPD2PSY (SI), X0
	VMOVUPS    X0, (DI)
	ADDQ       $32, SI
	ADDQ       $16, DI
	DECQ       CX
	JNZ        loop
	VZEROUPPER
	RET

// EXACT adds x to sum, and what that loses to rest. It needs two more registers.
#define EXACT(x, sum, rest, s, of) \
	VADDPD x, sum, s      \
	VSUBPD sum, s, of     \
	VSUBPD of, x, x       \
	VSUBPD of, s, of      \
	VSUBPD of, sum, of    \
	VADDPD x, of, of      \
	VADDPD of, rest, rest \
	VMOVAPD s, sum

// func sums64(sums, rests, x unsafe.Pointer, n int), of n blocks of 32 doubles.
// Sums and rests are 4 doubles each.
TEXT ·sums64(SB), NOSPLIT, $0-32
	MOVQ   sums+0(FP), DI
	MOVQ   rests+8(FP), DX
	MOVQ   x+16(FP), SI
	MOVQ   n+24(FP), CX
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11

loop:
	VMOVUPD (SI), Y0
	VMOVUPD 64(SI), Y1
	VMOVUPD 128(SI), Y2
	VMOVUPD 192(SI), Y3
	VADDPD  32(SI), Y0, Y0
	VADDPD  96(SI), Y1, Y1
	VADDPD  160(SI), Y2, Y2
	VADDPD  224(SI), Y3, Y3
	VADDPD  Y1, Y0, Y0
	VADDPD  Y3, Y2, Y2
	VADDPD  Y2, Y0, Y0
	EXACT(Y0, Y10, Y11, Y4, Y5)
	ADDQ    $256, SI
	DECQ    CX
	JNZ     loop
	VMOVUPD Y10, (DI)
	VMOVUPD Y11, (DX)
	VZEROUPPER
	RET

// ADD4 adds four doubles, in the order 0, 2, 1, 3, to as many exact sums, which
// are pairs of a sum and its rest.
#define ADD4(x) \
	VMOVUPD   (DI), Y0            \
	VMOVUPD   32(DI), Y1          \
	VUNPCKLPD Y1, Y0, Y2          \
	VUNPCKHPD Y1, Y0, Y3          \
	EXACT(x, Y2, Y3, Y4, Y5)      \
	VUNPCKLPD Y3, Y2, Y0          \
	VUNPCKHPD Y3, Y2, Y1          \
	VMOVUPD   Y0, (DI)            \
	VMOVUPD   Y1, 32(DI)

// func add64x4(acc, x unsafe.Pointer, pitch, ahead, n int), of n blocks of 4 doubles in
// each of 4 rows, pitch bytes apart.
TEXT ·add64x4(SB), NOSPLIT, $0-40
	ROWS

loop:
	FETCH
	VMOVUPD (SI), Y6
	VMOVUPD (R8), Y7
	VADDPD  (R9), Y6, Y6
	VADDPD  (R10), Y7, Y7
	VADDPD  Y7, Y6, Y6
	VPERMPD $0xd8, Y6, Y6
	ADD4(Y6)
	NEXT_ROWS

// func add64(acc, x unsafe.Pointer, n int), of n blocks of 4 doubles.
TEXT ·add64(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VPERMPD $0xd8, (SI), Y6
	ADD4(Y6)
	ADDQ    $32, SI
	ADDQ    $64, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func exactValues(x unsafe.Pointer, n int), of n blocks of 4 exact sums: their
// values, at the beginning of x. The sum and its rest, or the sum where that is NaN.
TEXT ·exactValues(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ SI, DI

loop:
	VMOVUPD   (SI), Y0
	VMOVUPD   32(SI), Y1
	VUNPCKLPD Y1, Y0, Y2
	VUNPCKHPD Y1, Y0, Y3
	VADDPD    Y3, Y2, Y3
	VCMPPD    $3, Y3, Y3, Y4
	VBLENDVPD Y4, Y2, Y3, Y3
	VPERMPD   $0xd8, Y3, Y3
	VMOVUPD   Y3, (DI)
	ADDQ      $64, SI
	ADDQ      $32, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET
