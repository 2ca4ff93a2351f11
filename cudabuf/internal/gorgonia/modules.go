//go:build modules

package gorgonia

// gorgonia.org/cu requires, by way of old modules, a google.golang.org/genproto that still
// contains googleapis/rpc, which is now a module of its own. A program that imports Quiver
// and arrow-go's pqarrow would find both, and "go mod tidy" would stop with an ambiguous
// import. This import keeps a newer genproto in go.mod; no build has the tag.
import _ "google.golang.org/genproto/googleapis/type/date"
