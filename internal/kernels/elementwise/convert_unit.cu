// Converts times to another unit, as internal/tick does on the host.

#include "common/warp.cuh"

constexpr int64_t not_a_time = (int64_t)0x8000000000000000;

struct Scale { uint64_t num, denom; };
struct Conversion {
    Scale first, last;
    uint64_t calendar;  // 1: days to months, 2: months to days
};

// out = floor(v * num / denom). Returns false if an int64 cannot hold it.
__device__ bool scale(const Scale& s, int64_t v, int64_t& out) {
    const uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    uint64_t low = magnitude * s.num, high = __umul64hi(magnitude, s.num);
    if (v < 0) {  // rounding down is away from zero here
        low += s.denom - 1;
        high += low < s.denom - 1;
    }
    if (high >= s.denom) return false;
    uint64_t quotient;
    if (s.denom == 1) quotient = low;
    else if (high == 0) quotient = low / s.denom;
    else {
        quotient = 0;
        for (int bit = 63; bit >= 0; bit--) {
            const bool carry = high >> 63;
            high = high << 1 | (low >> bit & 1);
            if (carry || high >= s.denom) {
                high -= s.denom;
                quotient |= 1ull << bit;
            }
        }
    }
    if (quotient >> 63) return false;
    out = v < 0 ? -(int64_t)quotient : (int64_t)quotient;
    return true;
}

__device__ int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

constexpr int64_t cycle = 146097, epoch = 719468;

__device__ int64_t first_day(int64_t month) {
    const int64_t from_march = month - 2, years = floor_div(from_march, 12), m = from_march - 12 * years;
    const int64_t year = 1970 + years, era = floor_div(year, 400), y = year - 400 * era;
    return era * cycle + y * 365 + y / 4 - y / 100 + (153 * m + 2) / 5 - epoch;
}

__device__ int64_t month_of(int64_t day) {
    int64_t era = floor_div(day, cycle), d = day - cycle * era + epoch;
    era += d / cycle;
    d %= cycle;
    const int64_t y = (d - d / 1460 + d / 36524 - d / 146096) / 365;
    d -= 365 * y + y / 4 - y / 100;
    return (era * 400 + y - 1970) * 12 + (5 * d + 2) / 153 + 2;
}

__device__ bool convert(const Conversion& c, int64_t v, int64_t& out) {
    if (v == not_a_time) {
        out = v;
        return true;
    }
    if (!scale(c.first, v, out)) return false;
    if (c.calendar == 0) return true;
    if (c.calendar == 1) v = month_of(out);
    else {
        constexpr int64_t most = 0x7fffffffffffffff / 31;
        if (out > most || out < -most) return false;
        v = first_day(out);
    }
    return scale(c.last, v, out);
}

// out[i] = in[i] in the other unit, for 0 <= i < n. If an int64 cannot hold one, out[i] is
// not written and *bad becomes 1.
extern "C" __global__ void quiver_convert_unit(const int64_t* in, int64_t* out, int64_t n, const Conversion c, uint32_t* bad) {
    const int64_t i = thread_index();
    if (i >= n) return;
    int64_t count;
    if (convert(c, in[i], count)) out[i] = count;
    else *bad = 1;
}
