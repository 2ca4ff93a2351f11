// Package zarr reads and writes hierarchies of Zarr v2 and v3 whose chunks are decoded to,
// and encoded from, memory of any device.
//
// [ArrayMetadata] describes an array. [Create] writes it and returns an [Array]; [Open]
// reads it back. Elements are element.Values: an ndview.NDBuffer, or an element.VLen
// for strings. Readers allocate from a [Prototype]; its zero value allocates on
// the host. A [Group] holds arrays and groups, and [Group.Consolidate] stores the
// metadata of all of them in one document.
//
// Package codec converts chunks to bytes, and package store keeps the bytes. Documents
// follow the Zarr core specification, version 3.1, or that of Zarr v2. As the
// specification demands, unknown extensions are refused; those errors wrap
// errors.ErrUnsupported. Nodes of both versions have the same types here, with a Format,
// and are found wherever they are; where both versions have a node, v3 wins.
package zarr
