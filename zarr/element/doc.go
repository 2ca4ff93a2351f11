// Package element says what the elements of a Zarr array are ([Type]), how
// metadata writes their types and fill values, and how their values lie in
// memory ([Values]).
//
// Elements of fixed width are an ndview.NDBuffer, on any device. Strings and
// byte strings, whose lengths vary, are a [VLen], which has the layout of
// Arrow's string columns: offsets into a run of bytes, on the host.
package element
