#include "textflag.h"
#include "castvector_amd64.h"

// Casts of integers up to 32 bits to complex numbers, for processors with AVX2. An
// integer of 64 bits is two of 32, of which Y15 keeps the lower: the real part. The
// other becomes 0.

#define COMPLEX(extend, from, to) \
	extend    from(SI), Y0 \
	VPAND     Y15, Y0, Y0  \
	VCVTDQ2PS Y0, Y0       \
	VMOVUPS   Y0, to(DI)

#define COMPLEX_DOUBLE(extend, from, to) \
	extend    from(SI), X0 \
	VPAND     X15, X0, X0  \
	VCVTDQ2PD X0, Y0       \
	VMOVUPD   Y0, to(DI)

#define KEEP_LOWER \
	VPCMPEQD Y15, Y15, Y15 \
	VPSRLQ   $32, Y15, Y15

// func name(dst, src unsafe.Pointer, n int), of integers of so many bytes
#define TO_COMPLEX(name, extend, size) \
TEXT name(SB), NOSPLIT, $0-24          \
	ENTER                              \
	SHLQ $1, CX                        \
	KEEP_LOWER                         \
loop:                                  \
	COMPLEX(extend, 0*size, 0)         \
	COMPLEX(extend, 4*size, 32)        \
	COMPLEX(extend, 8*size, 64)        \
	COMPLEX(extend, 12*size, 96)       \
	NEXT(16*size, 128)

TO_COMPLEX(·u8toComplex, VPMOVZXBQ, 1)
TO_COMPLEX(·i8toComplex, VPMOVSXBQ, 1)
TO_COMPLEX(·u16toComplex, VPMOVZXWQ, 2)
TO_COMPLEX(·i16toComplex, VPMOVSXWQ, 2)
TO_COMPLEX(·i32toComplex, VPMOVSXDQ, 4)

// func name(dst, src unsafe.Pointer, n int), of integers of so many bytes
#define TO_COMPLEX_DOUBLE(name, extend, size) \
TEXT name(SB), NOSPLIT, $0-24          \
	ENTER                              \
	SHLQ $2, CX                        \
	KEEP_LOWER                         \
loop:                                  \
	COMPLEX_DOUBLE(extend, 0*size, 0)  \
	COMPLEX_DOUBLE(extend, 2*size, 32) \
	COMPLEX_DOUBLE(extend, 4*size, 64) \
	COMPLEX_DOUBLE(extend, 6*size, 96) \
	NEXT(8*size, 128)

TO_COMPLEX_DOUBLE(·u8toComplexDouble, VPMOVZXBQ, 1)
TO_COMPLEX_DOUBLE(·i8toComplexDouble, VPMOVSXBQ, 1)
TO_COMPLEX_DOUBLE(·u16toComplexDouble, VPMOVZXWQ, 2)
TO_COMPLEX_DOUBLE(·i16toComplexDouble, VPMOVSXWQ, 2)
TO_COMPLEX_DOUBLE(·i32toComplexDouble, VPMOVSXDQ, 4)
