package cudabuf

// SetStaging chooses how a device copies ordinary memory: from threshold bytes
// on, in parts of least to piece bytes, by so many workers. No copy may be under
// way.
func (d *Device) SetStaging(threshold, least, piece int64, workers int) error {
	err := d.staging.trim()
	d.staging = newStaging(d, stagingParameters{threshold: threshold, workers: workers, piece: piece, least: least})
	return err
}
