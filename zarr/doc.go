// Package zarr reads and writes Zarr v3 hierarchies, with chunks whose elements
// are on any device.
//
// An [ArrayMetadata] says what an array is. [Create] writes it and gives an
// [Array], [Open] reads it back; chunks, rows and whole arrays are read and
// written as element.Values, which are ndview.NDBuffers or, for strings,
// element.VLens. An ndview.Prototype says where to: its zero value to the host.
// [Group]s hold arrays and groups, and can consolidate the metadata of all of
// them in one document.
//
// Package codec turns chunks into bytes, package store keeps the bytes. What is
// written here follows the Zarr core specification, version 3.1; what is not
// understood is refused, as it demands, with errors.ErrUnsupported for things
// that exist but that this package lacks.
package zarr
