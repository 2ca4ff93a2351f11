// zfp for WebAssembly: the functions that zarr/codec/zfpy calls.
#include <stdint.h>
#include <stdlib.h>
#include "zfp.h"

#define EXPORT(name) __attribute__((export_name(name)))

EXPORT("allocate") void *allocate(size_t n) { return malloc(n ? n : 1); }
EXPORT("release") void release(void *at, size_t n) { (void)n; free(at); }

static zfp_field *field_of(void *data, zfp_type type, uint32_t axes, const uint64_t *shape) {
  switch (axes) { // the last axis of the shape varies fastest, as x does
  case 1: return zfp_field_1d(data, type, shape[0]);
  case 2: return zfp_field_2d(data, type, shape[1], shape[0]);
  case 3: return zfp_field_3d(data, type, shape[2], shape[1], shape[0]);
  case 4: return zfp_field_4d(data, type, shape[3], shape[2], shape[1], shape[0]);
  }
  return 0;
}

enum { CORRUPT = -1, WRONG_TYPE = -2, WRONG_SHAPE = -3, WRONG_PARAMETERS = -4, NO_MEMORY = -5 };

// check returns 0 if a header is that of an array of the expected type and shape.
static int check(const zfp_field *read, const zfp_field *want) {
  if (read->type != want->type) return WRONG_TYPE;
  if (read->nx != want->nx || read->ny != want->ny || read->nz != want->nz || read->nw != want->nw) return WRONG_SHAPE;
  return 0;
}

// decompress decodes the rest of a stream of n bytes into a field.
static int32_t decompress(zfp_stream *zfp, bitstream *bits, uint32_t n, zfp_field *field) {
  if (!zfp_decompress(zfp, field)) return CORRUPT;
  return stream_size(bits) > ((size_t)n + 7) / 8 * 8 ? CORRUPT : 0; // it read on past the end
}

// decode decodes an array of a type and shape. Its header says how it was encoded. src
// has room for a word after its n bytes, since zfp reads whole words.
EXPORT("decode") int32_t decode(uint32_t type, uint32_t axes, const uint64_t *shape, void *src, uint32_t n, void *dst) {
  int32_t code = CORRUPT;
  zfp_field *want = field_of(dst, (zfp_type)type, axes, shape);
  zfp_field *read = zfp_field_alloc();
  bitstream *bits = stream_open(src, n);
  zfp_stream *zfp = zfp_stream_open(bits);
  if (!want || !read || !bits || !zfp) {
    code = NO_MEMORY;
  } else if (zfp_read_header(zfp, read, ZFP_HEADER_FULL) && (code = check(read, want)) == 0) {
    code = decompress(zfp, bits, n, want);
  }
  if (zfp) zfp_stream_close(zfp);
  if (bits) stream_close(bits);
  zfp_field_free(read);
  zfp_field_free(want);
  return code;
}

// decode_bare is decode without a header: the caller has zfp's parameters.
EXPORT("decode_bare") int32_t decode_bare(uint32_t type, uint32_t axes, const uint64_t *shape, void *src, uint32_t n, void *dst, uint32_t minbits, uint32_t maxbits, uint32_t maxprec, int32_t minexp) {
  int32_t code = NO_MEMORY;
  zfp_field *field = field_of(dst, (zfp_type)type, axes, shape);
  bitstream *bits = stream_open(src, n);
  zfp_stream *zfp = zfp_stream_open(bits);
  if (field && bits && zfp) {
    zfp_stream_rewind(zfp);
    code = zfp_stream_set_params(zfp, minbits, maxbits, maxprec, minexp) ? decompress(zfp, bits, n, field) : WRONG_PARAMETERS;
  }
  if (zfp) zfp_stream_close(zfp);
  if (bits) stream_close(bits);
  zfp_field_free(field);
  return code;
}

// compress encodes a field, with a header or without. It returns what encode does.
static int64_t compress(zfp_stream *zfp, zfp_field *field, int header) {
  size_t most = zfp_stream_maximum_size(zfp, field);
  void *out = most ? malloc(most) : 0;
  bitstream *bits = out ? stream_open(out, most) : 0;
  int64_t result = NO_MEMORY;
  if (bits) {
    zfp_stream_set_bit_stream(zfp, bits);
    zfp_stream_rewind(zfp);
    size_t n = !header || zfp_write_header(zfp, field, ZFP_HEADER_FULL) ? zfp_compress(zfp, field) : 0;
    result = n ? (int64_t)(uintptr_t)out << 32 | (int64_t)n : CORRUPT;
    stream_close(bits);
  }
  if (result < 0 && result >= NO_MEMORY) free(out);
  return result;
}

// encode encodes an array with a header. It returns the address and, in the low 32 bits,
// the length of the result, which the caller releases.
EXPORT("encode") int64_t encode(uint32_t type, uint32_t axes, const uint64_t *shape, void *src, uint32_t mode, double parameter) {
  int64_t result = NO_MEMORY;
  zfp_field *field = field_of(src, (zfp_type)type, axes, shape);
  zfp_stream *zfp = zfp_stream_open(0);
  if (field && zfp) {
    switch (mode) {
    case zfp_mode_fixed_rate: zfp_stream_set_rate(zfp, parameter, (zfp_type)type, axes, zfp_false); break;
    case zfp_mode_fixed_precision: zfp_stream_set_precision(zfp, (uint32_t)parameter); break;
    case zfp_mode_fixed_accuracy: zfp_stream_set_accuracy(zfp, parameter); break;
    default: zfp_stream_set_reversible(zfp);
    }
    result = compress(zfp, field, 1);
  }
  if (zfp) zfp_stream_close(zfp);
  zfp_field_free(field);
  return result;
}

// encode_bare is encode without a header, for zfp's parameters.
EXPORT("encode_bare") int64_t encode_bare(uint32_t type, uint32_t axes, const uint64_t *shape, void *src, uint32_t minbits, uint32_t maxbits, uint32_t maxprec, int32_t minexp) {
  int64_t result = NO_MEMORY;
  zfp_field *field = field_of(src, (zfp_type)type, axes, shape);
  zfp_stream *zfp = zfp_stream_open(0);
  if (field && zfp) result = zfp_stream_set_params(zfp, minbits, maxbits, maxprec, minexp) ? compress(zfp, field, 0) : WRONG_PARAMETERS;
  if (zfp) zfp_stream_close(zfp);
  zfp_field_free(field);
  return result;
}
