package cudabuf

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// SetStaging chooses how a device copies ordinary memory: from threshold bytes
// on, in parts of least to piece bytes, by so many workers. No copy may be under
// way.
func (d *Device) SetStaging(threshold, least, piece int64, workers int) error {
	err := d.staging.trim()
	d.staging = newStaging(d, stagingParameters{threshold: threshold, workers: workers, piece: piece, least: least})
	return err
}

// HostRanges is how many ranges of pinned memory the device's driver knows, of
// allocators and of HostBuffers.
func (d *Device) HostRanges() (pinned, hosted int) {
	return len(d.driver.pinned.ranges), len(d.driver.hosted.ranges)
}

// PinElsewhere takes pinned memory of the driver as another library would.
func (d *Device) PinElsewhere(n int64) (memory []byte, free func(), err error) {
	address, err := d.lockHost(n, driver.HostAllocPortable)
	if err != nil {
		return nil, nil, err
	}
	return hostSlice(address, n), func() { _ = d.hostFree(address) }, nil
}
