//go:build !linux && !darwin

package codec

type libzstd struct{ version string }

func openLibzstd() *libzstd { return nil }

type cctx struct{}

func (*libzstd) context(Zstd) (*cctx, error) { panic("codec: libzstd is unavailable") }

func (*cctx) encode(dst, src []byte) ([]byte, error) { panic("codec: libzstd is unavailable") }
