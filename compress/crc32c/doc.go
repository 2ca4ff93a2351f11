// Package crc32c makes and verifies CRC-32C (Castagnoli) checksums of many ranges of a
// buffer on its device: the checksums of Zarr's codec crc32c, which are stored as 4 bytes,
// little-endian.
//
// On a GPU a range is divided among warps and threads. They add words to later words by a
// sparse multiple of the polynomial, and combine remainders by multiplication with powers
// of x. The CPU device has hash/crc32.
package crc32c
