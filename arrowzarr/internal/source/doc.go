// Package source has the contract between the inputs of a conversion and what reads them.
// A [Source] yields the record batches of one input in order, for some columns and a range
// of rows, and says what is known without reading values.
//
// Packages below implement it: ipc, parquet and text for one file each, and inputs for
// files, folders, patterns and URLs, whose formats it finds out. A [File] is what they
// read, and a [Mapping] is one that is read in place.
package source
