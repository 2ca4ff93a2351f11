//go:build !amd64 || noasm

package elementwise

// addAssembly adds nothing: there is assembly for amd64 only.
func addAssembly(*[ops][Types]Loop) {}
