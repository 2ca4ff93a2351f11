// Package pack copies many ranges of one buffer to positions in another buffer of the same
// device: encoded chunks into one contiguous buffer, which then crosses the link once, or
// the parts of a container to their places in it.
//
// On a GPU one kernel copies all ranges of a batch, up to a million and of any size. A
// range may begin at any offset. The CPU device copies with all cores.
package pack
