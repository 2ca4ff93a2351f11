package ipc

import (
	"os"

	"github.com/quiver-gpu/quiver/cudabuf"
)

// exportedPool is a pool of which a server shares memory as it is, while blocks of
// it are there.
type exportedPool struct {
	store  *store
	of     *cudabuf.SharedPool
	number uint64
	file   *os.File
	blocks int // of the store's books
}

// pool exports a pool, once for all its blocks. The caller releases the result.
func (s *store) pool(of *cudabuf.SharedPool) (*exportedPool, error) {
	if p := s.findPool(of); p != nil {
		return p, nil
	}
	file, err := of.ExportFD()
	if err != nil {
		return nil, err
	}
	p := &exportedPool{store: s, of: of, file: file, blocks: 1}
	s.do(func() {
		if there := s.pools[of]; there != nil { // another was faster
			s.later = append(s.later, func() { _ = file.Close() })
			there.blocks++
			p = there
			return
		}
		s.next++
		p.number = s.next
		s.pools[of] = p
	})
	return p, nil
}

func (s *store) findPool(of *cudabuf.SharedPool) (p *exportedPool) {
	s.do(func() {
		if p = s.pools[of]; p != nil {
			p.blocks++
		}
	})
	return p
}

func (p *exportedPool) release() {
	p.store.do(func() {
		if p.blocks--; p.blocks == 0 {
			delete(p.store.pools, p.of)
			p.store.later = append(p.store.later, func() { _ = p.file.Close() })
		}
	})
}
