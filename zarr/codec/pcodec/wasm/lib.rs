//! pco for WebAssembly: the functions that zarr/codec/pcodec calls. Errors are negative.

use pco::data_types::{Number, NumberType};
use pco::standalone::{simple_compress, simple_decompress_into};
use pco::{ChunkConfig, DeltaSpec, ModeSpec, PagingSpec};
use std::alloc::{alloc, dealloc, Layout};

const ALIGNMENT: usize = 16;

/// Allocates n bytes, or returns 0.
#[no_mangle]
pub extern "C" fn allocate(n: usize) -> *mut u8 {
    match Layout::from_size_align(n.max(1), ALIGNMENT) {
        Ok(layout) => unsafe { alloc(layout) },
        Err(_) => std::ptr::null_mut(),
    }
}

/// Frees n bytes of allocate.
#[no_mangle]
pub unsafe extern "C" fn release(at: *mut u8, n: usize) {
    dealloc(at, Layout::from_size_align_unchecked(n.max(1), ALIGNMENT))
}

const CORRUPT: i32 = -1;
const WRONG_COUNT: i32 = -2;
const WRONG_TYPE: i32 = -3;

unsafe fn decode_as<T: Number>(src: &[u8], dst: *mut u8, n: usize) -> i32 {
    let dst = std::slice::from_raw_parts_mut(dst as *mut T, n);
    match simple_decompress_into::<T>(src, dst) {
        Ok(p) if p.finished && p.n_processed == n => 0,
        Ok(_) => WRONG_COUNT,
        Err(_) => CORRUPT,
    }
}

/// Decodes exactly n numbers of a type.
#[no_mangle]
pub unsafe extern "C" fn decode(kind: u8, src: *const u8, len: usize, dst: *mut u8, n: usize) -> i32 {
    let src = std::slice::from_raw_parts(src, len);
    match NumberType::from_descriminant(kind) {
        Some(NumberType::U16) => decode_as::<u16>(src, dst, n),
        Some(NumberType::U32) => decode_as::<u32>(src, dst, n),
        Some(NumberType::U64) => decode_as::<u64>(src, dst, n),
        Some(NumberType::I16) => decode_as::<i16>(src, dst, n),
        Some(NumberType::I32) => decode_as::<i32>(src, dst, n),
        Some(NumberType::I64) => decode_as::<i64>(src, dst, n),
        Some(NumberType::F16) => decode_as::<half::f16>(src, dst, n),
        Some(NumberType::F32) => decode_as::<f32>(src, dst, n),
        Some(NumberType::F64) => decode_as::<f64>(src, dst, n),
        _ => WRONG_TYPE,
    }
}

unsafe fn encode_as<T: Number>(src: *const u8, n: usize, config: &ChunkConfig) -> i64 {
    match simple_compress(std::slice::from_raw_parts(src as *const T, n), config) {
        Ok(v) => {
            let len = v.len();
            let at = allocate(len);
            if at.is_null() {
                return CORRUPT as i64;
            }
            std::ptr::copy_nonoverlapping(v.as_ptr(), at, len);
            ((at as i64) << 32) | len as i64
        }
        Err(_) => CORRUPT as i64,
    }
}

/// Encodes n numbers of a type. Returns the address and, in the low 32 bits, the length
/// of the result, which the caller releases.
#[no_mangle]
pub unsafe extern "C" fn encode(kind: u8, src: *const u8, n: usize, level: u32, classic: u32, delta: i32, page: usize) -> i64 {
    let config = ChunkConfig::default()
        .with_compression_level(level as usize)
        .with_mode_spec(if classic != 0 { ModeSpec::Classic } else { ModeSpec::Auto })
        .with_delta_spec(match delta {
            -1 => DeltaSpec::Auto,
            -2 => DeltaSpec::NoOp,
            -3 => DeltaSpec::TryLookback,
            order => DeltaSpec::TryConsecutive(order as usize),
        })
        .with_paging_spec(PagingSpec::EqualPagesUpTo(page));
    match NumberType::from_descriminant(kind) {
        Some(NumberType::U16) => encode_as::<u16>(src, n, &config),
        Some(NumberType::U32) => encode_as::<u32>(src, n, &config),
        Some(NumberType::U64) => encode_as::<u64>(src, n, &config),
        Some(NumberType::I16) => encode_as::<i16>(src, n, &config),
        Some(NumberType::I32) => encode_as::<i32>(src, n, &config),
        Some(NumberType::I64) => encode_as::<i64>(src, n, &config),
        Some(NumberType::F16) => encode_as::<half::f16>(src, n, &config),
        Some(NumberType::F32) => encode_as::<f32>(src, n, &config),
        Some(NumberType::F64) => encode_as::<f64>(src, n, &config),
        _ => WRONG_TYPE as i64,
    }
}
