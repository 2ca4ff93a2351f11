// Package arrowdata has what sources, the conversion and the reading of tables share about
// Arrow data, and arrow-go lacks: panics of arrow-go as errors, the memory of arrays, the
// storage of extension types, and arrays converted to other types of the same values.
package arrowdata
